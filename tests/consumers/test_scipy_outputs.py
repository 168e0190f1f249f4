"""SciPy's writes into its arguments: every row of the table in docs/array-api.md."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

import syncblob

pytest.importorskip("scipy", reason="scipy is not installed: pip install 'syncblob[consumers]'")

from scipy import fft, linalg, ndimage, signal, sparse, special
from scipy.spatial import distance

TABLE = Path(__file__).resolve().parents[2] / "docs" / "array-api.md"
RANDOM = np.random.default_rng(seed=1)
IMAGE = RANDOM.random((6, 7))
MASK = IMAGE > 0.4
LEVELS = (IMAGE * 9).astype("u1")
SIGNAL = RANDOM.random(40)
SOS = signal.butter(4, 0.3, output="sos")
VECTOR = RANDOM.random(5)
MATRIX = np.asfortranarray(RANDOM.random((5, 5)) + 5 * np.eye(5))
LABELS = np.zeros((6, 7), "i4")
MARKERS = np.eye(6, 7, dtype="i1")

WRITES = "writes"
COPY = "**silently** leaves it unchanged"
THROUGH = "**silently** writes through the read-only array"
READ_ONLY = "output array is read-only"
SOURCE = "buffer source array is read-only"

# The call, the outcome for a Blob, the array that it writes into, and `x`.
ROWS = [
    ("ndimage.gaussian_filter(x, 1, output=out)", READ_ONLY, 0 * IMAGE, IMAGE),
    ("ndimage.grey_erosion(x, 3, output=out)", READ_ONLY, 0 * IMAGE, IMAGE),
    ("ndimage.zoom(x, 2, output=out)", READ_ONLY, np.zeros((12, 14)), IMAGE),
    (
        "ndimage.fourier_gaussian(x, 1, output=out)",
        "WRITEBACKIFCOPY base is read-only",
        0 * IMAGE,
        IMAGE,
    ),
    ("ndimage.vectorized_filter(x, np.mean, size=3, output=out)", WRITES, 0 * IMAGE, IMAGE),
    ("ndimage.zoom(x, 1, output=out)", COPY, 0 * IMAGE, IMAGE),
    ("ndimage.binary_erosion(x, output=out)", COPY, np.zeros_like(MASK), MASK),
    ("ndimage.binary_fill_holes(x, output=out)", COPY, np.zeros_like(MASK), MASK),
    ("ndimage.label(x, output=out)", COPY, LABELS, MASK),
    ("ndimage.distance_transform_edt(x, distances=out)", COPY, 0 * IMAGE, MASK),
    ("ndimage.distance_transform_cdt(x, distances=out)", COPY, LABELS, MASK),
    ("ndimage.watershed_ift(x, markers, output=out)", COPY, 0 * MARKERS, LEVELS),
    ("signal.sosfilt(sos, x)", SOURCE, SOS, SIGNAL),
    ("signal.sosfiltfilt(sos, x)", SOURCE, SOS, SIGNAL),
    ("signal.detrend(x, overwrite_data=True)", "assignment destination is read-only", SIGNAL, None),
    ("fft.dct(x, overwrite_x=True)", "array is not writeable", SIGNAL, None),
    (
        "distance.pdist(x, out=out)",
        "out array must be aligned, writable and native byte order",
        np.zeros(15),
        IMAGE,
    ),
    ("distance.cdist(x, y, out=out)", "out argument must be an ndarray", np.zeros((6, 6)), IMAGE),
    ("sparse.csr_array((x, indices, indptr)) *= 2", READ_ONLY, VECTOR, None),
    ("special.erf(x, out=out)", WRITES, 0 * SIGNAL, SIGNAL),
    ("linalg.blas.daxpy(x, y)", COPY, VECTOR, VECTOR),
    ("linalg.inv(a, overwrite_a=True)", THROUGH, MATRIX, None),
    ("linalg.solve(a, b, overwrite_b=True)", THROUGH, VECTOR, None),
]
MODULES = (np, fft, linalg, ndimage, signal, sparse, special, distance)
OTHERS = {
    module.__name__.rpartition(".")[2].replace("numpy", "np"): module for module in MODULES
} | {"a": MATRIX, "y": IMAGE, "markers": MARKERS, "indices": range(5), "indptr": range(6)}


def call(text, x, written):
    """Make the call of a row, which writes into the first of these names that it has."""
    name = next(one for one in ("out", "sos", "y", "b", "a", "x") if re.search(rf"\b{one}\b", text))
    names = OTHERS | {"x": x, name: written}
    eval(text.replace(" *= 2", ".__imul__(2)"), names)  # noqa: S307  # the table is ours


def blob_of(array):
    """Make a Blob with the strides of an array."""
    return syncblob.asarray(array, copy=True).copy("K" if array.flags.c_contiguous else "F")


@pytest.mark.skipif("SCIPY_ARRAY_API" in os.environ, reason="the table is for SciPy as it is")
@pytest.mark.parametrize(("text", "outcome", "start", "x"), ROWS, ids=[row[0] for row in ROWS])
def test_what_becomes_of_a_blob_and_of_its_host_side(text, outcome, start, x):
    expected = start.copy(order="K")
    call(text, x, expected)
    blob, lent = blob_of(start), blob_of(start)
    call(text, x, np.asarray(lent.cpu))
    np.testing.assert_allclose(np.asarray(lent), expected)
    if outcome in {WRITES, COPY, THROUGH}:
        call(text, x, blob)
        np.testing.assert_allclose(np.asarray(blob), start if outcome == COPY else expected)
    else:
        with pytest.raises((ValueError, TypeError), match=outcome):
            call(text, x, blob)
        np.testing.assert_array_equal(np.asarray(blob), start)
    said = outcome if outcome in {WRITES, COPY, THROUGH} else f"`{outcome}`"
    assert re.search(
        rf"^\|.*`{re.escape(text)}`.* \| {re.escape(said)}", TABLE.read_text(), re.MULTILINE
    )


def test_verified_const_tells_what_wrote_through_a_read_only_array():
    def invert(blob):
        with syncblob.verified_const():
            linalg.inv(blob, overwrite_a=True)
            blob.cpu_data()

    with pytest.warns(syncblob.ConstWriteWarning):
        invert(blob_of(MATRIX))
