#!/usr/bin/env bash
# DataFrame.query and DataFrame.eval of pandas 3.1 use NumExpr as soon as it is installed. NumExpr 2.14 has no
# uint64, and takes it for int64 by its default casting, "same_kind", without a word. So a number of 2**63 or
# more becomes negative there, and query drops its row. Boolean indexing with the same comparison is right.
#
# Seen: query("a > 1") of the uint64 numbers 5 and 2**63 + 5 finds both without NumExpr, and only 5 with it.
# eval("a / 2") of the second is -4.6e18 then.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 pandas==3.1.1
cat > "$folder/program.py" <<'EOF'
import ast
import sys

import numpy as np
import pandas as pd

numbers = [5, 2**63 + 5]
frame = pd.DataFrame({"a": np.array(numbers, np.uint64)})
assert frame[frame.a > 1].a.tolist() == numbers
assert frame.query("a > 1", engine="python").a.tolist() == numbers

found = frame.query("a > 1").a.tolist()
halves = frame.eval("a / 2").tolist()
print(found, halves)
assert found == ast.literal_eval(sys.argv[1])
assert halves == ast.literal_eval(sys.argv[2])
EOF
"$folder/venv/bin/python" "$folder/program.py" "[5, 9223372036854775813]" "[2.5, 4611686018427387906.5]"
"$folder/venv/bin/python" -m pip install -q numexpr==2.14.2
"$folder/venv/bin/python" "$folder/program.py" "[5]" "[2.5, -4611686018427387901.5]"
