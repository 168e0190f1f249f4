#!/usr/bin/env bash
# mean_horizontal of Polars 2.1, the mean of each row, adds the columns in their own dtype before it divides. In small
# integers, such as marks, pixels and counts, the sum wraps around, so the mean of two equal numbers may be another
# number, or a negative one. The result is a float64, so nothing tells. The means of a column, of a list and of an
# array of the same numbers are right, and one column of floats beside them makes the mean of the row right, too. One
# would have expected a float to be summed as one. It matters since no mean can be outside of its numbers, and nobody
# checks that. Cast the columns to Float64 before.
#
# Seen: in UInt8 the means of 200 and 100, of 100 and 200, and of 255 and 255 are 22, 22 and 127, and with a third
# column of the floats 0.0 they are 100, 100 and 170. In Int8 the mean of 100 and 100 is -28, and in Int64 that of
# 2**62 and 2**62 is -2**62.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 polars==2.1.0
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
import polars as pl

warnings.simplefilter("error")  # so that a warning would be seen


def means(dtype, left, right, **others):
    """The mean of each row by mean_horizontal, by the mean of a list and by NumPy."""
    frame = pl.DataFrame({"a": pl.Series(left, dtype=dtype), "b": pl.Series(right, dtype=dtype), **others})
    found = frame.select(
        rows=pl.mean_horizontal(pl.all()),
        lists=pl.concat_list("a", "b").list.mean(),
        arrays=pl.concat_arr("a", "b").arr.mean(),
    )
    print(dtype, found.to_dict(as_series=False))
    assert found.dtypes == [pl.Float64] * 3
    right = np.mean([np.array(left, float), np.array(right, float)], axis=0).tolist()
    if not others:
        assert found["lists"].to_list() == found["arrays"].to_list() == right
    return found["rows"].to_list()


left, right = [200, 100, 255], [100, 200, 255]
assert means(pl.UInt8, left, right) == [22, 22, 127]
for dtype in (pl.Int16, pl.UInt32, pl.Float64):
    assert means(dtype, left, right) == [150, 150, 255]
assert means(pl.UInt8, left, right, c=[0.0, 0.0, 0.0]) == [100, 100, 170]
assert means(pl.Int8, [100], [100]) == [-28]
assert means(pl.UInt16, [40000], [40000]) == [(80000 - 2**16) / 2]
assert means(pl.UInt8, [100], [100]) == [100]

frame = pl.DataFrame({"a": [2**62], "b": [2**62]})
assert frame.select(pl.mean_horizontal("a", "b")).item() == -(2**62)
assert pl.Series([2**62, 2**62]).mean() == 2**62
END
"$folder/venv/bin/python" "$folder/program.py"
