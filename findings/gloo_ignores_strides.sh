#!/bin/sh
# PyTorch 2.13.0, torch.distributed with gloo, 2 processes on 127.0.0.1.
#
# Surprise: all_reduce, broadcast, reduce and scatter of a tensor that is not contiguous neither raise nor
# use its strides. They take its address for that of a contiguous tensor of as many elements. So summing the
# column base[:, 1] sums the first row from its second element on: two elements of the column keep their
# old values, and two elements outside of the tensor change. all_gather writes the same tensor correctly, and
# send and recv of it raise "input tensor has to be contiguous".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat > "$folder/program.py" <<'PROGRAM'
import sys
import torch
import torch.distributed as dist

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)


def after(function):
    base = torch.arange(9.0).reshape(3, 3) + 100 * rank
    function(base[:, 1])
    return base.tolist()


ones = torch.ones(3)
found = {
    "all_reduce": after(dist.all_reduce),
    "broadcast": after(lambda x: dist.broadcast(x, 1)),
    "reduce": after(lambda x: dist.reduce(x, 0)),
    "scatter": after(lambda x: dist.scatter(x, None if rank else [ones, ones])),
    "all_gather": after(lambda x: dist.all_gather([x, torch.empty(3)], ones)),
}
try:
    found["send"] = after(lambda x: dist.recv(x, 0) if rank else dist.send(x, 1))
except RuntimeError as error:
    found["send"] = str(error)
if rank == 0:
    for name, values in found.items():
        print(name, values)
dist.destroy_process_group()
PROGRAM
export GLOO_SOCKET_IFNAME=lo
timeout 120 "$folder/venv/bin/python" "$folder/program.py" 1 "$folder/meeting" &
timeout 120 "$folder/venv/bin/python" "$folder/program.py" 0 "$folder/meeting" > "$folder/found"
wait $!
cat > "$folder/expected" <<'OUTPUT'
all_reduce [[0.0, 102.0, 104.0], [106.0, 4.0, 5.0], [6.0, 7.0, 8.0]]
broadcast [[0.0, 101.0, 102.0], [103.0, 4.0, 5.0], [6.0, 7.0, 8.0]]
reduce [[0.0, 102.0, 104.0], [106.0, 4.0, 5.0], [6.0, 7.0, 8.0]]
scatter [[0.0, 1.0, 1.0], [1.0, 4.0, 5.0], [6.0, 7.0, 8.0]]
all_gather [[0.0, 1.0, 2.0], [3.0, 1.0, 5.0], [6.0, 1.0, 8.0]]
send input tensor has to be contiguous
OUTPUT
cat "$folder/found"
diff "$folder/expected" "$folder/found"
