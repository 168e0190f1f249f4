#!/usr/bin/env bash
# nibabel 5.4 writes a GIFTI array in the ASCII encoding with six digits after the point, whatever the size of
# its floats is, and says nothing. So small numbers become 0, and larger ones lose digits that float32 has. The
# other two encodings, Base64 with and without gzip, keep all of them.
#
# Seen: [1e-7, 1.2345678e-5, 0.12345678] comes back as [0, 1.2e-05, 0.123457].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 nibabel==5.4.2
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
from nibabel.gifti import GiftiDataArray, GiftiImage

warnings.simplefilter("error")  # so that a warning would be seen
numbers = np.array([1e-7, 1.2345678e-5, 0.12345678], np.float32)


def written(encoding):
    array = GiftiDataArray(numbers, encoding=encoding)
    return GiftiImage.from_bytes(GiftiImage(darrays=[array]).to_bytes()).darrays[0].data


for encoding in ("Base64Binary", "GZipBase64Binary"):
    assert np.array_equal(written(encoding), numbers)
seen = written("ASCII")
print(seen)
assert np.array_equal(seen, np.array([0, 0.000012, 0.123457], np.float32))
END
"$folder/venv/bin/python" "$folder/program.py"
