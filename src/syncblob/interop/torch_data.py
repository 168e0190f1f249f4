"""torch.utils.data: importing this module lets ``default_collate`` make batches of Blobs.

A batch is a tensor, as it is of ndarrays and tensors; it is built on the Blobs' device, and the
Blobs are only read. Workers that are spawned have to import this module too, and do so where the
loader is given `collate`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch.utils.dlpack
from torch.utils.data import default_collate
from torch.utils.data._utils.collate import default_collate_fn_map  # where its documentation has it

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["collate"]


def collate(batch: list[Any]) -> Any:
    """Put samples together: torch's ``default_collate``, under a name that brings this module.

    Parameters
    ----------
    batch
        Blobs of one shape and dtype, or whatever else torch takes: also tuples and dicts that
        contain Blobs.

    Returns
    -------
    torch.Tensor, or what torch makes of other samples
        Blobs stacked along a new first axis; in a worker in torch's shared memory.
    """
    return default_collate(batch)


def _collate_blobs(
    batch: Sequence[Any], *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None
) -> torch.Tensor:
    functions = default_collate_fn_map if collate_fn_map is None else collate_fn_map
    tensors = [torch.utils.dlpack.from_dlpack(_readable(blob).const) for blob in batch]
    stacked: torch.Tensor = functions[torch.Tensor](tensors, collate_fn_map=functions)
    return stacked


def _readable(blob: Any) -> Any:
    """Return a Blob that torch can read: it has no negative strides."""
    return blob.copy() if any(step < 0 for step in blob.strides) else blob


# By its name: this module lies below Blob.
default_collate_fn_map[importlib.import_module("syncblob").Blob] = _collate_blobs
