#!/usr/bin/env bash
# mpi4py 4.1 sends a transposed array in the order of its memory, not of its elements, and says
# nothing. It takes any array that is contiguous in C or Fortran order for a run of bytes, so a receiver
# of the same shape gets other elements. A view with gaps is refused.
#
# Seen: sent [[0, 3], [1, 4], [2, 5]], received [[0, 1], [2, 3], [4, 5]] into an array of the same shape.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 mpi4py==4.1.2 mpich==5.0.2
cat > "$folder/program.py" <<'EOF'
import numpy as np
from mpi4py import MPI

sent = np.arange(6.0).reshape(2, 3).T
received = np.zeros(sent.shape)
request = MPI.COMM_SELF.Irecv(received, 0)
MPI.COMM_SELF.Send(sent, 0)
request.Wait()
print(sent.tolist(), received.tolist())
assert received.tolist() == [[0, 1], [2, 3], [4, 5]]
EOF
"$folder/venv/bin/python" "$folder/program.py"
