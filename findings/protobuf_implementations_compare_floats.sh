#!/usr/bin/env bash
# Whether two messages with NaN, or with 0.0 and -0.0, are equal depends on the implementation that protobuf
# 7.36 for Python runs. The compiled one, upb, compares the bits, and the one in pure Python, which
# PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python selects, the numbers. So both tests have opposite results, and
# with upb a message may differ from another one although all their fields are equal in Python.
#
# Seen: two messages with NaN are equal with upb and not in pure Python, and messages with 0.0 and -0.0 are
# equal in pure Python and not with upb. So are messages that hold them in a repeated field.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q protobuf==7.36.2
cat > "$folder/program.py" <<'EOF'
import math
import sys

from google.protobuf.internal import api_implementation
from google.protobuf.struct_pb2 import ListValue, Value


def single(text):
    return Value(number_value=float(text))


def repeated(text):
    return ListValue(values=[single(text)])


implementation = api_implementation.Type()
assert implementation == sys.argv[1]
by_bits = implementation == "upb"
for message in (single, repeated):
    nan_equal = message("nan") == message("nan")
    zeros_equal = message("0.0") == message("-0.0")
    print(implementation, message.__name__, "NaN:", nan_equal, "zeros:", zeros_equal)
    assert nan_equal is by_bits
    assert zeros_equal is not by_bits

assert math.isnan(single("nan").number_value)
assert single("0.0").number_value == single("-0.0").number_value
assert single("0.0").ListFields()[0][1] == single("-0.0").ListFields()[0][1]
EOF
"$folder/venv/bin/python" "$folder/program.py" upb
PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python "$folder/venv/bin/python" "$folder/program.py" python
