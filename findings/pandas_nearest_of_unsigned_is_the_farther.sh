#!/usr/bin/env bash
# method="nearest" of pandas 3.1, in get_indexer and reindex, subtracts numbers from the labels of an index of unsigned
# integers in their own dtype. The difference to the label below is negative, so it wraps around to a large distance,
# and any number between two labels gets the label above. If the index descends, numbers above its largest label get
# none, and reindex makes them NaN. There is no warning. Indexes of signed integers and floats are right, and so is
# merge_asof with direction="nearest" for unsigned ones. sel of xarray uses the same code. One would have expected the
# nearest label. It matters since channels, pixels and ticks are unsigned. Convert the index to int64 before.
#
# Seen: of the labels 10 and 200 the nearest to 11, 50 and 104 is 200 in uint8 to uint64, and 10 in int64 and float64.
# xarray's sel(x=11, method="nearest") gives the value at 200. For the labels 200 and 10 the nearest to 201 is NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numpy==2.4.6 pandas==3.1.1 xarray==2026.9.0
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
import pandas as pd
import xarray as xr

warnings.simplefilter("error")  # so that a warning would be seen
right_labels = [10, 10, 10, 10, 200, 200, 200]


def nearest(dtype, labels=(10, 200)):
    """The labels nearest to some numbers, by reindex, and if they ascend by xarray and merge_asof as well."""
    labels, numbers = np.array(labels, dtype), np.array([9, 11, 50, 104, 106, 199, 201], dtype)
    series = pd.Series(labels.astype("i8"), index=labels)
    found = series.reindex(numbers, method="nearest").tolist()
    print(np.dtype(dtype), numbers, found)
    if labels[0] < labels[1]:
        array = xr.DataArray(labels, coords={"x": labels}, dims="x")
        assert array.sel(x=numbers, method="nearest").values.tolist() == found
        left, right = pd.DataFrame({"x": numbers}), pd.DataFrame({"x": labels, "label": labels})
        joined = pd.merge_asof(left, right, on="x", direction="nearest")
        assert joined["label"].tolist() == right_labels
    return found


for dtype in ("i2", "i8", "f8"):
    for labels in ((10, 200), (200, 10)):
        assert nearest(dtype, labels) == right_labels
for dtype in ("u1", "u2", "u4", "u8"):
    assert nearest(dtype) == [10, 200, 200, 200, 200, 200, 200]
    found = nearest(dtype, (200, 10))
    assert found[:6] == [10, 200, 200, 200, 200, 200] and np.isnan(found[6])
END
"$folder/venv/bin/python" "$folder/program.py"
