#!/usr/bin/env bash
# torch.chain_matmul(a, b, out=c) of PyTorch 2.13 leaves c as it is, without an error, if a matrix is of a
# subclass of Tensor or of another class with __torch_function__. Its dispatch passes the matrices on and
# forgets `out`. With plain tensors, and in torch.linalg.multi_dot([a, b], out=c), c is written.
#
# Seen: c is [0.0, 0.0] beside a subclass, [2.0, 2.0] beside tensors and with multi_dot.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 torch==2.13.0
cat > "$folder/program.py" <<'EOF'
import torch


class Matrix(torch.Tensor):
    pass


def written(function):
    c = torch.zeros(1, 2)
    function(c)
    return c[0].tolist()


plain, ones = torch.full((1, 2), 1.0), torch.ones(2, 2)
own = plain.as_subclass(Matrix)
beside_a_subclass = written(lambda c: torch.chain_matmul(own, ones, out=c))
beside_tensors = written(lambda c: torch.chain_matmul(plain, ones, out=c))
of_multi_dot = written(lambda c: torch.linalg.multi_dot([own, ones], out=c))
print(beside_a_subclass, beside_tensors, of_multi_dot)
assert beside_a_subclass == [0, 0]
assert beside_tensors == of_multi_dot == [2, 2]
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py"
