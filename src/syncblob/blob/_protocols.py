"""What other libraries and Python itself call: array protocols, conversions, copies."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._shape import Layout
from syncblob.blob._arrays import HOST_DATA
from syncblob.blob._explain import Explanation
from syncblob.blob._pickles import Pickles
from syncblob.devices import HOST, Side
from syncblob.interop import cuda, dlpack
from syncblob.interop import numpy as numpy_protocol
from syncblob.memory import Access, SyncedMemory
from syncblob.memory.verify import verifying

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Self, SupportsIndex

    from numpy.typing import DTypeLike, NDArray

__all__ = ["Protocols"]

# What to use instead of a conversion to one number.
_FOR_MANY = {"bool": "any() or all()", "a rounded number": "round()"}

_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


class Protocols(Pickles):
    """The protocols. Reading ones take the const path, writing ones the mutable path."""

    __slots__ = ()

    # Dask asks whose functions compute where arrays of several libraries meet: the highest's.
    __array_priority__: float = 1000.0

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """Return `syncblob`, the array API namespace.

        Parameters
        ----------
        api_version
            A version of the standard, ``"2021.12"`` to ``"2025.12"``; None for the newest.

        Raises
        ------
        ValueError
            If it is another one.
        """
        if api_version is not None and api_version not in _API_VERSIONS:
            raise ValueError(
                f"expected a version of the array API standard, {', '.join(_API_VERSIONS)}, "
                f"got {api_version!r}"
            )
        # Not imported: the namespace is above this module, and there before any Blob is.
        return sys.modules["syncblob"]

    # --- array libraries -------------------------------------------------------------------------

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Give NumPy data on the host, read-only and without a copy. Downloads if it must.

        Parameters
        ----------
        dtype
            Convert to another dtype; that is a private, writable copy.
        copy
            True makes a private, writable copy; False refuses conversions and downloads.

        Raises
        ------
        ValueError
            If `copy` is False and either is needed.
        """
        if dtype is None and copy is None and not verifying():
            return self._read_host("__array__")
        return numpy_protocol.to_ndarray(self._memory, self._layout, dtype, copy)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Lend data through DLPack, to be written by the consumer; a const Blob lends to read.

        Parameters
        ----------
        stream
            The consumer's CUDA stream, as the standard numbers them; it is made to wait. None on
            the host.
        max_version
            The newest version the consumer knows. A const Blob needs (1, 0).
        dl_device
            The device wanted, ``(1, 0)`` for the host; None for `device`. On the other side of
            this Blob it gets a private copy; `cpu` and `gpu` lend the side that they name.
        copy
            True lends a private copy; False refuses to copy.

        Returns
        -------
        PyCapsule
            Over the Blob's own memory, unless it is a copy. Transfers if it must.

        Raises
        ------
        BufferError
            If the request cannot be met, or a stride is negative, which not every consumer takes:
            ``.copy()`` has none.
        """
        kept = self._kept[HOST_DATA]
        if (
            kept is not None
            and self._home is HOST
            and stream is None
            and dl_device is None
            and copy is None
        ):
            held: Any = self._held
            layout: Any = self._placed
            array = held.export_again(kept[0], kept[3], "DLPack", layout.start, layout.stop, 1)
            if array is not None:
                return array.__dlpack__(max_version=max_version)
        capsule = dlpack.export(
            self._memory,
            self._layout,
            Access.CONST if self._readonly else Access.MUTABLE,
            side=self._side,
            stream=stream,
            max_version=max_version,
            dl_device=dl_device,
            copy=copy,
        )
        self._keep(HOST_DATA, self._memory)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device type and id of `device`; (1, N + 1) for simulated:N."""
        home = self._home
        return home.dlpack_device if home.native else dlpack.device_of(self._memory, self._side)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Data on the CUDA device, to be written by the consumer; version 3.

        Uploads if it must. The consumer keeps the Blob, so the buffer lives as long as the Blob.

        Raises
        ------
        AttributeError
            Unless `device` is a CUDA device; and for bfloat16, which the interface has no name for.
        """
        cuda.require_own_interface(self._home)
        memory, layout = self._memory, self._layout
        # CuPy asks twice, to see whether there is an interface and to get it. What the first look
        # has left behind is not warned of again.
        again = memory.is_exposed(Side.ACCELERATOR, layout.start, layout.stop)
        access = Access.CONST if self._readonly or again else Access.MUTABLE
        array = cuda.array_over_memory(memory, layout, access)
        if access is not Access.CONST:
            memory.expose(Side.ACCELERATOR, start=layout.start, stop=layout.stop)
        if not any(array.data.mem is kept.data.mem for kept in self._exposed):
            self._exposed = (*self._exposed, array)
        return cuda.describe(memory, array, readonly=self._readonly)

    @property
    def __cupy_get_ndarray__(self) -> Callable[[], Any]:
        """What CuPy calls for a Blob that has no ``__cuda_array_interface__``.

        It gives an alias of data on the CUDA device, which is tracked, and uploads if it must. To
        ask for it moves nothing.

        Raises
        ------
        AttributeError
            Where there is no CUDA device, or the memory is on a device of another kind.
        """
        return cuda.for_cupy(self._memory, self.gpu)

    def __arrow_array__(self, type: Any = None) -> Any:  # noqa: A002  # PyArrow's name
        """Give PyArrow a Blob of one axis, const on the host and without a copy.

        Downloads if it must. Truth values, which PyArrow packs, and conversions are copied.

        Parameters
        ----------
        type
            A `pyarrow.DataType`; None for that of the dtype.

        Raises
        ------
        pyarrow.ArrowInvalid
            If there is not exactly one axis; `pyarrow.Tensor.from_numpy` takes any number.
        """
        import pyarrow as pa  # it asks, so it is there

        return pa.array(self.__array__(), type=type)

    # --- what is going on ------------------------------------------------------------------------

    def explain(self) -> Explanation:
        """Tell the state: head, device, what each side holds, living aliases, last transitions.

        Never moves anything.

        Returns
        -------
        Explanation
            Prints as a table, also in notebooks.
        """
        return Explanation(self)

    def _repr_html_(self) -> str:
        """Show `explain` in a notebook."""
        return self.explain()._repr_html_()

    # --- Python scalars, lists and bytes ---------------------------------------------------------

    def item(self, *indices: Any) -> Any:
        """Return one element as a Python scalar. Moves that element alone, and changes no state.

        Parameters
        ----------
        *indices
            As for ``numpy.ndarray.item``; none for a Blob of one element.
        """
        if self._is_on_host():
            return self._read_host("item").item(*indices)
        shape = self.shape
        # NumPy raises what there is to raise.
        np.broadcast_to(np.uint8(0), shape).item(*indices)
        if len(indices) == 1 and isinstance(indices[0], tuple):
            (indices,) = indices
        if len(indices) == 1 and len(shape) != 1:
            indices = np.unravel_index(int(indices[0]) % self.size, shape)
        index: Any = (*(tuple(map(int, indices)) or (0,) * len(shape)), ...)
        return self._values(self._layout.derive(lambda a: a[index]), "item").item()

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python scalars. Reads on the host.

        Of a view with gaps, only its elements move.
        """
        return self._elements(Side.HOST, "tolist").tolist()

    def tobytes(self) -> bytes:
        """Return a copy of the elements' bytes in C order. Reads on the host, as `tolist`."""
        contents: bytes = self._elements(Side.HOST, "tobytes").tobytes()
        return contents

    def __bool__(self) -> bool:
        """Convert a Blob without axes. Moves its element alone, and changes no state."""
        return bool(self._scalar("bool"))

    def __int__(self) -> int:
        """Convert a Blob without axes. Moves its element alone, and changes no state."""
        return int(self._scalar("int"))

    def __float__(self) -> float:
        """Convert a Blob without axes. Moves its element alone, and changes no state."""
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        """Convert a Blob without axes. Moves its element alone, and changes no state."""
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        """Convert an integer Blob without axes. Moves its element alone."""
        if self.dtype.kind not in "iu":
            raise TypeError(f"only an integer Blob can be an index, this one has {self.dtype}")
        return int(self._scalar("int"))

    def __format__(self, spec: str, /) -> str:
        """Format the element of a Blob without axes; others take no `spec`. Reads on the host.

        Without a `spec` it is `str`.
        """
        if not spec:
            return str(self)
        return format(self._scalar("a formatted number", "__format__"), spec)

    def __round__(self, ndigits: SupportsIndex | None = None) -> Any:
        """Round the element of a Blob without axes, to a Python number. Reads on the host.

        The method `round` rounds the elements of any Blob.
        """
        return round(self._scalar("a rounded number", "__round__"), ndigits)

    # --- copies ----------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Return an independent, C-contiguous copy of data, and of diff if there is one.

        Each is copied on a side that holds all of its newest contents, and nothing is transferred
        then. The copy of a const view can be written.
        """
        memory = self._duplicate(self._memory)
        existing = self._existing_diff()
        diff = None if existing is None else self._duplicate(existing)
        layout = Layout.c_order(self.shape, self.dtype)
        return self._of(memory, layout, home=self._home, diff=diff)

    def __copy__(self) -> Self:
        """Copy, as NumPy does; see `copy`."""
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy; see `copy`."""
        del memo
        return self.copy()

    # --- how -------------------------------------------------------------------------------------

    def _scalar(self, kind: str, reason: str = "") -> Any:
        if self.shape:
            instead = _FOR_MANY.get(kind, "item()")
            raise TypeError(
                f"only a Blob without axes converts to {kind}, this one has shape {self.shape}; "
                f"use .{instead}"
            )
        if self._array_in_use() and self._home is HOST:
            return self._array.item()
        return self._values(self._layout, reason or f"__{kind}__").item()

    def _is_on_host(self) -> bool:
        """Tell whether a const access on the host would change nothing."""
        layout = self._layout
        return self._memory.newest(Side.HOST, layout) is not None

    def _duplicate(self, memory: SyncedMemory) -> SyncedMemory:
        """Copy this Blob's elements out of a memory into a new one, on a side that holds them."""
        layout = self._layout
        if memory.blank:
            duplicate = memory.successor(self.nbytes)
            duplicate.name = ""
            return duplicate
        side = self._side
        held = memory.spans.common(layout.start, layout.stop)
        if held and not held & (1 << side):
            side = side.other
        home = memory.home(side)
        if held:
            # Nothing moves, also where more of the memory is in use than this Blob shows.
            layout = layout.of_view()
        if held or layout.gapless:
            array = memory.array(side, Access.CONST, layout, "copy")
            contents = home.compute(array.copy, order="C")
        else:
            contents = memory.gather(side, layout, "copy")
        return SyncedMemory.adopting(
            side, home.wrap(contents), accelerator=memory.accelerator, device=memory.device
        )
