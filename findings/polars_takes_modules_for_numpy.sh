#!/usr/bin/env bash
# Polars 2.1 takes an object for one of NumPy's if the text "numpy." is anywhere in the name of its
# class or of a base, such as a class in the module "mine.numpy.numbers". It then asks NumPy for the
# dtype of the class and refuses the object, which it takes by __float__ if the module has another name.
#
# Seen: [1.5] for a class of mine.other.numbers; ValueError "cannot parse numpy data type dtype('O')"
# for the same class in mine.numpy.numbers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q numpy==2.4.6 polars==2.1.0
cat > "$folder/program.py" <<'EOF'
import polars as pl

SOURCE = "class Number:\n    def __float__(self): return 1.5\n"


def number(module):
    names = {"__name__": module}
    exec(SOURCE, names)
    return names["Number"]()


taken = pl.Series([number("mine.other.numbers")]).to_list()
try:
    pl.Series([number("mine.numpy.numbers")])
except ValueError as error:
    print(taken, error)
else:
    raise SystemExit("no error")
assert taken == [1.5]
EOF
"$folder/venv/bin/python" "$folder/program.py"
