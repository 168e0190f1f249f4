#!/usr/bin/env bash
# ak.from_json of Awkward Array 2.14 reads the integers of JSON from 2**63 to 2**64 - 1 as negative ones, without a
# word. Smaller integers are int64, and both those from 2**64 on and those below -2**63 become float64. One would
# have expected float64 for all that int64 does not hold, or uint64. It matters since hashes and identifiers of 64
# bits, usual in event data, become other ones, and a maximum or a cut is wrong.
#
# Seen: 9223372036854775808 is -9223372036854775808 and 18446744073709551615 is -1, of int64, also in a list with a
# float, and with a schema that says "integer"; 18446744073709551616 is 1.8446744073709552e+19.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 awkward==2.14.0
cat > "$folder/program.py" <<'END'
import json
import warnings

import awkward as ak

warnings.simplefilter("error")  # so that a warning would be seen
schema = {"type": "array", "items": {"type": "integer"}}
for number in (2**63 - 1, -(2**63)):
    assert ak.from_json(json.dumps([number])).tolist() == [number]
for number in (2**64, -(2**63) - 1):
    seen = ak.from_json(json.dumps([number]))
    assert seen.tolist() == [float(number)] and str(seen.type) == "1 * float64"
for number in (2**63, 2**63 + 5, 2**64 - 1):
    seen = ak.from_json(json.dumps([number]))
    print(number, seen.tolist(), seen.type)
    assert seen.tolist() == [number - 2**64] and str(seen.type) == "1 * int64"
    assert ak.from_json(json.dumps([number]), schema=schema).tolist() == [number - 2**64]
    assert ak.from_json(json.dumps([number, 1.5])).tolist() == [float(number - 2**64), 1.5]
END
"$folder/venv/bin/python" "$folder/program.py"
