"""Batches of Blobs for torch.utils.data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch.utils.dlpack
from torch.utils.data import default_collate
from torch.utils.data._utils.collate import default_collate_fn_map  # where its documentation has it

from syncblob.blob import Blob

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
    batch: Sequence[Blob], *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None
) -> torch.Tensor:
    functions = default_collate_fn_map if collate_fn_map is None else collate_fn_map
    tensors = [torch.utils.dlpack.from_dlpack(_readable(blob).const) for blob in batch]
    stacked: torch.Tensor = functions[torch.Tensor](tensors, collate_fn_map=functions)
    return stacked


def _readable(blob: Blob) -> Blob:
    """Return a Blob that torch can read: it has no negative strides."""
    return blob.copy() if any(step < 0 for step in blob.strides) else blob


default_collate_fn_map[Blob] = _collate_blobs
