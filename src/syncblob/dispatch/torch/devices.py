"""The device of PyTorch's functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from syncblob.devices import HOST, accelerator
from syncblob.errors import NoDeviceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncblob.devices import Device
    from syncblob.devices.base import Home

# The devices that torch was found to use, because asking it is slow.
_reached: set[Device] = set()


def require_reach(home: Home) -> None:
    """Raise if this PyTorch cannot use the device of a home, before any transfer.

    Raises
    ------
    NoDeviceError
        If it is a CUDA device, and PyTorch was built without CUDA or finds no device.
    """
    if home.device.type != "cuda" or home.device in _reached:
        return
    if torch.cuda.is_available():
        # Otherwise nobody could ask for its current stream before its first function.
        torch.cuda.init()  # type: ignore[no-untyped-call]  # torch's stubs lack its result
        _reached.add(home.device)
        return
    built = torch.version.cuda
    reason = f"built for CUDA {built}, finds no device" if built else "was built without CUDA"
    raise NoDeviceError(
        f"PyTorch cannot use {home.device}: torch {torch.__version__} {reason}. Install a build "
        "for this device, or compute on the host, with blob.on('cpu')"
    )


def device_of_tensors(
    tensors: Sequence[torch.Tensor], devices: Iterable[Device]
) -> tuple[torch.device, Home]:
    """Return the device on which a function runs.

    Parameters
    ----------
    tensors
        The tensors among its arguments.
    devices
        The devices of the Blobs among them. They matter only if all tensors are 0-d on the host,
        which torch accepts with any device. Simulated devices count as the host.

    Returns
    -------
    device : torch.device
    home : Home
        The host, or the backend of the CUDA device.
    """
    found = next((str(tensor.device) for tensor in tensors if tensor.is_cuda), None)
    if found is None and not any(tensor.ndim for tensor in tensors):
        found = next((str(device) for device in devices if device.type == "cuda"), None)
    if found is None:
        return torch.device("cpu"), HOST
    home = accelerator(found)
    require_reach(home)
    return torch.device(found), home
