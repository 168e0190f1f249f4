"""The name of a device."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import device as torch_device

# What makes the backends of each kind of accelerator; filled by `choose_device`.
factories: dict[str, Any] = {}


@cache
def installed_backends() -> dict[str, Any]:
    """Return the entry points of backends in installed packages, by kind."""
    from importlib.metadata import entry_points  # slow, and rarely needed

    return {point.name: point for point in entry_points(group="syncblob.devices")}


class Device:
    """A device: ``"cpu"``, ``"cuda:N"``, ``"simulated:N"``, or one of a registered kind.

    A Device equals its name, and has the same hash, so that code can compare and look up either.

    Raises ValueError if there is no such kind of device. Whether the device is available is not
    checked.

    Parameters
    ----------
    name
        The name, a Device, or a ``torch.device`` that is a host or a CUDA device. Without an index,
        ``"cuda"`` and the like mean index 0; ``torch.device("cuda")`` is torch's current device.

    Attributes
    ----------
    name
        The name with its index, which ``str`` returns: ``"cpu"``, ``"cuda:0"``.
    type
        ``"cpu"``, ``"cuda"``, ``"simulated"``, or a kind registered by `syncblob.devices.register`.
    index
        The N of the name; 0 for the host.
    """

    __slots__ = ("index", "name", "type")

    name: str
    type: str
    index: int

    def __init__(self, name: str | Device | torch_device) -> None:
        if isinstance(name, Device):
            # Works even if the kind was unregistered meanwhile.
            self.type, self.index = name.type, name.index
            self.name = name.name
            return
        text = name if isinstance(name, str) else _torch_name(name) or repr(name)
        kind, colon, index = text.partition(":")
        is_kind = kind == "cpu" or kind in factories or kind in installed_backends()
        if not is_kind or (colon and not (index.isascii() and index.isdigit())):
            *others, last = (f'"{each}:N"' for each in factories | installed_backends())
            advice = '; an NVIDIA GPU is "cuda"' if kind.lower() in {"gpu", "nvidia"} else ""
            raise ValueError(
                f'a device is "cpu", {", ".join(others)} or {last}, got {name!r}{advice}'
            )
        if kind == "cpu" and int(index or 0) != 0:
            raise ValueError(f'there is one host, "cpu", got {name!r}')
        self.type = kind
        self.index = int(index or 0)
        self.name = kind if kind == "cpu" else f"{kind}:{self.index}"

    @property
    def torch(self) -> torch_device:
        """The ``torch.device`` on which torch computes with Blobs of this device; imports torch.

        This is the host for all devices except CUDA devices. Example:
        ``torch.zeros(3, device=blob.device.torch)``.
        """
        import torch  # the caller uses torch

        return torch.device(self.name if self.type == "cuda" else "cpu")

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    def __repr__(self) -> str:
        """Show the name."""
        return f"Device({self.name!r})"

    def __eq__(self, other: object) -> bool:
        """Compare with a Device or a name."""
        if isinstance(other, Device):
            return self.name == other.name
        if isinstance(other, str):
            return self.name == other
        return NotImplemented

    def __hash__(self) -> int:
        """Hash like the name."""
        return hash(self.name)

    def __reduce__(self) -> tuple[Callable[[str], Device], tuple[str]]:
        """Pickle by name."""
        return (Device, (self.name,))


def _torch_name(name: object) -> str | None:
    """Return the name of a ``torch.device``; None for other objects."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(name, torch.device):
        return None
    if name.type == "cuda" and name.index is None and torch.cuda.is_available():
        return f"cuda:{torch.cuda.current_device()}"
    return str(name)


CPU = Device("cpu")
