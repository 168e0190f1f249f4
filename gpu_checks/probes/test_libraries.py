"""Protocols: what libraries call, what they get, and in which order their work runs."""

import warnings

import syncblob
from gpu_checks.device import delay, side_stream
from syncblob import Blob, Head

SHAPE = (64, 16)


def test_asking_for_the_interface_costs_one_download_and_using_it_exposes(cupy, work):
    blob = work.blob(1)
    assert hasattr(blob, "__cuda_array_interface__")
    with syncblob.record_transfers() as log:
        for _ in range(3):
            blob.cpu_data()
    assert log.downloads == 1
    takes = [cupy.asarray]
    try:
        import torch

        takes += [lambda x: torch.as_tensor(x, device="cuda")] * torch.cuda.is_available()
        with warnings.catch_warnings():
            # Of what NumPy has deprecated.
            warnings.simplefilter("ignore")
            from numba import cuda

        takes.append(cuda.as_cuda_array)
    except (ImportError, AttributeError):
        # The second, if NumPy has removed something that Numba uses.
        pass
    for take in takes:
        blob = work.blob(1)
        array = take(blob)
        blob.cpu_data()
        assert blob.head is Head.HEAD_AT_GPU, take
        del array


def test_torchs_tensors_are_adopted_in_the_order_of_the_streams(cupy, torch):
    for take in (Blob.asarray, Blob.from_dlpack):
        tensor, seen = torch.zeros(SHAPE, device="cuda:0"), cupy.zeros(SHAPE, "float32")
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            delay(cupy.cuda.Stream.from_external(side))
            tensor.fill_(6)
            blob = take(tensor)
        seen[...] = blob.gpu_data()
        assert float(seen.min()) == 6.0
        assert blob.gpu_data().data.ptr == tensor.data_ptr()
        blob.mutable_cpu_data()[...] = 8
        blob.gpu_data()
        assert float(tensor.max()) == 8.0
    blob = Blob(SHAPE, device="cuda:0")
    array = blob.overwrite_gpu_data()
    with side_stream() as stream, torch.cuda.stream(torch.cuda.Stream()):
        delay(stream)
        array.fill(2)
        assert float(torch.from_dlpack(blob).sum()) == 2.0 * array.size
