"""PyTorch's modules with Blobs as inputs, and with parameters over Blobs.

Importing this module imports torch; the rest of the package imports it when first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from syncblob._blob import Blob
from syncblob.calls.nested import replace_instances
from syncblob.calls.torch import BlobParameter, put_over
from syncblob.devices import Device, home_of

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

__all__ = ["accept_blobs_in_modules", "parameters_to_blobs", "parameters_to_tensors"]

_REAL = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_DTYPES = frozenset({*_REAL, torch.complex64, torch.complex128})


def accept_blobs_in_modules() -> RemovableHandle:
    """Make every ``torch.nn.Module`` of this process accept Blobs.

    Most modules do not need this, because they pass their inputs to functions. Others use
    attributes that only tensors have: ``Flatten``, normalisations of batches and instances,
    circular padding, recurrent layers and attention. After this call, each Blob among the
    positional arguments of a module, also within tuples, lists and dicts, is replaced by a tensor
    over it: a tracked alias, on the mutable path, on the Blob's device. A const Blob, or one with
    negative strides, is replaced by a copy.

    Returns
    -------
    torch.utils.hooks.RemovableHandle
        A handle whose ``remove()`` undoes this; so does leaving a ``with`` block over it.
    """

    def tensor_over(blob: Blob) -> torch.Tensor:
        return blob.to_torch(copy=any(step < 0 for step in blob.strides) or None)

    return register_module_forward_pre_hook(
        lambda _, inputs: replace_instances(inputs, Blob, tensor_over)
    )


def parameters_to_blobs(
    module: torch.nn.Module, device: Device | str | None = None
) -> dict[str, Blob]:
    """Move the parameters of a module to Blobs, in place: values to data, gradients to diff.

    The parameters stay the same objects, so optimizers, hooks and tied modules keep working. They
    become parameters as returned by `syncblob.Blob.as_parameter`. Buffers stay tensors.

    Raises TypeError if `module` is not a module, or a parameter is lazy, of another class, without
    dense memory, or of a dtype that Blobs do not support or that has no gradient. No parameter has
    been changed then; NoDeviceError if the device is not available.

    Parameters
    ----------
    module
        The module. Parameters that are already over a Blob of that device are unchanged.
    device
        The device of the Blobs; None for the device of each parameter. The module, with its
        buffers, is moved there first by its ``to`` method.

    Returns
    -------
    dict of Blob
        One Blob for each parameter, by the names of ``module.named_parameters()``, which are also
        the names of the Blobs. Without `device`, the Blobs share the parameters' memory, which
        counts as exposed; otherwise they have copies.
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(
            f"expected a torch.nn.Module, got {type(module).__name__}; for one parameter, use "
            "Blob.as_parameter()"
        )
    named = dict(module.named_parameters())
    for name, parameter in named.items():
        _require_convertible(name, parameter)
    target = None if device is None else Device(device)
    if target is not None:
        home_of(target)
        module.to(target.torch)
    blobs: dict[str, Blob] = {}
    moved: list[tuple[torch.nn.Parameter, Blob]] = []
    for name, parameter in named.items():
        blob = parameter.blob if isinstance(parameter, BlobParameter) else None
        if not isinstance(blob, Blob) or target not in {None, blob.device}:
            blob = Blob.asarray(parameter.detach(), device=target or Device(parameter.device))
            blob.name = name
            moved.append((parameter, blob))
        blobs[name] = blob
    put_over(moved, "parameters_to_blobs")
    return blobs


def parameters_to_tensors(module: torch.nn.Module) -> None:
    """Make parameters over Blobs ordinary parameters, in place.

    They stay the same objects, and nothing is copied: parameters and gradients are tensors over the
    same memory, tracked like those of `syncblob.Blob.to_torch`. A deep copy of the module has its
    own memory.
    """
    for parameter in module.parameters():
        if isinstance(parameter, BlobParameter):
            parameter.release()


def _require_convertible(name: str, parameter: torch.nn.Parameter) -> None:
    """Raise unless a parameter can be moved to a Blob."""
    kind, dense = type(parameter), parameter.layout is torch.strided and not parameter.is_meta
    if (
        kind not in {torch.nn.Parameter, BlobParameter}
        or parameter.dtype not in _DTYPES
        or not dense
    ):
        raise TypeError(
            f"{name}: expected a torch.nn.Parameter with dense memory and a gradient, of a dtype "
            f"that Blobs have, got a {kind.__name__} of {parameter.dtype}, {parameter.layout}, on "
            f"{parameter.device}; call lazy modules once before; submodules can be converted one "
            "by one"
        )
