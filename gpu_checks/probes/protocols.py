"""Probes of protocols: the calls of libraries, the results, and the order of their work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import syncblob
from gpu_checks.device import cupy_of_this_machine, delay, is_model, side_stream, warm_up
from gpu_checks.probes.report import NeedsError, probe
from syncblob import Blob, Head
from syncblob.devices import accelerator

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_checks.probes.report import Report

__all__ = [
    "host_blobs_and_cupy",
    "host_blobs_and_libraries",
    "other_device",
    "torch_adopted",
    "torch_order",
]

SHAPE = (64, 16)


def _torch(*, cuda: bool) -> Any:
    """Return PyTorch, with or without CUDA."""
    try:
        import torch
    except ImportError as error:
        raise NeedsError(f"PyTorch: {error}") from error
    if cuda and (is_model() or not torch.cuda.is_available()):
        raise NeedsError("a GPU, and PyTorch built for CUDA")
    return torch


def _values() -> np.ndarray[Any, Any]:
    return np.arange(SHAPE[0] * SHAPE[1], dtype=np.float32).reshape(SHAPE)


def _host_blob() -> Blob:
    blob = Blob(SHAPE)
    blob[...] = _values()
    return blob


@probe("does PyTorch's current stream come after CuPy's, whichever these are?")
def torch_order(report: Report) -> None:
    """Write late on a PyTorch stream, then let syncblob order CuPy's stream after it."""
    torch = _torch(cuda=True)
    cupy = cupy_of_this_machine()
    warm_up("float32")
    from syncblob.dispatch.torch import devices

    backend: Any = accelerator("cuda:0")
    for name in ("get_stream_from_external", "ExternalStream"):
        make = getattr(torch.cuda, name, None)
        report.notes[f"{name}(0)"] = _told(lambda make=make: make(0, device=0))
    report.notes["default_stream"] = _told(lambda: torch.cuda.default_stream(0))
    for name, stream in (("the null stream", cupy.cuda.Stream.null), ("another", side_stream())):
        tensor = torch.zeros(SHAPE, device="cuda:0")
        array = cupy.from_dlpack(tensor)
        seen = cupy.zeros(SHAPE, "float32")
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(side), stream:
            delay(cupy.cuda.ExternalStream(side.cuda_stream))
            tensor.fill_(3)
            devices.order_after(backend)
            seen[...] = array
        stream.synchronize()
        report.equal(f"CuPy on {name} is after it", float(seen.min()), 3.0)
    # The other direction: a PyTorch function that computes on a Blob.
    blob = Blob(SHAPE, device="cuda:0")
    blob.overwrite_cpu_data()[...] = 1
    array = blob.mutable_gpu_data()
    cupy.cuda.Device(0).synchronize()
    side = torch.cuda.Stream()
    delay(cupy.cuda.Stream.null)
    array += 1
    with torch.cuda.stream(side):
        result = torch.add(blob, torch.ones(SHAPE, device="cuda:0"))
    report.equal("PyTorch's function is after CuPy's kernel", float(result.sum()), 3.0 * array.size)
    report.equal("its result on the host", np.asarray(result).min(), 3.0)


@probe("do PyTorch and NumPy take a Blob of the host for one, without a transfer?")
def host_blobs_and_libraries(report: Report) -> None:
    """Check that host Blobs have no CUDA array interface, and make tensors of them."""
    blob = _host_blob()
    before = (blob.head, blob.memory.accelerator)
    with syncblob.no_transfers():
        for name, lender in (("a Blob", blob), ("a const one", blob.const), ("a part", blob[1:])):
            there = hasattr(lender, "__cuda_array_interface__")
            report.check(f"{name} has no __cuda_array_interface__", not there)
            report.attempt(
                f"asking {name} for __cupy_get_ndarray__",
                lambda x=lender: hasattr(x, "__cupy_get_ndarray__"),
            )  # type: ignore[misc]  # a closure
        report.equal("np.asarray", np.asarray(blob).tolist(), _values().tolist())
    report.equal("asking touches nothing", (blob.head, blob.memory.accelerator), before)
    torch = _torch(cuda=False)
    calls: dict[str, Callable[[], Any]] = {
        "torch.tensor": lambda: torch.tensor(blob),
        "torch.as_tensor": lambda: torch.as_tensor(blob),
        "torch.asarray": lambda: torch.asarray(blob),
        "torch.from_dlpack": lambda: torch.from_dlpack(blob),
    }
    for name, call in calls.items():
        with syncblob.no_transfers():
            tensor = report.attempt(name, call)
        if tensor is not None:
            report.equal(f"{name}: where", str(tensor.device), "cpu")
            report.check(f"{name}: contents", np.array_equal(tensor.numpy(), _values()))


@probe("does cupy.asarray of a Blob of the host give a tracked alias of its memory?")
def host_blobs_and_cupy(report: Report) -> None:
    """Write through an alias repeatedly, with reads on the host in between."""
    cupy = cupy_of_this_machine()
    blob = _host_blob()
    with syncblob.record_transfers() as log:
        array = cupy.asarray(blob)
    report.equal("one upload", len(log), 1)
    report.equal("the contents", array.get().tolist(), _values().tolist())
    report.equal("the Blob's own memory", array.data.ptr, blob.gpu_data().data.ptr)
    for turn in (1, 2, 3):
        array += 1
        report.equal(f"write {turn} is seen", blob.tolist(), (_values() + turn).tolist())
    report.check("it is told as an alias", "alias" in str(blob.explain()).lower())
    del array
    with syncblob.record_transfers() as log:
        blob.cpu_data()
        blob.cpu_data()
    report.check("nothing is downloaded again once it is gone", len(log) <= 1, len(log))


@probe("are tensors of PyTorch's on a GPU adopted by DLPack, in the order of the streams?")
def torch_adopted(report: Report) -> None:
    """Fill a tensor late, adopt it, read it on CuPy's stream; and the reverse."""
    torch = _torch(cuda=True)
    cupy = cupy_of_this_machine()
    warm_up("float32")
    for name, take in (("asarray", Blob.asarray), ("from_dlpack", Blob.from_dlpack)):
        tensor = torch.zeros(SHAPE, device="cuda:0")
        seen = cupy.zeros(SHAPE, "float32")
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            delay(cupy.cuda.ExternalStream(side.cuda_stream))
            tensor.fill_(6)
            blob = take(tensor)
        seen[...] = blob.gpu_data()
        cupy.cuda.Stream.null.synchronize()
        report.equal(f"{name}: CuPy's stream is after PyTorch's", float(seen.min()), 6.0)
        report.equal(f"{name}: the same memory", blob.gpu_data().data.ptr, tensor.data_ptr())
        report.equal(f"{name}: on the host", blob.tolist()[0][0], 6.0)
        tensor.fill_(7)
        torch.cuda.synchronize()
        blob.mutable_cpu_data()[...] = 8
        blob.gpu_data()
        report.equal(f"{name}: a write arrives in the tensor", float(tensor.max()), 8.0)
    blob = Blob(SHAPE, device="cuda:0")
    array = blob.overwrite_gpu_data()
    side, stream = torch.cuda.Stream(), side_stream()
    cupy.cuda.Device(0).synchronize()
    with stream:
        delay(stream)
        array.fill(2)
        with torch.cuda.stream(side):
            tensor = torch.from_dlpack(blob)
            total = tensor.sum()
            report.equal("PyTorch's stream is after CuPy's", float(total), 2.0 * array.size)
    report.equal("the tensor is on", str(tensor.device), "cuda:0")
    grad = torch.ones(3, device="cuda:0", requires_grad=True)
    report.notes["a tensor with a gradient"] = _told(lambda: Blob.asarray(grad.detach()))


def _told(function: Callable[[], Any]) -> str:
    try:
        return str(function())
    except Exception as error:  # noqa: BLE001  # the error is the answer
        return f"{type(error).__name__}: {error}"


class _Lender:
    """Another library's array, with one protocol only."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


@probe("are arrays on cuda:1 used there while cuda:0 is current?")
def other_device(report: Report) -> None:
    """Adopt, compute, push and lend on cuda:1."""
    cupy = cupy_of_this_machine()
    if cupy.cuda.runtime.getDeviceCount() == 1:
        raise NeedsError("a second GPU")
    with cupy.cuda.Device(1):
        array = cupy.asarray(_values())
        interface = _Lender(array)
        cupy.cuda.Device().synchronize()
    for name, lender in (("CuPy's", array), ("by the interface", interface)):
        blob = report.attempt(
            f"{name}: adopted", lambda lender=lender: Blob.asarray(lender, copy=False)
        )
        if blob is not None:
            report.equal(f"{name}: where", blob.device, "cuda:1")
            report.equal(f"{name}: memory", blob.gpu_data().data.ptr, array.data.ptr)
            report.equal(f"{name}: contents", blob.tolist(), _values().tolist())
    blob = Blob(SHAPE, device="cuda:1")
    blob.overwrite_cpu_data()[...] = _values()
    blob.async_gpu_push()
    report.equal("pushed to", blob.gpu_data().device.id, 1)
    with cupy.cuda.Device(1):
        array = blob.mutable_gpu_data()
        array += 1
    report.equal("computed", blob.tolist(), (_values() + 1).tolist())
    report.equal("DLPack's device", blob.__dlpack_device__(), (2, 1))
    report.equal("the current device", cupy.cuda.runtime.getDevice(), 0)
    report.equal("the head", blob.head, Head.SYNCED)
