#!/usr/bin/env bash
# Geometries of Shapely 2.2 that are equal by == and by equals_identical may have different hashes: == compares the
# coordinates as numbers, and the hash is one of their bytes. So 0.0 and -0.0, which rounding and reflection make,
# are equal coordinates, but not the same key. Python's floats, and tuples of them, keep equal hashes for both.
# One would have expected a set to hold one of two equal points. It matters since joins, counts and the search for
# duplicates by a set, a dict or pandas miss them.
#
# Seen: the point (-0.2, 1), rounded, equals POINT (0 1) and has the same text, is in a list of it, and not in a set.
# A box that was reflected equals the normalized box there, and pandas finds no duplicate.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 shapely==2.2.0 pandas==3.1.1
cat > "$folder/program.py" <<'END'
import numpy as np
import pandas as pd
import shapely

point = shapely.Point(0, 1)
rounded = shapely.transform(shapely.Point(-0.2, 1), np.round)
box = shapely.box(0, 0, 1, 1).normalize()
reflected = shapely.transform(shapely.box(-1, 0, 0, 1), lambda places: places * [-1, 1]).normalize()
assert point.wkt == rounded.wkt == "POINT (0 1)"
assert len({(0.0, 1.0), (-0.0, 1.0)}) == 1
for one, other in ((point, rounded), (box, reflected)):
    print(one, other, one == other, other in [one], other in {one}, pd.Series([one, other]).nunique())
    assert one == other and one.equals(other) and shapely.equals_identical(one, other)
    assert other in [one]
    assert hash(one) != hash(other)
    assert other not in {one} and {one: 1}.get(other) is None
    assert pd.Series([one, other]).nunique() == 2
assert shapely.Point(0, 1) in {point}
END
"$folder/venv/bin/python" "$folder/program.py"
