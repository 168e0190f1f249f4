"""Creation functions (https://data-apis.org/array-api/latest/API_specification)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob.blob import Blob

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from syncblob.devices import Device

__all__ = ["asarray", "from_dlpack"]


def asarray(
    obj: Any,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
    copy: bool | None = None,
) -> Blob:
    """Make a Blob of anything that is, or converts to, an array; see `Blob.asarray`."""
    return Blob.asarray(obj, dtype, device=device, copy=copy)


def from_dlpack(x: Any, /, *, device: Device | str | None = None, copy: bool | None = None) -> Blob:
    """Make a Blob over the memory of a DLPack producer; see `Blob.from_dlpack`."""
    return Blob.from_dlpack(x, device=device, copy=copy)
