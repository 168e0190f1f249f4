#!/usr/bin/env bash
# In the operator Unique of ONNX Runtime 1.32, CPU, a NaN equals every number. So of a tensor that begins with
# NaN nothing else is left, and any later NaN is counted as one of the numbers before it. ONNX's own reference
# evaluator and NumPy, to which the operator's description refers, keep NaN apart.
#
# Seen: the values of [nan, 1, 2, 3] are [nan], counted 4 times; of [1, 2, nan, 3, nan], 1 is counted 3 times,
# and nan is missing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0
cat > "$folder/program.py" <<'EOF'
import numpy as np
import onnx.parser
import onnxruntime
from onnx.reference import ReferenceEvaluator

model = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["": 11]> graph (float[n] x) => (float[m] values, int64[m] counts)'
    "{values, first, inverse, counts = Unique(x)}"
)
runtime = onnxruntime.InferenceSession(
    model.SerializeToString(), providers=["CPUExecutionProvider"]
)
nan = np.nan
for numbers, seen_values, seen_counts in (
    ([nan, 1, 2, 3], [nan], [4]),
    ([1, 2, nan, 3, nan], [1, 2, 3], [3, 1, 1]),
):
    x = np.array(numbers, np.float32)
    values, counts = runtime.run(None, {"x": x})
    print(numbers, values.tolist(), counts.tolist())
    np.testing.assert_array_equal(values, seen_values)
    np.testing.assert_array_equal(counts, seen_counts)
    for expected, of_numpy in zip(
        ReferenceEvaluator(model).run(None, {"x": x}), np.unique(x, return_counts=True), strict=True
    ):
        np.testing.assert_array_equal(expected, of_numpy)
EOF
"$folder/venv/bin/python" "$folder/program.py"
