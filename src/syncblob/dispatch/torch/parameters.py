"""Parameters over Blobs: leaves of autograd whose storage is data and whose gradient is diff."""

from __future__ import annotations

import operator
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import torch

from syncblob._dtypes import is_bfloat16
from syncblob._source_lines import warn_user
from syncblob.blob.core import HOST_DATA, HOST_DIFF
from syncblob.devices import HOST
from syncblob.dispatch.torch.tensors import alias_over, partially_overlaps, place_of
from syncblob.dispatch.torch.tracing import untraced
from syncblob.errors import StaleAliasWarning

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncblob.blob.core import BlobCore

__all__ = ["BlobParameter", "parameter_over", "put_over"]

# The descriptors for a tensor's storage and gradient.
_DATA: Any = torch.Tensor.data
_GRAD: Any = torch.Tensor.grad

# The attributes of a BlobParameter that an ordinary parameter lacks.
_FIELDS = ("_diff", "_origin", "_diff_place", "_buffers", "_blob")

# The frames between the user and the export in `alias_over`, at least.
_OURS = 5


@untraced
def parameter_over(blob: BlobCore) -> BlobParameter:
    """Return a leaf over a Blob's data and diff; see `Blob.as_parameter`."""
    data, diff, buffers = _tensors_over(blob, "as_parameter")
    parameter = BlobParameter(data)
    parameter._follow(blob, data, diff, buffers)
    _GRAD.__set__(parameter, diff.detach())
    return parameter


@untraced
def put_over(pairs: Iterable[tuple[torch.nn.Parameter, BlobCore]], reason: str) -> None:
    """Replace the storage of parameters by Blobs that already have their contents, in place.

    Existing gradients are copied into diff. Parameters that do not require a gradient get none
    until they do. If this raises, no parameter has changed.
    """
    prepared: list[tuple[Any, ...]] = []
    for parameter, blob in pairs:
        data, diff, buffers = _tensors_over(blob, reason)
        gradient: torch.Tensor | None = _GRAD.__get__(parameter)
        if gradient is not None:
            dense = gradient if gradient.layout is torch.strided else gradient.to_dense()
            diff.copy_(dense.detach())
        has_one = gradient is not None or parameter.requires_grad
        leaf = diff.detach() if has_one else None
        prepared.append((parameter, (blob, data, diff, buffers), leaf))
    for parameter, (blob, data, diff, buffers), gradient in prepared:
        _GRAD.__set__(parameter, None)
        _DATA.__set__(parameter, data)
        # As torch does when it initializes a lazy module.
        parameter.__class__ = BlobParameter
        parameter._follow(blob, data, diff, buffers)
        _GRAD.__set__(parameter, gradient)


def _tensors_over(
    blob: BlobCore, reason: str
) -> tuple[torch.Tensor, torch.Tensor, tuple[Any, Any]]:
    """Return tensors over a Blob's data and diff, and the buffers of both."""
    blob._require_writable(reason)
    layout = blob._layout
    if layout.dtype.kind not in "fc" and not is_bfloat16(layout.dtype):
        raise TypeError(
            f"torch has gradients of floating-point and complex numbers, got {layout.dtype}; "
            "use .astype()"
        )
    if layout.reversed_axes:
        raise ValueError(
            f"torch has no tensors with negative strides such as {layout.strides}; use a copy"
        )
    memory, diff = blob._memory, blob._diff_memory()
    side = blob._side
    if blob._home is not HOST:
        blob._bind_partner(diff, side)
    gradient = alias_over(blob, diff, HOST_DIFF, reason, _OURS)
    data = alias_over(blob, memory, HOST_DATA, reason, _OURS)
    return data, gradient, (memory.buffer(side), diff.buffer(side))


class BlobParameter(torch.nn.Parameter):
    """A parameter over a Blob's data, whose gradient is always over the Blob's diff.

    Assignments copy instead of replacing the storage or the gradient: setting `data` copies into
    data, setting `grad` to a tensor copies into diff, and setting it to None, as ``zero_grad``
    does, fills diff with zeros; only a frozen parameter then has no gradient. A copy of it is an
    ordinary parameter. After a warning, so is the parameter itself once torch has replaced its
    storage.
    """

    # A tensor over diff; None once the parameter has left the Blob. The gradient is another one,
    # because `Module.to` assigns to the `data` of gradients.
    _diff: torch.Tensor | None = None
    # The address, dtype and device of data, the place of diff, and the Blob's buffers, from when
    # they were the same memory.
    _origin: tuple[int, torch.dtype, torch.device]
    _diff_place: tuple[Any, ...]
    _buffers: tuple[Any, Any]
    _blob: BlobCore

    def _follow(
        self, blob: BlobCore, data: torch.Tensor, diff: torch.Tensor, buffers: tuple[Any, Any]
    ) -> None:
        """Attach to a Blob. The storage is already that of `data`."""
        self._blob = blob
        self._origin = (data.data_ptr(), data.dtype, data.device)
        self._diff_place = place_of(diff)
        self._buffers = buffers
        self._diff = diff
        # Like `register_post_accumulate_grad_hook`, but without a handle, which would take most of
        # the time. Handles start at 0. First in order, so that other hooks find the gradient in
        # diff.
        hooks: Any = self._post_accumulate_grad_hooks
        if hooks is None:
            self._post_accumulate_grad_hooks = OrderedDict({-1: _accumulated})
        else:
            # In place, because handles refer to it. Torch ignores `OrderedDict.move_to_end`.
            others = [*hooks.items()]
            hooks.clear()
            hooks.update([(-1, _accumulated), *others])

    def release(self) -> None:
        """Become an ordinary parameter that keeps its storage and gradient."""
        self._post_accumulate_grad_hooks.pop(-1, None)
        for name in _FIELDS:
            self.__dict__.pop(name, None)
        ordinary: Any = torch.nn.Parameter
        self.__class__ = ordinary

    @property
    @untraced
    def blob(self) -> BlobCore | None:
        """The Blob under this parameter; None once one of them has other memory."""
        if self._is_over_the_blob() and all(map(operator.is_, _buffers(self._blob), self._buffers)):
            return self._blob
        return None

    def _is_over_the_blob(self) -> bool:
        diff = self._diff
        if diff is None:
            return False
        address, dtype, device = self._origin
        return (
            self.data_ptr() == address
            and diff.data_ptr() == self._diff_place[0]
            and self.dtype is dtype
            # All empty tensors have the address 0.
            and (address != 0 or self.device == device)
        )

    @property
    @untraced
    def data(self) -> torch.Tensor:
        """A tensor over the Blob's data that autograd does not record."""
        return _DATA.__get__(self)

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        if self._diff is None or any(
            getattr(value, name, None) != getattr(self, name)
            for name in ("shape", "dtype", "device", "layout")
        ):
            _DATA.__set__(self, value)
        elif place_of(value) != place_of(self):
            with torch.no_grad():
                self.copy_(_apart(value, self))

    @property
    def grad(self) -> torch.Tensor | None:
        """The gradient: a tensor over the Blob's diff."""
        return _GRAD.__get__(self)

    @grad.setter
    @untraced
    def grad(self, value: torch.Tensor | None) -> None:
        diff = self._followed()
        if diff is None or value is not None:
            _GRAD.__set__(self, value)  # torch checks the value
        if diff is not None:
            if value is None:
                with torch.no_grad():
                    diff.zero_()
                _GRAD.__set__(self, diff.detach() if self.requires_grad else None)
            else:
                _store_gradient(self, value, diff)

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def _followed(self) -> torch.Tensor | None:
        """Return the tensor over diff; warn and return None if the storage was replaced."""
        diff = self._diff
        if diff is not None and not self._is_over_the_blob():
            _warn_of_parting()
            self._diff = diff = None
        return diff

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.nn.Parameter:
        """Copy into an ordinary parameter with its own memory; as in torch, without a gradient."""
        if id(self) not in memo:
            contents = self.data.clone(memory_format=torch.preserve_format)
            memo[id(self)] = torch.nn.Parameter(contents, self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle as an ordinary parameter with the attributes that it was given.

        It is a copy, because torch's pickler for other processes moves storages to shared memory.
        """
        plain: Any = torch.nn.Parameter(self.data.clone(), self.requires_grad)
        others = self.__dict__.items()
        plain.__dict__.update((name, value) for name, value in others if name not in _FIELDS)
        return plain.__reduce_ex__(protocol)


def _buffers(blob: BlobCore) -> tuple[Any, Any]:
    """Return the buffers of a Blob's data and diff on the side of its device."""
    diff = blob._existing_diff()
    return blob._memory.buffer(blob._side), None if diff is None else diff.buffer(blob._side)


def _accumulated(parameter: torch.Tensor) -> None:
    """Store in diff a gradient that autograd has just accumulated."""
    if isinstance(parameter, BlobParameter):
        gradient, diff = _GRAD.__get__(parameter), parameter._followed()
        if diff is not None and gradient is not None:
            _store_gradient(parameter, gradient, diff)


def _store_gradient(parameter: BlobParameter, gradient: torch.Tensor, diff: torch.Tensor) -> None:
    """Copy a gradient that autograd did not accumulate in place into diff, with its graph."""
    if gradient.layout is not torch.strided:
        gradient = gradient.to_dense()
    if place_of(gradient) == parameter._diff_place:
        return
    stored = diff.detach()
    with torch.set_grad_enabled(gradient.requires_grad):
        stored.copy_(_apart(gradient, diff))
    _GRAD.__set__(parameter, stored)


def _apart(x: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor that can be copied into another; a copy if they share elements."""
    return x.clone() if partially_overlaps(x, tensor) else x


def _warn_of_parting() -> None:
    warn_user(
        "this parameter is not over its Blob any more: something has put another storage in the "
        "place of the Blob's, as Tensor.set_, share_memory_ and a change of dtype or device do. "
        "The Blob does not see the gradient, nor what an optimizer does; make a new parameter",
        StaleAliasWarning,
    )
