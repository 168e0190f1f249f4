#!/usr/bin/env bash
# PyArrow 26 ignores two parts of a NumPy dtype. Its tensors, dense and sparse, take an array in the other byte
# order for one in native order; pa.array refuses such an array. And pa.array takes datetime64[25s], which
# counts units of 25 seconds, for datetime64[s]; pandas, Polars and DuckDB refuse such a dtype.
#
# Seen: a Tensor of the big-endian int32 numbers 1 and 2 has 16777216 and 33554432. Five units of 25 seconds
# become 5 seconds, not 125, and the datetime 00:02:05 becomes 00:00:05.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 pyarrow==26.0.1
cat > "$folder/program.py" <<'EOF'
import datetime
import sys

import numpy as np
import pyarrow as pa

assert sys.byteorder == "little"
big_endian = np.array([[1, 2]], ">i4")
assert pa.Tensor.from_numpy(big_endian.astype(np.int32)).to_numpy().tolist() == [[1, 2]]
for tensor in (
    pa.Tensor.from_numpy(big_endian),
    pa.SparseCOOTensor.from_dense_numpy(big_endian).to_tensor(),
    pa.SparseCSRMatrix.from_dense_numpy(big_endian).to_tensor(),
):
    print(tensor.to_numpy())
    assert tensor.to_numpy().tolist() == [[1 << 24, 2 << 24]]
try:
    pa.array(big_endian[0])
except pa.ArrowNotImplementedError as error:
    assert "Byte-swapped arrays not supported" in str(error)
else:
    raise AssertionError("pa.array takes big-endian arrays")

duration = np.array([5], "m8[25s]")
assert duration.astype("m8[s]").astype(int) == 5 * 25
moment = np.array(["1970-01-01T00:02:05"], "M8[25s]")
seen = pa.array(duration).to_pylist() + pa.array(moment).to_pylist()
print(seen)
assert seen == [datetime.timedelta(seconds=5), datetime.datetime(1970, 1, 1, 0, 0, 5)]
EOF
"$folder/venv/bin/python" "$folder/program.py"
