"""Where PyTorch's functions compute, and in which order with CuPy's work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from syncblob.devices import HOST, Device, accelerator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncblob.devices.base import Accelerator, Home

__all__ = ["device_of_tensors", "order_after", "tensors_in"]


def tensors_in(x: Any) -> Iterator[torch.Tensor]:
    """Find the tensors in nested sequences and dicts."""
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (list, tuple)):
        for item in x:
            yield from tensors_in(item)
    elif isinstance(x, dict):
        yield from tensors_in([*x.values()])


def device_of_tensors(operands: Any, devices: list[Device]) -> tuple[torch.device, Home]:
    """Return where a function computes.

    Parameters
    ----------
    operands
        Its arguments.
    devices
        Those of the Blobs among them. They decide where no tensor does: tensors without axes are
        used on any device. Simulated devices are none of torch's, and count as the host.

    Returns
    -------
    device : torch.device
    home : Home
        The host, or the backend of the CUDA device.
    """
    tensors = [*tensors_in(operands)]
    found = next((str(tensor.device) for tensor in tensors if tensor.is_cuda), None)
    if found is None and not any(tensor.ndim for tensor in tensors):
        found = next((str(device) for device in devices if device.type == "cuda"), None)
    if found is None:
        return torch.device("cpu"), HOST
    return torch.device(found), accelerator(found)


def order_after(backend: Accelerator) -> None:
    """Make CuPy's current stream wait for torch's, if they differ: later transfers are on it."""
    import cupy  # only where a CUDA tensor is at hand

    index = backend.device.index
    stream = torch.cuda.current_stream(index)
    with cupy.cuda.Device(index):
        current = cupy.cuda.get_current_stream().ptr
    if current != stream.cuda_stream:
        torch.cuda.ExternalStream(current, device=index).wait_stream(stream)  # type: ignore[no-untyped-call]  # torch's
