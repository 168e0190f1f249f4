"""CuPy's functions on Blobs: the functions that accept them, their results, the transfers."""

import numpy as np
import pytest
from made_blobs import values

import syncblob
from syncblob import Blob, Head

pytestmark = pytest.mark.gpu

NONE, CPU, GPU, SYNCED, SPLIT = PAIR = [*Head][:5]  # with one accelerator
X = values()

# They use the CUDA array interface, so they accept a Blob as it is and return CuPy arrays.
TAKEN = {
    "sin": lambda xp, x: xp.sin(x),
    "add": lambda xp, x: xp.add(x, x),
    "concatenate": lambda xp, x: xp.concatenate([x, x], axis=1),
    "a list of them": lambda xp, x: xp.array([x, x]),
    "roll": lambda xp, x: xp.roll(x, 1),
}

# They require CuPy arrays. NumPy's function of that name accepts the Blob, and CuPy computes.
REFUSED = {
    "any": lambda xp, x: xp.any(x),
    "stack": lambda xp, x: xp.stack([x, x]),
    "split": lambda xp, x: xp.split(x, 2),
}


def host(result):
    """Return a result, or a list of results, on the host."""
    if isinstance(result, (list, tuple)):
        return [host(part) for part in result]
    return result.get() if hasattr(result, "get") else np.asarray(result)


def assert_equal(result, expected):
    for ours, theirs in zip(np.atleast_1d(host(result)), np.atleast_1d(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("call", TAKEN.values(), ids=TAKEN)
@pytest.mark.parametrize("const", [False, True])
def test_a_function_takes_a_blob_as_one_that_may_be_written_unless_it_is_const(
    cupy, on_cuda, const, call
):
    blob = on_cuda(CPU)
    with syncblob.record_transfers() as log:
        result = call(cupy, blob.const if const else blob)
    assert isinstance(result, cupy.ndarray)
    # `roll` reads it in parts.
    assert (log.uploaded_bytes, log.downloads) == (X.nbytes, 0)
    assert blob.head is (SYNCED if const else GPU)
    assert_equal(result, call(np, X))


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_wants_a_cupy_array_gets_one_or_is_called_by_its_name_in_numpy(cupy, on_cuda, call):
    blob = on_cuda(SYNCED)
    with pytest.raises(TypeError):
        call(cupy, blob)
    blob = on_cuda(SYNCED)
    expected = call(np, X)
    with syncblob.no_transfers():
        assert_equal(call(cupy, blob.gpu_data()), expected)
        assert_equal(call(cupy, cupy.asarray(blob.gpu.const)), expected)
        result = call(np, blob)
    for part in result if isinstance(result, list) else [result]:
        assert part.device == "cuda:0"
    assert blob.head is SYNCED
    assert_equal(result, expected)


def test_a_function_that_calls_the_method_of_its_operand_gives_a_blob(cupy, on_cuda):
    blob = on_cuda(SYNCED)
    with syncblob.no_transfers():
        results = [cupy.mean(blob), cupy.max(blob, axis=1), cupy.transpose(blob)]
    for result in results:
        assert result.device == "cuda:0"
    assert [result.tolist() for result in results] == [2.5, [2, 5], X.T.tolist()]


def test_matrix_products_are_computed_by_cublas(cupy, on_cuda):
    pytest.importorskip(
        "cupy_backends.cuda.libs.cublas", reason="needs cuBLAS", exc_type=ImportError
    )
    blob = on_cuda(SYNCED)
    with syncblob.no_transfers():
        product = np.matmul(blob, blob.T)
        assert isinstance(product, Blob)
        array = cupy.matmul(blob.gpu_data(), blob.gpu_data().T)
    np.testing.assert_allclose(product, X @ X.T)
    np.testing.assert_allclose(array.get(), X @ X.T)


# --- writes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", [NONE, CPU, GPU, SYNCED])
@pytest.mark.parametrize("overwrite", [False, True])
def test_out_may_be_a_blob_and_needs_no_transfer_as_an_overwrite(cupy, on_cuda, overwrite, head):
    x, y = on_cuda(SYNCED), on_cuda(head)
    with syncblob.record_transfers() as log:
        cupy.multiply(x.const, 2, out=y.gpu.overwrite if overwrite else y)
    assert len(log) == (0 if overwrite else int(head is CPU))
    assert (x.head, y.head) == (SYNCED, GPU)
    assert y.tolist() == (X * 2).tolist()


# --- operators ---------------------------------------------------------------------------------


def test_an_operator_gives_the_type_of_what_stands_on_its_left(cupy, on_cuda):
    blob, array = on_cuda(GPU), cupy.ones((2, 3), "float32")
    with syncblob.no_transfers():
        results = [blob + array, blob.__rsub__(array), array + blob, array > blob]
    kinds = [Blob, Blob, cupy.ndarray, cupy.ndarray]
    assert [type(result) for result in results] == kinds
    for result, expected in zip(results, [X + 1, 1 - X, X + 1, X < 1], strict=True):
        assert host(result).tolist() == expected.tolist()
    assert isinstance(np.add(blob, array), Blob)
    assert isinstance(np.add(array, blob), cupy.ndarray)
    assert isinstance(np.concatenate([array, blob]), Blob)


# --- aliases -----------------------------------------------------------------------------------


def test_a_blob_given_to_a_function_is_exposed_and_a_side_of_it_is_not(cupy, on_cuda):
    for what, downloads in ((lambda x: x, 3), (lambda x: x.gpu, 1), (lambda x: x.gpu.const, 0)):
        blob = on_cuda(SYNCED)
        cupy.sin(what(blob))
        with syncblob.record_transfers() as log:
            for _ in range(3):
                assert blob.tolist() == X.tolist()
        assert log.downloads == downloads
        blob.assume_unaliased()
        with syncblob.record_transfers() as log:
            for _ in range(3):
                blob.tolist()
        assert log.downloads == int(downloads == 3)


def test_a_view_goes_out_with_its_strides(cupy, on_cuda):
    blob = on_cuda(GPU)
    for view in (lambda a: a.T, lambda a: a[:, ::2], lambda a: a[::-1], lambda a: a[1]):
        np.testing.assert_array_equal(cupy.negative(view(blob)).get(), -view(X))
        cupy.copyto(view(blob).gpu_data(), cupy.asarray(view(X)))
    assert blob.tolist() == X.tolist()


def test_a_part_is_exposed_and_the_rest_is_not(cupy, on_cuda):
    blob = on_cuda(SYNCED)
    array = cupy.asarray(blob[1])
    assert [row.head for row in blob] == [SYNCED, GPU]
    array[0] = 9
    for _ in range(2):
        with syncblob.record_transfers() as log:
            assert blob.tolist() == [[0, 1, 2], [9, 4, 5]]
        assert [(t.offset, t.nbytes) for t in log] == [(12, 12)]
    del array
    blob[1].assume_unaliased()
    blob.tolist()
    assert blob.head is SYNCED


# --- bfloat16, which the CUDA array interface cannot name -----------------------------------------


@pytest.mark.parametrize("side", ["blob", "side"])
def test_bfloat16_goes_to_cupy_without_the_cuda_array_interface(cupy, on_cuda, side):
    blob = on_cuda(CPU, dtype="bfloat16")
    lent = blob if side == "blob" else blob.gpu
    assert not hasattr(lent, "__cuda_array_interface__")
    array = cupy.asarray(lent)
    assert (array.dtype, array.data.ptr) == (blob.dtype, blob.gpu_data().data.ptr)
    assert cupy.add(lent, lent).get().tolist() == (X * 2).tolist()
    array[0, 0] = 9
    assert blob.tolist()[0][0] == 9
    del array
    blob.tolist()
    assert blob.head is SYNCED
