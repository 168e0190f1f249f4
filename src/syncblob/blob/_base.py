"""A Blob's plain attributes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from syncblob._dtypes import as_dtype
from syncblob._shape import Layout, as_shape
from syncblob.blob._arrays import Arrays
from syncblob.blob._text import text_of
from syncblob.errors import TransferGuardError
from syncblob.memory import Head, SyncedMemory

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import ClassVar, SupportsIndex

    import numpy as np
    from numpy.typing import DTypeLike, NDArray

    from syncblob.devices import Device

__all__ = ["BlobBase"]


class BlobBase(Arrays):
    """Attributes, which move nothing."""

    __slots__ = ()

    # Contents change, and in the array API equality is element by element: no key for a dict.
    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # the documented way to say so

    def __init__(
        self,
        shape: SupportsIndex | Iterable[SupportsIndex],
        dtype: DTypeLike = "float32",
        *,
        device: Device | str | None = None,
        name: str = "",
    ) -> None:
        if hasattr(self, "_held"):
            raise TypeError(
                f"expected a new Blob; this one, of shape {self.shape}, is made already: resize() "
                "changes its shape, share_data() its memory"
            )
        resolved = as_dtype(dtype)
        layout = Layout.c_order(as_shape(shape, resolved.itemsize), resolved)
        self._fill(SyncedMemory(layout.nbytes, device=device, name=name), layout)

    # --- attributes ------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        array = self._array
        shape: tuple[int, ...] = self._layout.shape if array is None else array.shape
        return shape

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The data type of the elements, in data and in diff."""
        array = self._array
        dtype: np.dtype[np.generic] = self._layout.dtype if array is None else array.dtype
        return dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def num_axes(self) -> int:
        """The number of axes. Caffe's name."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements; 1 for a Blob without axes."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements of data, without gaps."""
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""
        return self._layout.strides

    @property
    def device(self) -> Device:
        """Where operations run. It never changes; `on` gives a view with another device.

        `head` says where the newest contents are.
        """
        return self._home.device

    @property
    def name(self) -> str:
        """What the journal and `explain` call this Blob's memory; empty without a name.

        Views, and Blobs that share data, have it in common; copies and results have none.
        """
        return self._memory.name

    @name.setter
    def name(self, name: str) -> None:
        self._memory.name = name
        diff = self._existing_diff()
        if diff is not None:
            diff.name = name

    @property
    def head(self) -> Head:
        """Where the newest contents of data are: of a view, those of its part of the memory."""
        memory = self._memory
        return memory.head_over(*memory.range_of(self._layout))

    @property
    def diff_head(self) -> Head:
        """Where the newest contents of diff are. Does not create diff."""
        diff = self._existing_diff()
        if diff is None:
            return Head.UNINITIALIZED
        return diff.head_over(*diff.range_of(self._layout))

    @property
    def memory(self) -> SyncedMemory:
        """The memory of data, which views and Blobs that share data have in common."""
        return self._memory

    def __len__(self) -> int:
        """Return the first dimension.

        Raises
        ------
        TypeError
            If there is no axis.
        """
        shape = self.shape
        if not shape:
            raise TypeError("a Blob without axes has no length")
        return shape[0]

    def __repr__(self) -> str:
        """Show shape, dtype, device and head. Never moves anything."""
        return f"Blob({self._described()})"

    def __str__(self) -> str:
        """Show the values as NumPy does, or the number of a Blob without axes.

        NumPy's print options apply, and long axes are summarised. Reads at most what is shown, on
        the host, and may download it. Where a guard forbids the download, or a graph is being
        captured on the accelerator, it is `repr` and the reason.
        """
        layout = self._layout

        def read(key: tuple[slice, ...]) -> NDArray[Any]:
            # With an ellipsis it is a view even where there is no axis.
            index: Any = (*key, ...)
            return self._values(layout.derive(lambda array: array[index]), "str")

        accelerator = self._downloads_from()
        if accelerator is not None and layout.size and accelerator.capturing:
            return self._without_values(f"{accelerator.device} is capturing a graph")
        try:
            return text_of(layout.shape, layout.dtype, read)
        except TransferGuardError as error:
            return self._without_values(error.allowed)

    def _described(self) -> str:
        const = ", const" if self._readonly else ""
        return (
            f"shape={self.shape}, dtype={self.dtype.name}, device={self.device}, "
            f"head={self.head.name}{const}"
        )

    def _without_values(self, reason: str) -> str:
        return f"Blob({self._described()}; values not shown: {reason})"
