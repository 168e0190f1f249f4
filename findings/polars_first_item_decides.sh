#!/usr/bin/env bash
# Polars 2.1 decides once in a process how it converts the items of a type, by the first item of that
# type that it sees. For a type whose items may be floats or integers, such as 0-d arrays, the same
# call gives another result or raises, depending on what was converted before: after a float, integers
# become floats and lose digits; after an integer, floats raise, or become null with strict=False.
#
# Seen: [9007199254740992.0, 2.0] for 2**53 + 1 and 2 after a float; OverflowError ("int value too
# large") and [None, None] for 1.5 and 2.5 after an integer.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 polars==2.1.0 array-api-strict==2.6.1
cat > "$folder/program.py" <<'EOF'
import subprocess
import sys

START = '''
import array_api_strict as xp, polars as pl
floats, integers = list(xp.asarray([1.5, 2.5])), list(xp.asarray([2**53 + 1, 2]))
'''
AFTER_A_FLOAT = '''
pl.Series(floats)
print(pl.Series(integers).to_list())
assert pl.Series(integers).to_list() == [2.0**53, 2.0]
'''
AFTER_AN_INTEGER = '''
assert pl.Series(integers).to_list() == [2**53 + 1, 2]
try:
    pl.Series(floats)
except OverflowError as error:
    print(error)
else:
    raise SystemExit("no error")
print(pl.Series(floats, strict=False).to_list())
assert pl.Series(floats, strict=False).to_list() == [None, None]
'''
for order in (AFTER_A_FLOAT, AFTER_AN_INTEGER):
    subprocess.run([sys.executable, "-c", START + order], check=True)
EOF
"$folder/venv/bin/python" "$folder/program.py"
