"""PyTorch's functions on CUDA devices run after CuPy's work and before CuPy's next work.

The tests use the models of CUDA and of PyTorch's streams. The tensors are PyTorch's own, over the
model's memory.
"""

import pytest
from cupy_model import launch

from syncblob import Blob, Head

pytest.importorskip("torch")

import torch  # it may be missing
import torch_model  # it needs torch

pytestmark = pytest.mark.parametrize("machine", ["lazy"], indirect=True)


@pytest.fixture
def streams(machine, request):
    """Return the current streams of CuPy and PyTorch. Each may be the default stream."""
    del machine
    import cupy

    of_cupy, of_torch = (
        cupy.cuda.Stream.null if each == "default" else cupy.cuda.Stream(non_blocking=True)
        for each in request.param
    )
    with torch_model.installed() as current, current.stream(of_torch), of_cupy:
        yield of_cupy, of_torch


@pytest.mark.parametrize(
    "streams",
    [("default", "side"), ("side", "default"), ("side", "side"), ("default", "default")],
    indirect=True,
    ids="-".join,
)
@pytest.mark.parametrize("fails", [False, True])
def test_cupys_stream_and_pytorchs_are_ordered_also_where_the_function_fails(streams, fails):
    of_cupy, of_torch = streams
    blob, seen = Blob(3, device="cuda:0"), []
    array = blob.overwrite_gpu_data()
    launch(lambda a: a.fill(1), array)

    def function(x):
        launch(lambda a: seen.append(a.tolist()), array, stream=of_torch)
        if fails:
            raise MemoryError("the kernel before this is queued")
        return x + 0

    try:
        Blob.__torch_function__(function, (Blob,), (blob,))
    except MemoryError:
        assert fails
    launch(lambda a: a.fill(2), blob.mutable_gpu_data())
    of_cupy.synchronize()
    assert blob.tolist() == [2] * 3
    assert seen == [[1] * 3]


@pytest.mark.parametrize("streams", [("default", "default")], indirect=True, ids="-".join)
@pytest.mark.parametrize("needed", [1, 2, 3])
def test_a_buffer_makes_room_where_pytorch_has_none(streams, needed):
    del streams
    blob, *others = (Blob(3, device="cuda:0") for _ in range(3))
    for value, each in enumerate((blob, *others)):
        each.overwrite_gpu_data().fill(value)

    def function(x):
        if sum(each.head is Head.HEAD_AT_GPU for each in others) > len(others) - needed:
            raise torch.OutOfMemoryError("short")
        return x + 0

    if needed <= len(others):
        assert Blob.__torch_function__(function, (Blob,), (blob,)).tolist() == [0] * 3
        assert sum(each.head is Head.HEAD_AT_CPU for each in others) == needed
    else:
        with pytest.raises(
            torch.OutOfMemoryError, match=r"(?s)short.*nothing .* be evicted:.*Blob"
        ):
            Blob.__torch_function__(function, (Blob,), (blob,))
    assert blob.head is Head.HEAD_AT_GPU
    assert [each.tolist() for each in others] == [[1] * 3, [2] * 3]
