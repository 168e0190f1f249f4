"""einops on Blobs, with the backend of syncblob.integrations.einops."""

import subprocess
import sys

import numpy as np
import pytest

import syncblob

einops = pytest.importorskip("einops")

from syncblob.integrations.einops import BlobBackend  # noqa: E402  # it needs einops

ARRAY = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture(params=["cpu", "simulated:0"])
def blob(request):
    return syncblob.asarray(ARRAY, device=request.param) + 0.0  # computed there, so newest there


@pytest.mark.parametrize(
    ("function", "arguments", "lengths"),
    [
        (einops.rearrange, ("a b c -> c (a b)",), {}),
        (einops.rearrange, ("a b (c d) -> d a b c",), {"c": 2}),
        (einops.reduce, ("a b c -> b", "mean"), {}),
        (einops.reduce, ("a b c -> a 1 c", "max"), {}),
        (einops.reduce, ("a b c -> c", "min"), {}),
        (einops.reduce, ("a b c -> a", "sum"), {}),
        (einops.reduce, ("a b c -> a b", "prod"), {}),
        (einops.repeat, ("a b c -> a (b r) c",), {"r": 3}),
    ],
)
def test_results_are_those_of_numpy_on_the_device(blob, function, arguments, lengths):
    result = function(blob, *arguments, **lengths)
    assert isinstance(result, syncblob.Blob)
    assert result.device == blob.device
    np.testing.assert_allclose(np.asarray(result), function(ARRAY, *arguments, **lengths))


def test_a_rearrangement_without_a_copy_is_a_view(blob):
    with syncblob.no_transfers():
        view = einops.rearrange(blob, "a b c -> c b a")
    assert view.memory is blob.memory


def test_lists_are_stacked(blob):
    result = einops.rearrange([blob, blob], "n a b c -> a n b c")
    np.testing.assert_array_equal(np.asarray(result), np.stack([ARRAY, ARRAY], axis=1))


def test_pack_and_unpack_undo_each_other(blob):
    packed, shapes = einops.pack([blob, blob[:, 0]], "a * c")
    whole, row = einops.unpack(packed, shapes, "a * c")
    np.testing.assert_array_equal(np.asarray(whole), ARRAY)
    np.testing.assert_array_equal(np.asarray(row), ARRAY[:, 0])


def test_einsum(blob):
    result = einops.einsum(blob, blob, "a b c, a d c -> b d")
    assert isinstance(result, syncblob.Blob)
    np.testing.assert_allclose(np.asarray(result), np.einsum("abc,adc->bd", ARRAY, ARRAY))


def test_means_of_integers_are_refused_as_of_ndarrays():
    for integers in (syncblob.asarray([[1, 2]]), np.asarray([[1, 2]])):
        with pytest.raises(NotImplementedError, match="mean"):
            einops.reduce(integers, "a b -> a", "mean")


def test_asnumpy_and_arange(blob):
    np.testing.assert_array_equal(einops.asnumpy(blob), ARRAY)
    assert np.asarray(BlobBackend().arange(2, 5)).tolist() == [2, 3, 4]


def test_syncblob_registers_with_an_einops_that_is_loaded():
    code = (
        "import einops, syncblob; "
        "assert einops.rearrange(syncblob.ones((2, 3)), 'a b -> b a').shape == (3, 2)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
