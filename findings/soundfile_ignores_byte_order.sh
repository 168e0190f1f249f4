#!/usr/bin/env bash
# soundfile 0.14 takes an array in the other byte order for one in native order, without a word, in write and as the
# `out` of read. Such samples come from AIFF, AU, FITS and NetCDF files, which are big-endian, and from network streams.
# scipy.io.wavfile converts them, and soundfile itself refuses dtypes that it does not know. One would have expected
# the samples, or an error. It matters since a recording becomes noise. Convert it by
# array.astype(array.dtype.newbyteorder("=")) before.
#
# Seen: [100, -200, 300, -400] of big-endian int16 is read as [25600, 14591, 11265, 28926] from a WAV file, and from
# an AIFF file, which is big-endian itself. [0.5, -0.25] of big-endian float32 becomes [8.8e-44, 4.6e-41].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numpy==2.4.6 scipy==1.17.1 soundfile==0.14.0
cat > "$folder/program.py" <<'END'
import sys
import warnings

import numpy as np
import soundfile
from scipy.io import wavfile

warnings.simplefilter("error")  # so that a warning would be seen
assert sys.byteorder == "little"
samples = np.array([100, -200, 300, -400], ">i2")
swapped = samples.view("<i2").tolist()


def copied(file, array):
    soundfile.write(file, array, 8000)
    return soundfile.read(file, dtype="int16")[0].tolist()


assert copied("native.wav", samples.astype("i2")) == samples.tolist()
for file in ("other.wav", "other.aiff"):
    seen = copied(file, samples)
    print(seen)
    assert seen == swapped == [25600, 14591, 11265, 28926]
wavfile.write("scipy.wav", 8000, samples)
assert soundfile.read("scipy.wav", dtype="int16")[0].tolist() == samples.tolist()

out = np.zeros(4, ">i2")
soundfile.read("native.wav", out=out)
print(out)
assert out.tolist() == swapped

floats = np.array([0.5, -0.25], ">f4")
soundfile.write("floats.wav", floats, 8000, subtype="FLOAT")
seen, rate = soundfile.read("floats.wav", dtype="float32")
print(seen)
assert seen.tolist() == floats.view("<f4").tolist() and (seen < 1e-40).all()
try:
    soundfile.write("floats.wav", floats.astype("f2"), 8000)
except ValueError as error:
    assert "dtype must be one of" in str(error)
else:
    raise AssertionError("no error")
END
cd "$folder"
"$folder/venv/bin/python" "$folder/program.py"
