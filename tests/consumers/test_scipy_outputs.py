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
SIGNAL = RANDOM.random(40)
SOS = signal.butter(4, 0.3, output="sos")
VECTOR = RANDOM.random(5)
MATRIX = np.asfortranarray(RANDOM.random((5, 5)) + 5 * np.eye(5))
LABELS = np.zeros((6, 7), "i4")
MARKERS = np.eye(6, 7, dtype="i1")

WRITES = "writes"
COPY = "**silently** leaves it unchanged"
THROUGH = "**silently** writes through the read-only array"

# The call as text and as a function, the array that it writes into, and the outcome for a Blob.
ROWS = [
    (
        "ndimage.gaussian_filter(x, 1, output=out)",
        lambda out: ndimage.gaussian_filter(IMAGE, 1, output=out),
        np.zeros_like(IMAGE),
        "output array is read-only",
    ),
    (
        "ndimage.grey_erosion(x, 3, output=out)",
        lambda out: ndimage.grey_erosion(IMAGE, 3, output=out),
        np.zeros_like(IMAGE),
        "output array is read-only",
    ),
    (
        "ndimage.zoom(x, 2, output=out)",
        lambda out: ndimage.zoom(IMAGE, 2, output=out),
        np.zeros((12, 14)),
        "output array is read-only",
    ),
    (
        "ndimage.fourier_gaussian(x, 1, output=out)",
        lambda out: ndimage.fourier_gaussian(IMAGE, 1, output=out),
        np.zeros_like(IMAGE),
        "WRITEBACKIFCOPY base is read-only",
    ),
    (
        "ndimage.vectorized_filter(x, np.mean, size=3, output=out)",
        lambda out: ndimage.vectorized_filter(IMAGE, np.mean, size=3, output=out),
        np.zeros_like(IMAGE),
        WRITES,
    ),
    (
        "ndimage.zoom(x, 1, output=out)",
        lambda out: ndimage.zoom(IMAGE, 1, output=out),
        np.zeros_like(IMAGE),
        COPY,
    ),
    (
        "ndimage.binary_erosion(x, output=out)",
        lambda out: ndimage.binary_erosion(MASK, output=out),
        np.zeros_like(MASK),
        COPY,
    ),
    (
        "ndimage.binary_fill_holes(x, output=out)",
        lambda out: ndimage.binary_fill_holes(MASK, output=out),
        np.zeros_like(MASK),
        COPY,
    ),
    ("ndimage.label(x, output=out)", lambda out: ndimage.label(MASK, output=out), LABELS, COPY),
    (
        "ndimage.distance_transform_edt(x, distances=out)",
        lambda out: ndimage.distance_transform_edt(MASK, distances=out),
        np.zeros_like(IMAGE),
        COPY,
    ),
    (
        "ndimage.distance_transform_cdt(x, distances=out)",
        lambda out: ndimage.distance_transform_cdt(MASK, distances=out),
        LABELS,
        COPY,
    ),
    (
        "ndimage.watershed_ift(x, markers, output=out)",
        lambda out: ndimage.watershed_ift((IMAGE * 9).astype("u1"), MARKERS, output=out),
        np.zeros_like(MARKERS),
        COPY,
    ),
    (
        "signal.sosfilt(sos, x)",
        lambda sos: signal.sosfilt(sos, SIGNAL),
        SOS,
        "buffer source array is read-only",
    ),
    (
        "signal.sosfiltfilt(sos, x)",
        lambda sos: signal.sosfiltfilt(sos, SIGNAL),
        SOS,
        "buffer source array is read-only",
    ),
    (
        "signal.detrend(x, overwrite_data=True)",
        lambda x: signal.detrend(x, overwrite_data=True),
        SIGNAL,
        "assignment destination is read-only",
    ),
    (
        "fft.dct(x, overwrite_x=True)",
        lambda x: fft.dct(x, overwrite_x=True),
        SIGNAL,
        "array is not writeable",
    ),
    (
        "distance.pdist(x, out=out)",
        lambda out: distance.pdist(IMAGE, out=out),
        np.zeros(15),
        "out array must be aligned, writable and native byte order",
    ),
    (
        "distance.cdist(x, y, out=out)",
        lambda out: distance.cdist(IMAGE, IMAGE, out=out),
        np.zeros((6, 6)),
        "out argument must be an ndarray",
    ),
    (
        "sparse.csr_array((x, indices, indptr)) *= 2",
        lambda x: sparse.csr_array((x, np.arange(5), np.arange(6))).__imul__(2),
        VECTOR,
        "output array is read-only",
    ),
    ("special.erf(x, out=out)", lambda out: special.erf(SIGNAL, out=out), np.zeros(40), WRITES),
    ("linalg.blas.daxpy(x, y)", lambda y: linalg.blas.daxpy(VECTOR, y), VECTOR, COPY),
    (
        "linalg.inv(a, overwrite_a=True)",
        lambda a: linalg.inv(a, overwrite_a=True),
        MATRIX,
        THROUGH,
    ),
    (
        "linalg.solve(a, b, overwrite_b=True)",
        lambda b: linalg.solve(MATRIX, b, overwrite_b=True),
        VECTOR,
        THROUGH,
    ),
]


def blob_of(array):
    """Make a Blob with the strides of an array."""
    return syncblob.asarray(array, copy=True).copy("K" if array.flags.c_contiguous else "F")


@pytest.mark.skipif("SCIPY_ARRAY_API" in os.environ, reason="the table is for SciPy as it is")
@pytest.mark.parametrize(("text", "call", "start", "outcome"), ROWS, ids=[row[0] for row in ROWS])
def test_what_becomes_of_a_blob_and_of_its_host_side(text, call, start, outcome):
    expected = start.copy(order="K")
    call(expected)
    blob, lent = blob_of(start), blob_of(start)
    call(np.asarray(lent.cpu))
    np.testing.assert_allclose(np.asarray(lent), expected)
    if outcome in {WRITES, COPY, THROUGH}:
        call(blob)
        np.testing.assert_allclose(np.asarray(blob), start if outcome == COPY else expected)
    else:
        with pytest.raises((ValueError, TypeError), match=outcome):
            call(blob)
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
