#!/usr/bin/env bash
# tifffile 2026.3 writes an array of bool as an image with one bit for each pixel, and states in the file that 0 is
# white (MINISWHITE). It ignores that statement when it reads, so it gives the same array back. Pillow and OpenCV obey
# it, and read the mask inverted. Arrays of uint8 are written with 0 as black, and Pillow writes a mask so, too. The
# documentation says that the default is inferred, but not this. It matters since an inverted mask selects the
# background without an error. Pass photometric="minisblack", or write uint8.
#
# Seen: of a mask with one True among 32 pixels, Pillow reads 31 as True and OpenCV 31 as 255, but tifffile 1. With
# photometric="minisblack", or written by Pillow, it is 1 in all three.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 \
    tifffile==2026.3.3 pillow==13.0.0 opencv-python-headless==5.0.0.93
cat > "$folder/program.py" <<'END'
import cv2
import numpy as np
import PIL.Image
import tifffile

mask = np.zeros((4, 8), bool)
mask[1, 2] = True

readers = {
    "tifffile": tifffile.imread,
    "Pillow": lambda name: np.asarray(PIL.Image.open(name)),
    "OpenCV": lambda name: cv2.imread(name, cv2.IMREAD_UNCHANGED),
}


def counts(name):
    """How many pixels of the file each library reads as true."""
    found = {library: int(np.count_nonzero(read(name))) for library, read in readers.items()}
    print(name, found)
    return found


tifffile.imwrite("default.tif", mask)
tifffile.imwrite("minisblack.tif", mask, photometric="minisblack")
tifffile.imwrite("uint8.tif", mask.astype("uint8"))
PIL.Image.fromarray(mask).save("pillow.tif")
assert counts("default.tif") == {"tifffile": 1, "Pillow": 31, "OpenCV": 31}
assert set(counts("minisblack.tif").values()) == {1}
assert set(counts("uint8.tif").values()) == {1}
assert set(counts("pillow.tif").values()) == {1}
END
cd "$folder"
"$folder/venv/bin/python" "$folder/program.py"
