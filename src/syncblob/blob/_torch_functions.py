"""PyTorch's functions on Blobs: ``__torch_function__``, tensors and parameters over Blobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

from syncblob._optional import import_optional
from syncblob.blob._ndarray_methods import NdarrayMethods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Self

    from torch import Tensor

    from syncblob.dispatch.torch.parameters import BlobParameter

__all__ = ["TorchFunctions"]


# `syncblob.dispatch.torch`, once it was imported, which imports torch. An import statement takes as
# long as much of a call.
_torch: Any = None


def _import_dispatch() -> None:
    global _torch  # noqa: PLW0603  # see there
    import_optional("torch")
    from syncblob.dispatch import torch

    _torch = torch


class _Missing:
    """In the place of a tensor's method that Blobs do not have: the error says what to use."""

    __slots__ = ("_advice", "_name")

    def __init__(self, advice: str) -> None:
        self._advice = advice

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, blob: Any, owner: type | None = None) -> NoReturn:
        raise AttributeError(f"a Blob has no attribute {self._name!r}; {self._advice}")


class TorchFunctions(NdarrayMethods):
    """PyTorch's protocol for its functions. torch is imported when one of these is called.

    A function is computed where the tensors among its arguments are: on a CUDA device, or on the
    host. Without tensors it is where the Blobs are; torch knows no simulated device, so that counts
    as the host. Inputs take the const path, what the function writes takes the mutable path, and an
    `out` that is written completely is not brought up to date before.
    """

    __slots__ = ()

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Compute one of torch's functions; torch calls this.

        Returns
        -------
        Any
            As the function gives it: tensors. One that is over a Blob's memory, such as a reshaped
            input or an `out`, is a tracked alias of the Blob, on the mutable path; of a const Blob
            it is a copy.
        """
        del types  # The function asks those of the other arguments again.
        if _torch is None:
            _import_dispatch()
        return _torch.call(func, args, kwargs or {})

    # --- tensors and parameters ------------------------------------------------------------------

    def to_torch(self, *, copy: bool | None = None) -> Tensor:
        """Return a tensor over data, on this Blob's device: a tracked alias, on the mutable path.

        Parameters
        ----------
        copy
            True makes a private copy, on the const path. None does so of a const Blob only; False
            refuses that.

        Raises
        ------
        ValueError
            If a const Blob is to be lent, or a stride is negative, which torch does not have.
        """
        if _torch is None:
            _import_dispatch()
        tensor: Tensor = _torch.tensor_over(self, copy=copy)
        return tensor

    def as_parameter(self) -> BlobParameter:
        """Return a leaf over data, for autograd, whose gradient is over diff. Nothing is copied.

        ``loss.backward()`` adds to diff; `update`, or an optimizer of torch's that was given the
        parameter, writes data. Both are tracked aliases on this Blob's device, for as long as the
        parameter lives or a graph refers to it. Diff is created where there is none.

        Returns
        -------
        torch.nn.Parameter
            Its `grad` is never None: ``zero_grad()`` sets diff to zero, with and without
            ``set_to_none``. A gradient that is assigned is copied into diff.

        Raises
        ------
        TypeError
            If the dtype is not a floating-point or complex one.
        ValueError
            If this is a const Blob, or a stride is negative, which torch does not have.
        """
        if _torch is None:
            _import_dispatch()
        parameter: BlobParameter = _torch.parameter_over(self)
        return parameter

    # --- what modules of torch's ask their inputs ------------------------------------------------

    def dim(self) -> int:
        """Return the number of axes. torch's name: some of its modules ask for it."""
        return self.ndim

    @overload
    def flatten(self, order: Literal["C", "F", "A", "K"] = "C") -> Self: ...

    @overload
    def flatten(self, order: int, end_dim: int | None = None) -> Tensor: ...

    def flatten(self, order: Any = "C", end_dim: int | None = None) -> Any:
        """Return a copy of the elements along one axis; or call ``torch.flatten``.

        Parameters
        ----------
        order
            ``"C"``, ``"F"``, ``"A"`` or ``"K"``, as in NumPy; or the first of the axes to be
            joined, as in torch, which returns a tensor.
        end_dim
            The last of these axes.
        """
        if isinstance(order, str) and end_dim is None:
            return super().flatten(order)
        import torch  # only its modules call it like this

        blob: Any = self
        return torch.flatten(blob, order, -1 if end_dim is None else end_dim)

    def unflatten(self, dim: int, sizes: Any) -> Tensor:
        """Call ``torch.unflatten``, as its module does: one axis becomes several."""
        import torch  # only its modules call it

        blob: Any = self
        return torch.unflatten(blob, dim, sizes)

    # --- what it does not have -------------------------------------------------------------------

    if not TYPE_CHECKING:  # to a checker they are as unknown as any other name
        cuda = _Missing('blob.to_device("cuda") is a copy there')
        detach = _Missing(
            "PyTorch's functions take Blobs, blob.to_torch() is a tensor over one, and "
            "blob.as_parameter() is what nn.Parameter(blob) would be"
        )
        numpy = _Missing("np.asarray(blob) reads it on the host, np.asarray(blob.cpu) may write")
        to = _Missing("blob.to_device(device) copies to a device, blob.astype(dtype) converts")
