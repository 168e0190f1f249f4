#!/usr/bin/env bash
# h5py 3.16 stores numbers that do not fit into the integers of a dataset in two ways, without a word. NumPy's numbers
# wrap around, as NumPy casts them, and arrays are clipped to the range, as the HDF5 library casts them, also arrays of
# one element. attrs.create wraps, and attrs.modify of the same attribute clips. A read with astype clips, and astype of
# the array wraps. Python's integers that do not fit raise. One would have expected one rule. It matters since a loop
# that stores number by number and one assignment of the array make two files, and neither of them raises. Convert and
# check the array before.
#
# Seen: 300 and -1 in a dataset of uint8 are 255 and 0 from the array, and 44 and 255 from its elements. Read with
# astype("u1"), 300 and -1 of int64 are 255 and 0, and converted after the read 44 and 255.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 h5py==3.16.0
cat > "$folder/program.py" <<'END'
import sys
import warnings

import h5py
import numpy as np

warnings.simplefilter("error")  # so that a warning would be seen
numbers = np.array([300, -1])
for dtype, wrapped, clipped in (("u1", [44, 255], [255, 0]), ("i1", [44, -1], [127, -1])):
    with h5py.File(sys.argv[1], "w") as file:
        whole = file.create_dataset("whole", data=numbers, dtype=dtype)
        assert whole[:].tolist() == clipped
        single = file.create_dataset("single", 2, dtype)
        single[:] = numbers
        assert single[:].tolist() == clipped
        for index, number in enumerate(numbers):
            single[index] = number
        print(dtype, whole[:], single[:])
        assert single[:].tolist() == wrapped
        for index in range(2):
            single[index] = numbers[index : index + 1]
        assert single[:].tolist() == clipped

        file.attrs.create("limits", numbers, dtype=dtype)
        assert file.attrs["limits"].tolist() == wrapped
        file.attrs.modify("limits", numbers)
        print(file.attrs["limits"], file.attrs["limits"].dtype)
        assert file.attrs["limits"].tolist() == clipped and file.attrs["limits"].dtype == dtype

        wide = file.create_dataset("wide", data=numbers)
        print(wide.astype(dtype)[:], wide[:].astype(dtype))
        assert wide.astype(dtype)[:].tolist() == clipped
        assert wide[:].astype(dtype).tolist() == wrapped
        try:
            single[0] = 300
        except OverflowError as error:
            print(error)
        else:
            raise AssertionError("300 is not refused")
END
"$folder/venv/bin/python" "$folder/program.py" "$folder/numbers.h5"
