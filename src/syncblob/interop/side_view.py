"""One side of a memory, lent by name: ``blob.cpu`` and ``blob.gpu``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from syncblob.devices.base import protocols
from syncblob.interop import export_cuda, export_dlpack, export_numpy
from syncblob.memory import CONST, OVERWRITE, Access, Head, SyncedMemory

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from syncblob._layout import Layout
    from syncblob.devices import Side


# By access.
_PURPOSES = ("read", "read and write", "write everything and read nothing")


class SideView:
    """One side of a Blob, for other libraries to read, write or overwrite.

    It supports the protocols of that side: DLPack, ``__array__`` if NumPy can access the memory,
    and the CUDA array interface on a CUDA device. Every writable alias made through it is tracked.
    `cupy.asarray` keeps the SideView, whose lifetime then stands for that of the alias.
    """

    __slots__ = ("__weakref__", "_access", "_host", "_lent", "_what")

    def __init__(
        self, what: Callable[[], tuple[SyncedMemory, Side, Layout]], access: Access, *, host: bool
    ) -> None:
        # Called for each access, because a resize or an adoption may replace the memory.
        self._what = what
        self._host = host
        self._access = access
        self._lent: list[tuple[SyncedMemory, Any]] = []

    @property
    def const(self) -> SideView:
        """The same side for reading."""
        return SideView(self._what, CONST, host=self._host)

    @property
    def overwrite(self) -> SideView:
        """The same side for overwriting every element, without a transfer.

        A view with gaps is updated first, because the bytes between its elements must survive.

        Raises ValueError if this view is const.
        """
        if self._access is CONST:
            raise ValueError("this view is const; take it of the Blob itself: blob.gpu.overwrite")
        return SideView(self._what, OVERWRITE, host=self._host)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return an array over this side: writable and tracked, or read-only if const.

        Another dtype, or ``copy=True``, gives a private copy. Raises TypeError if the side is on a
        CUDA device, which NumPy cannot access; ValueError if `copy` is False and a conversion is
        needed.
        """
        memory, side, layout = self._what()
        home = memory.home(side)
        if not home.native:
            raise TypeError(f"NumPy cannot reach memory on {home.device}; use .cpu")
        return export_numpy.to_ndarray(memory, layout, dtype, copy, side=side, access=self._access)

    def __dlpack__(self, **request: Any) -> Any:
        """Export this side through DLPack; the keywords are those of ``Blob.__dlpack__``."""
        memory, side, layout = self._what()
        return export_dlpack.export(memory, layout, self._access, side=side, **request)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device type and id of this side."""
        memory, side, _ = self._what()
        return memory.home(side).dlpack_device

    def __getattr__(self, name: str) -> Any:
        """Return the protocol by which arrays of the accelerator's library describe themselves.

        It is ``__cuda_array_interface__``, version 3, on a CUDA device. The consumer keeps this
        object, so it is tracked. Or return the function that CuPy calls for dtypes that the
        interface does not support, ``__cupy_get_ndarray__``.

        Raises AttributeError on the host, if the accelerator's library has another protocol, and
        for bfloat16.
        """
        if self._host or name not in {*protocols, export_cuda.CUPY}:
            which = "host" if self._host else "accelerator"
            raise AttributeError(
                f"the {which} side of a Blob has no attribute {name!r}, only protocols; the Blob "
                "may have it, or an array over the side, such as np.asarray(blob.cpu)"
            )
        memory, side, layout = self._what()
        if name == export_cuda.CUPY:
            return export_cuda.for_cupy(memory, side, self)
        # Most consumers read the attribute twice. The second read must not repeat a warning.
        lent = any(lender is memory for lender, _ in self._lent)
        newest = memory.spans.head(*layout.reach, side) is Head.HEAD_AT_GPU
        access = CONST if lent and newest else self._access
        home, array = export_cuda.array_over_memory(memory, side, layout, access, name, self)
        # The consumer has only an address, which must stay valid as long as this object exists.
        self._lent.append((memory, array))
        return home.describe(array, readonly=self._access is CONST)

    if not TYPE_CHECKING:  # for type checkers it is not callable

        def __call__(self) -> NoReturn:
            """Raise a TypeError that names alternatives to a tensor's ``cpu()``."""
            raise TypeError(
                "a Blob's cpu and gpu are not called: np.asarray(blob) reads on the host, "
                'blob.to_device("cpu") is a Blob there'
            )

    def __repr__(self) -> str:
        """Return the side, access, shape and dtype."""
        *_, layout = self._what()
        return (
            f"<{'host' if self._host else 'accelerator'} side of a Blob, "
            f"to {_PURPOSES[self._access]}: "
            f"shape={layout.shape}, dtype={layout.dtype.name}>"
        )
