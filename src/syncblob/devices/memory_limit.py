"""``set_memory_limit``: the bytes that may lie on an accelerator."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from operator import index

from syncblob.devices import Device, accelerator


def set_memory_limit(device: Device | str, nbytes: int | None) -> AbstractContextManager[object]:
    """Limit the bytes on an accelerator. Beyond it, buffers are evicted, or allocations fail.

    Parameters
    ----------
    device
        The accelerator.
    nbytes
        The limit; None for none.

    Returns
    -------
    context manager
        In a ``with`` statement, it restores the limit before at the end of the block.
    """
    if nbytes is not None and index(nbytes) < 1:
        raise ValueError(f"expected a number of bytes, at least 1, or None, got {nbytes}")
    home = accelerator(device)
    end = ExitStack()
    end.callback(home.limit_memory, home.limit_memory(None if nbytes is None else index(nbytes)))
    return end
