"""PyTorch's modules, which take Blobs after `accept_blobs_in_modules`.

Importing this module imports torch; the rest of the package does so when a tensor is at hand.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from torch.nn.modules.module import register_module_forward_pre_hook

from syncblob.blob import Blob

if TYPE_CHECKING:
    import torch
    from torch.utils.hooks import RemovableHandle

__all__ = ["accept_blobs_in_modules"]


def accept_blobs_in_modules() -> RemovableHandle:
    """Let every ``torch.nn.Module`` of this process take Blobs, whatever it asks of its inputs.

    Most modules need this not: they hand their inputs to functions. Recurrent layers, attention and
    InstanceNorm ask for what only a tensor has. Afterwards each Blob among the positional arguments
    of a module, and in tuples and lists among them, is replaced by a tensor over it: a tracked
    alias, on the mutable path, on the Blob's device; of a const Blob a copy.

    Returns
    -------
    torch.utils.hooks.RemovableHandle
        Its ``remove()`` ends this, and so does leaving a ``with`` block over it.
    """
    hook: Any = _with_tensors  # declared to return nothing, documented to return the inputs
    return register_module_forward_pre_hook(hook)


def _with_tensors(_module: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(_as_tensor, inputs))


def _as_tensor(x: Any) -> Any:
    """Replace a Blob, or those in a tuple or list such as a recurrent layer's state."""
    if type(x) in {tuple, list}:
        items = [_as_tensor(item) for item in x]
        # A list without Blobs stays the caller's, who may look at it afterwards.
        return type(x)(items) if any(map(operator.is_not, items, x)) else x
    return x.to_torch() if isinstance(x, Blob) else x
