"""Parameters over Blobs: leaves of autograd whose storage is data and whose gradient is diff."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from syncblob._dtypes import is_bfloat16
from syncblob._source_lines import warn_user
from syncblob.blob.core import HOST_DATA, HOST_DIFF, BlobCore
from syncblob.calls.torch.tensors import alias_over, clear_of, untraced
from syncblob.errors import StaleAliasWarning

# Torch's access to the storage and the gradient of any tensor; `BlobParameter` overrides it.
_of_tensors: Any = vars(torch._C.TensorBase)
_get_data, _set_data = _of_tensors["data"].__get__, _of_tensors["data"].__set__
_get_grad, _set_grad = _of_tensors["grad"].__get__, _of_tensors["grad"].__set__

is_distributed: Callable[[], bool] = getattr(torch.distributed, "is_initialized", lambda: False)


@untraced
def parameter_over(blob: BlobCore) -> BlobParameter:
    """Return a leaf over a Blob's data and diff; see `Blob.as_parameter`."""
    data, attachment = _attachment_of(blob, "as_parameter")
    # `torch.nn.Parameter` would make another tensor.
    data.requires_grad = True
    return _attach(data, attachment, has_gradient=True)


@untraced
def put_over(pairs: Iterable[tuple[torch.nn.Parameter, BlobCore]], reason: str) -> None:
    """Replace the storage of parameters by Blobs that already have their contents, in place.

    Existing gradients are copied into diff. Parameters that do not require a gradient get none
    until they do. If this raises, no parameter has changed.
    """
    prepared: list[tuple[Any, ...]] = []
    for parameter, blob in pairs:
        data, attachment = _attachment_of(blob, reason)
        gradient: torch.Tensor | None = _get_grad(parameter)
        if gradient is not None:
            attachment.diff.copy_(gradient.to_dense().detach())
        has_one = gradient is not None or parameter.requires_grad
        prepared.append((parameter, data, attachment, has_one))
    for parameter, data, attachment, has_one in prepared:
        _set_grad(parameter, None)
        _set_data(parameter, data)
        _attach(parameter, attachment, has_gradient=has_one)


def _attach(
    parameter: torch.Tensor, attachment: _Attachment, *, has_gradient: bool
) -> BlobParameter:
    """Turn a leaf, whose storage is over data, into a parameter over a Blob."""
    # Like `register_post_accumulate_grad_hook`, but without a handle, which would take most of the
    # time. Handles start at 0. First in order, so that other hooks find the gradient in diff.
    hooks: Any = parameter._post_accumulate_grad_hooks
    if hooks is None:
        hooks = OrderedDict()
    # In place, because handles refer to it. Torch ignores `OrderedDict.move_to_end`.
    others = [*hooks.items()]
    hooks.clear()
    hooks.update([(-1, _store_gradient), *others])
    # Even if they are the same: after `swap_tensors`, torch calls those of the other tensor.
    parameter._post_accumulate_grad_hooks = hooks
    if has_gradient:
        _set_grad(parameter, attachment.diff)
    # As torch does when it initializes a lazy module.
    result: Any = parameter
    result.__class__ = BlobParameter
    result._attachment = attachment
    return result


def _attachment_of(blob: BlobCore, reason: str) -> tuple[torch.Tensor, _Attachment]:
    """Return a tensor over a Blob's data, and what a parameter over it needs."""
    blob.require_writable(reason)
    dtype = blob.dtype
    if dtype.kind not in "fc" and not is_bfloat16(dtype):
        raise TypeError(
            f"torch has gradients of floating-point and complex numbers, got {dtype}; use .astype()"
        )
    gradient = alias_over(blob, blob.home, HOST_DIFF, reason)
    data = alias_over(blob, blob.home, HOST_DATA, reason)
    buffers = _buffers(blob)
    return data, _Attachment(blob, gradient, data.data_ptr(), gradient.data_ptr(), buffers)


@dataclass(slots=True, eq=False)
class _Attachment:
    """What a parameter needs of its Blob. It does not refer to the parameter, to avoid a cycle."""

    blob: BlobCore
    diff: torch.Tensor
    """A tensor over diff. The gradient itself until Python first reads that, and then another one,
    because `Module.to`, for example, assigns to the `data` of gradients."""
    # Those of data and diff when the parameter was attached; `address` becomes None once it has
    # other data.
    address: int | None
    diff_address: int
    buffers: tuple[Any, Any]

    def holds(self, parameter: BlobParameter) -> bool:
        """Return whether a parameter and diff still have their memory and layout."""
        diff = self.diff
        return (
            # `share_memory_` changes the address of a storage.
            parameter.data_ptr() == self.address
            and diff.data_ptr() == self.diff_address
            and parameter.shape == diff.shape
            and parameter.stride() == diff.stride()
        )

    def store(self, parameter: BlobParameter, gradient: torch.Tensor) -> None:
        """Copy a gradient that lies elsewhere into diff, with its graph."""
        # Itself, if it is not sparse.
        gradient = gradient.to_dense()
        # Never true of a tensor that is conjugated or negated lazily.
        if gradient.is_set_to(self.diff):
            return
        stored = self.diff.detach()
        with torch.set_grad_enabled(gradient.requires_grad):
            stored.copy_(clear_of(gradient, [stored]))
        _set_grad(parameter, stored)


def _store_gradient(parameter: torch.Tensor) -> None:
    """Store in diff a gradient that autograd has just accumulated.

    The hook of all parameters over Blobs. It refers to none of them, because the garbage collector
    does not see what hooks refer to.
    """
    if is_distributed():
        # DistributedDataParallel sums gradients in a callback that it queues after this hook, and
        # may let them be views of its buckets. A callback queued by a callback runs after that.
        queue = torch.autograd.Variable._execution_engine.queue_callback
        queue(partial(queue, partial(_store, parameter)))
    _store(parameter)


def _store(parameter: torch.Tensor) -> None:
    # `torch.utils.swap_tensors` exchanges classes, attributes and hooks.
    if isinstance(parameter, BlobParameter):
        gradient, attachment = _get_grad(parameter), parameter._attachment
        if attachment is None or (
            # The usual case: no code has read the gradient, or replaced it or the data.
            gradient is attachment.diff and parameter.data_ptr() == attachment.address
        ):
            return
        attachment = parameter._live_attachment()
        if attachment is not None and gradient is not None:
            attachment.store(parameter, gradient)


class BlobParameter(torch.nn.Parameter):
    """A parameter over a Blob's data, whose gradient is always over the Blob's diff.

    Assignments copy instead of replacing the storage or the gradient: setting `data` copies into
    data, setting `grad` to a tensor copies into diff, and setting it to None, as ``zero_grad``
    does, fills diff with zeros; only a frozen parameter then has no gradient. A copy of it is an
    ordinary parameter. After a warning, so is the parameter itself once torch has replaced its
    storage.
    """

    # None once the parameter has left the Blob.
    _attachment: _Attachment | None = None

    def _leave(self) -> None:
        """Undo `_attach`, apart from the class."""
        hooks = self._post_accumulate_grad_hooks
        # `torch.utils.swap_tensors` leaves them with the other tensor.
        if hooks is not None:
            hooks.pop(-1, None)
        self.__dict__.pop("_attachment", None)

    def release(self) -> None:
        """Become an ordinary parameter that keeps its storage and gradient."""
        self._leave()
        ordinary: Any = torch.nn.Parameter
        self.__class__ = ordinary

    @property
    @untraced
    def blob(self) -> BlobCore | None:
        """The Blob under this parameter; None once one of them has other memory."""
        attachment = self._attachment
        if attachment is None or not attachment.holds(self):
            return None
        blob = attachment.blob
        return blob if all(map(operator.is_, _buffers(blob), attachment.buffers)) else None

    @property
    @untraced
    def data(self) -> torch.Tensor:
        """A tensor over the Blob's data that autograd does not record."""
        return _get_data(self)

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        attachment = self._attachment
        if attachment is None or any(
            getattr(value, name, None) != getattr(self, name)
            for name in ("shape", "dtype", "device", "layout")
        ):
            _set_data(self, value)
            if attachment is not None:
                attachment.address = None
        elif not value.is_set_to(self):
            with torch.no_grad():
                self.copy_(clear_of(value, [self]))

    @property
    def grad(self) -> torch.Tensor | None:
        """The gradient: a tensor over the Blob's diff."""
        gradient, attachment = _get_grad(self), self._attachment
        if attachment is not None and gradient is attachment.diff:
            # Within torch.func, it would be a wrapper that ends with the transformation.
            with torch._C._DisableFuncTorch():
                attachment.diff = gradient.detach()
        elif (
            gradient is not None
            and attachment is not None
            and is_distributed()
            and attachment.holds(self)
        ):
            # No hook has stored what other processes have computed for an unused parameter.
            attachment.store(self, gradient)
            return _get_grad(self)
        return gradient

    @grad.setter
    @untraced
    def grad(self, value: torch.Tensor | None) -> None:
        attachment = self._live_attachment()
        if attachment is None or value is not None:
            _set_grad(self, value)  # torch checks the value
        if attachment is None:
            return
        if value is not None:
            attachment.store(self, value)
            return
        with torch.no_grad():
            attachment.diff.zero_()
        _set_grad(self, attachment.diff.detach() if self.requires_grad else None)

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def _live_attachment(self) -> _Attachment | None:
        """Return the attachment; warn and return None if the storage was replaced."""
        attachment = self._attachment
        if attachment is not None and not attachment.holds(self):
            warn_user(
                "this parameter is not over its Blob any more: its storage was replaced, as by "
                "Tensor.set_, share_memory_ or a change of dtype, device or shape. The Blob does "
                "not see its gradient or the steps of an optimizer; make a new parameter",
                StaleAliasWarning,
            )
            self._leave()
            return None
        return attachment

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.nn.Parameter:
        """Copy into an ordinary parameter with its own memory; as in torch, without a gradient."""
        if id(self) not in memo:
            contents = self.data.clone(memory_format=torch.preserve_format)
            memo[id(self)] = torch.nn.Parameter(contents, self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle a copy, as an ordinary parameter with the attributes that it was given."""
        plain: Any = torch.nn.Parameter(self.data.clone(), self.requires_grad)
        others = self.__dict__.items()
        plain.__dict__.update((name, value) for name, value in others if name != "_attachment")
        return plain.__reduce_ex__(protocol)


def _buffers(blob: BlobCore) -> tuple[Any, Any]:
    """Return the buffers of a Blob's data and diff on the side of its device."""
    diff, home = blob.existing_diff(), blob.home
    theirs = None if diff is None else diff.buffer(diff.side_of(home))
    return blob.memory.buffer(blob.side), theirs
