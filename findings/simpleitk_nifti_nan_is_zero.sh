#!/usr/bin/env bash
# SimpleITK 2.5 reads NaN and infinities of a NIfTI file as 0, without a word. The file itself has them, and
# nibabel reads them. The same image in NRRD or MetaImage comes back as it was.
#
# Seen: [nan, inf, 1.5] comes back as [0, 0, 1.5] from NIfTI, of float32 and of float64.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 nibabel==5.4.2 simpleitk==2.5.7
cat > "$folder/program.py" <<'END'
import warnings

import nibabel
import numpy as np
import SimpleITK

warnings.simplefilter("error")  # so that a warning would be seen
for dtype in np.float32, np.float64:
    numbers = np.array([[np.nan, np.inf, 1.5]], dtype)
    seen = {}
    for suffix in "nrrd", "mha", "nii":
        name = f"image.{suffix}"
        SimpleITK.WriteImage(SimpleITK.GetImageFromArray(numbers), name)
        seen[suffix] = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(name))
    assert np.array_equal(seen["nrrd"], numbers, equal_nan=True)
    assert np.array_equal(seen["mha"], numbers, equal_nan=True)
    assert np.array_equal(nibabel.load("image.nii").get_fdata().ravel(), numbers[0], equal_nan=True)
    print(seen["nii"])
    assert seen["nii"].dtype == dtype and seen["nii"].tolist() == [[0, 0, 1.5]]
END
cd "$folder"
"$folder/venv/bin/python" "$folder/program.py"
