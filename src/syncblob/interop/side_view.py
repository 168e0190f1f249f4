"""One side of a memory, lent by name: ``blob.cpu``, ``blob.gpu`` and ``blob.overwrite``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from syncblob.devices import Side
from syncblob.devices.host import NumpyHome
from syncblob.interop import cuda, dlpack
from syncblob.interop import numpy as numpy_protocol
from syncblob.memory import CONST, OVERWRITE, Access, Head

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike, NDArray

    from syncblob._shape import Layout
    from syncblob.memory import SyncedMemory

__all__ = ["SideView"]


class SideView:
    """One side of a Blob, for an array library to read, write or overwrite.

    It has the protocols of that side: DLPack, ``__array__`` where NumPy can reach the memory, and
    the CUDA array interface on a CUDA device. Every writable alias that is made through it is
    tracked: `cupy.asarray` keeps the SideView itself, whose life is then the alias's.
    """

    __slots__ = ("__weakref__", "_access", "_lent", "_side", "_what")

    def __init__(
        self, what: Callable[[], tuple[SyncedMemory, Layout]], side: Side, access: Access
    ) -> None:
        # Asked anew each time: a resize or an adoption may have replaced the memory.
        self._what = what
        self._side = side
        self._access = access
        self._lent: list[tuple[SyncedMemory, Any]] = []

    @property
    def const(self) -> SideView:
        """The same side, for reading."""
        return SideView(self._what, self._side, CONST)

    @property
    def overwrite(self) -> SideView:
        """The same side, for overwriting every element, without a transfer.

        A view with gaps is updated first, because the bytes between its elements must survive.

        Raises
        ------
        ValueError
            If this is a const view.
        """
        if self._access is CONST:
            raise ValueError("this view is const; take overwrite of the Blob itself")
        return SideView(self._what, self._side, OVERWRITE)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Give NumPy an array over this side: writable and tracked, or read-only if const.

        Parameters
        ----------
        dtype
            Convert to another dtype; that is a private copy.
        copy
            True makes a private copy; False refuses conversions and transfers.

        Raises
        ------
        TypeError
            If NumPy cannot reach the memory: on a CUDA device.
        ValueError
            If `copy` is False and a conversion or a transfer is needed.
        """
        memory, layout = self._what()
        home = memory.home(self._side)
        if not isinstance(home, NumpyHome):
            raise TypeError(f"NumPy cannot reach memory on {home.device}; use .cpu")
        return numpy_protocol.to_ndarray(
            memory, layout, dtype, copy, side=self._side, access=self._access
        )

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Lend this side through DLPack; the keywords are those of ``Blob.__dlpack__``."""
        memory, layout = self._what()
        return dlpack.export(
            memory,
            layout,
            self._access,
            side=self._side,
            stream=stream,
            max_version=max_version,
            dl_device=dl_device,
            copy=copy,
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device type and id of this side."""
        return dlpack.device_of(self._what()[0], self._side)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The side on a CUDA device, version 3. The consumer keeps this object, so it is tracked.

        Raises
        ------
        AttributeError
            On the host, where the accelerator is no CUDA device, and for bfloat16.
        """
        if self._side is Side.HOST:
            raise AttributeError("__cuda_array_interface__: this is the host's side")
        memory, layout = self._what()
        # Asked twice by most consumers: one lease of a memory, but each time what it holds now.
        leased = any(lender is memory for lender, _ in self._lent)
        access = self._access
        if leased and memory.head_over(layout.start, layout.stop) is Head.HEAD_AT_GPU:
            # What the first look has left behind is not warned of again.
            access = CONST
        array = cuda.array_over_memory(memory, layout, access, target=None if leased else self)
        # The consumer has an address only, which must stay good as long as this object does.
        self._lent.append((memory, array))
        return cuda.describe(memory, array, readonly=self._access is CONST)

    @property
    def __cupy_get_ndarray__(self) -> Callable[[], Any]:
        """What CuPy calls where the CUDA array interface has no name for the dtype.

        Raises
        ------
        AttributeError
            On the host, and where the accelerator is no CUDA device.
        """
        if self._side is Side.HOST:
            raise AttributeError("__cupy_get_ndarray__: this is the host's side")
        return cuda.for_cupy(self._what()[0], self)

    if not TYPE_CHECKING:  # to a checker it is not callable

        def __call__(self) -> NoReturn:
            """Say what to use in place of a tensor's ``cpu()``."""
            raise TypeError(
                "a Blob's cpu and gpu are not called: np.asarray(blob) reads on the host, "
                'blob.to_device("cpu") is a Blob there'
            )

    def __repr__(self) -> str:
        """Show the side, what it is lent for, shape and dtype."""
        _, layout = self._what()
        return (
            f"<{self._side.name.lower()} side of a Blob, to {self._access.value}: "
            f"shape={layout.shape}, dtype={layout.dtype.name}>"
        )
