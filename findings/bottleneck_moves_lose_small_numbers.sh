#!/usr/bin/env bash
# The moving functions of Bottleneck 1.6 keep a running sum, add what enters the window and subtract what
# leaves it. So one large element spoils all windows after it, also those that do not hold it: what its
# rounding has lost does not come back. pandas computes the same windows right.
#
# Seen: move_sum of [1e16, 1, 1, 1] by windows of two ends in 0, 0; pandas' rolling sum ends in 2, 2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 bottleneck==1.6.0 pandas==3.1.1
"$folder/venv/bin/python" - <<'EOF'
import bottleneck
import numpy as np
import pandas

x = np.array([1e16, 1, 1, 1])
of_bottleneck = bottleneck.move_sum(x, 2)[2:].tolist()
of_pandas = pandas.Series(x).rolling(2).sum().to_numpy()[2:].tolist()
print("Bottleneck:", of_bottleneck, "pandas:", of_pandas)
assert of_bottleneck == [0, 0]
assert of_pandas == [2, 2]
EOF
