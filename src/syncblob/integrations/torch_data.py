"""Batches for torch.utils.data: made from Blobs, and as Blobs on a device."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch.utils.dlpack
from torch.utils.data import default_collate
from torch.utils.data._utils.collate import default_collate_fn_map  # documented there

from syncblob._blob import Blob
from syncblob.calls.nested import map_items
from syncblob.devices import CPU, Device, home_of

__all__ = ["BlobLoader", "collate", "to_blobs"]


def collate(batch: list[Any]) -> Any:
    """Collate samples by torch's ``default_collate``, after importing this module.

    Blobs of one shape and dtype, also within tuples and dicts, become one tensor each, with a new
    first axis; in a worker, in torch's shared memory.
    """
    return default_collate(batch)


def _collate_blobs(batch: Sequence[Blob], *, collate_fn_map: dict[Any, Any]) -> torch.Tensor:
    # Torch has no negative strides.
    blobs = [blob.copy() if any(step < 0 for step in blob.strides) else blob for blob in batch]
    tensors = [torch.utils.dlpack.from_dlpack(blob.const) for blob in blobs]
    stacked: torch.Tensor = collate_fn_map[torch.Tensor](tensors, collate_fn_map=collate_fn_map)
    return stacked


default_collate_fn_map[Blob] = _collate_blobs


def to_blobs(batch: Any, device: Device | str | None = None) -> Any:
    """Replace the tensors and arrays in a batch by Blobs, and start their uploads.

    For hooks such as Lightning's ``transfer_batch_to_device``; `BlobLoader` calls it.

    Raises TypeError if Blobs do not support the dtype of an array; BufferError, RuntimeError if
    torch does not export a tensor, such as a sparse, conjugated or float8 one; ValueError if a
    tensor is on a device that Blobs do not support, such as meta; NoDeviceError if the device is
    not available.

    A batch is a tensor, an array, a Blob, or lists, tuples and dicts that contain them, which keep
    their types and attributes. Other objects are unchanged. Arrays already on `device`, None for
    the default device, are shared. Host arrays are copied once, to page-locked memory for a CUDA
    device, so that the upload is asynchronous.
    """
    target = home_of(device).device

    def replace(x: Any) -> Any:
        return _blob_of(x, target) if isinstance(x, (Blob, torch.Tensor, np.ndarray)) else x

    return map_items(batch, replace)


def _blob_of(x: Any, device: Device) -> Blob:
    """Return a Blob of an array for a device, with its upload started."""
    if isinstance(x, torch.Tensor):
        x = x.detach()
    here = CPU if isinstance(x, np.ndarray) else Device(x.device)
    blob = Blob.asarray(x, device=here)
    if here == CPU != device:
        there = Blob(blob.shape, blob.dtype, device=device)
        # Host memory that the device copies fastest (page-locked for CUDA), unlike that of
        # `asarray`.
        there.overwrite_cpu_data()[...] = blob
        blob = there
    blob = blob.to_device(device)
    blob.prefetch()
    return blob


class BlobLoader:
    """Iterate over a loader's batches as Blobs on a device, uploading batches ahead.

    Before a batch is returned, the next ones are taken from the loader and their uploads started.
    Each iteration over a BlobLoader is one over the loader.

    Raises ValueError if `ahead` is negative; NoDeviceError if the device is not available.

    Parameters
    ----------
    loader
        A ``torch.utils.data.DataLoader``, or any iterable of batches; see `to_blobs`.
    device
        The device of the Blobs; None for the current default device.
    ahead
        The number of batches to upload ahead, which need that much more device memory. It must be
        0 for a loader that refills one array on `device`, because Blobs share such arrays.
    """

    def __init__(
        self, loader: Iterable[Any], device: Device | str | None = None, *, ahead: int = 1
    ) -> None:
        if ahead < 0:
            raise ValueError(f"expected a non-negative number of batches ahead, got {ahead}")
        self.loader: Any = loader
        self.device: Device = home_of(device).device
        self.ahead: int = ahead

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the loader."""
        waiting: deque[Any] = deque()
        for batch in self.loader:
            waiting.append(to_blobs(batch, self.device))
            if len(waiting) > self.ahead:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()

    def __len__(self) -> int:
        """Return the number of batches, if the loader has a length."""
        return len(self.loader)
