"""Caffe's accessors: arrays over one side of data or diff, good until the other side is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._shape import Layout
from syncblob.blob._arrays import GPU_DATA, GPU_DIFF, HOST_DATA, HOST_DIFF
from syncblob.blob._base import BlobBase
from syncblob.blob._shape_methods import ShapeMethods
from syncblob.blob._state import NOTHING_KEPT
from syncblob.devices import Accelerator, Side
from syncblob.interop.adopt import set_side
from syncblob.memory import Access, SyncedMemory

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Accessors"]


class Accessors(ShapeMethods):
    """Caffe's accessors.

    The arrays are borrows: good until the next access on the other side. A NumPy borrow that may
    write becomes read-only at that moment; a slice taken from it before does not. On the host they
    are NumPy arrays, on a CUDA device CuPy arrays, on a simulated device NumPy arrays over the
    device's own memory.
    """

    __slots__ = ()

    # --- data ------------------------------------------------------------------------------------

    def cpu_data(self) -> NDArray[Any]:
        """Return data on the host, read-only. Downloads if the newest contents are elsewhere."""
        return self._read_host("cpu_data")

    def mutable_cpu_data(self) -> NDArray[Any]:
        """Return data on the host, to read and write. Downloads as `cpu_data` does."""
        array: NDArray[Any] = self._write(HOST_DATA, Access.MUTABLE, "mutable_cpu_data")
        return array

    def overwrite_cpu_data(self) -> NDArray[Any]:
        """Return data on the host, to be written completely. Never transfers.

        A view with gaps is brought up to date as by `mutable_cpu_data`.
        """
        array: NDArray[Any] = self._write(HOST_DATA, Access.OVERWRITE, "overwrite_cpu_data")
        return array

    def set_cpu_data(self, array: Any) -> None:
        """Adopt an array as the host side of data, without a copy; its contents are the newest.

        Newer contents of the accelerator are abandoned. Later downloads write into the array.
        Views and Blobs that share data see the array too; diff stays as it is.

        Parameters
        ----------
        array
            A C-contiguous, aligned, writable array on the host, of this dtype and size: NumPy's,
            or of any library with DLPack.

        Raises
        ------
        TypeError, ValueError
            If it is not.
        """
        self._set(Side.HOST, array, "set_cpu_data", diff=False)

    def gpu_data(self) -> Any:
        """Return data on the accelerator, to read. Uploads if the newest contents are elsewhere.

        Raises
        ------
        NoDeviceError
            If there is no accelerator.
        """
        return self._read(GPU_DATA, "gpu_data")

    def mutable_gpu_data(self) -> Any:
        """Return data on the accelerator, to read and write. Uploads as `gpu_data` does."""
        return self._write(GPU_DATA, Access.MUTABLE, "mutable_gpu_data")

    def overwrite_gpu_data(self) -> Any:
        """Return data on the accelerator, to be written completely. Never transfers."""
        return self._write(GPU_DATA, Access.OVERWRITE, "overwrite_gpu_data")

    def set_gpu_data(self, array: Any) -> None:
        """Adopt an array as the accelerator side of data; otherwise as `set_cpu_data`.

        Parameters
        ----------
        array
            On a CUDA device: CuPy's, or any with ``__cuda_array_interface__`` or DLPack. On a
            simulated device: a NumPy array, or any on the host with DLPack.
        """
        self._set(Side.ACCELERATOR, array, "set_gpu_data", diff=False)

    def async_gpu_push(self, stream: Any = None) -> None:
        """Start to upload data and return while the upload runs.

        Later accesses on the accelerator that overlap it wait for it, and so do those that may
        write on the host. Of a view, its part of the memory moves.

        Parameters
        ----------
        stream
            A stream of the accelerator, None for one of its own.

        Raises
        ------
        RuntimeError
            Unless the head is HEAD_AT_CPU.
        """
        self._memory.async_gpu_push(stream, *self._memory.range_of(self._layout))

    def prefetch(self) -> None:
        """Start to bring to `device` what is missing of data there; nothing is done if it is there.

        Of a view, its part of the memory moves. An upload runs while the call returns, as that of
        `async_gpu_push` does. What a source or the accelerator has to give to the host is there
        when the call returns.
        """
        self._memory.prefetch(self._side, *self._memory.range_of(self._layout))

    # --- diff ------------------------------------------------------------------------------------

    def cpu_diff(self) -> NDArray[Any]:
        """Return diff on the host, read-only; see `cpu_data`."""
        array: NDArray[Any] = self._read(HOST_DIFF, "cpu_diff")
        return array

    def mutable_cpu_diff(self) -> NDArray[Any]:
        """Return diff on the host, to read and write; see `mutable_cpu_data`."""
        array: NDArray[Any] = self._write(HOST_DIFF, Access.MUTABLE, "mutable_cpu_diff")
        return array

    def overwrite_cpu_diff(self) -> NDArray[Any]:
        """Return diff on the host, to be written completely; see `overwrite_cpu_data`."""
        array: NDArray[Any] = self._write(HOST_DIFF, Access.OVERWRITE, "overwrite_cpu_diff")
        return array

    def set_cpu_diff(self, array: Any) -> None:
        """Adopt an array as the host side of diff; see `set_cpu_data`."""
        self._set(Side.HOST, array, "set_cpu_diff", diff=True)

    def gpu_diff(self) -> Any:
        """Return diff on the accelerator, to read; see `gpu_data`."""
        return self._read(GPU_DIFF, "gpu_diff")

    def mutable_gpu_diff(self) -> Any:
        """Return diff on the accelerator, to read and write; see `mutable_gpu_data`."""
        return self._write(GPU_DIFF, Access.MUTABLE, "mutable_gpu_diff")

    def overwrite_gpu_diff(self) -> Any:
        """Return diff on the accelerator, to be written completely; see `overwrite_gpu_data`."""
        return self._write(GPU_DIFF, Access.OVERWRITE, "overwrite_gpu_diff")

    def set_gpu_diff(self, array: Any) -> None:
        """Adopt an array as the accelerator side of diff; see `set_gpu_data`."""
        self._set(Side.ACCELERATOR, array, "set_gpu_diff", diff=True)

    # --- single elements, and the shape on the accelerator ---------------------------------------

    def data_at(self, *indices: Any) -> Any:
        """Return one element of data as a Python scalar. Moves that element alone.

        Parameters
        ----------
        *indices
            As for `offset`: missing ones are 0.
        """
        return self._at(self._memory, self._place(indices), "data_at")

    def diff_at(self, *indices: Any) -> Any:
        """Return one element of diff as a Python scalar; see `data_at`."""
        place = self._place(indices)
        return self._at(self._diff_memory(), place, "diff_at")

    def gpu_shape(self) -> Any:
        """Return the dimensions as an int32 array on the accelerator. Uploaded once a shape."""
        accelerator = self._memory.accelerator
        shape = self.shape
        of, known = self._shape_blob
        if of != shape or known._memory.accelerator not in {None, accelerator}:
            dims = np.array(shape, dtype=np.int32)
            memory = SyncedMemory.adopting(Side.HOST, dims.view(np.uint8), device="cpu")
            known = self._of(memory, Layout.c_order((len(shape),), dims.dtype))
            self._shape_blob = (shape, known)
        if accelerator is not None:
            known._memory.bind(accelerator)
        return known._read(GPU_DATA, "gpu_shape")

    # --- sharing ---------------------------------------------------------------------------------

    def share_data(self, other: BlobBase) -> None:
        """Use the memory of another Blob's data from now on, with its head and its buffers.

        Copies nothing. The memory this Blob had is given up. A growing `resize` of either of the
        two ends the sharing.

        Parameters
        ----------
        other
            A C-contiguous Blob of the same dtype and count; the shape may differ.

        Raises
        ------
        TypeError, ValueError
            If it is not.
        """
        self._require_sharable(other, "share_data")
        if other._memory is self._memory:
            return
        if isinstance(self._home, Accelerator):
            other._memory.bind(self._home)
        alone = self._owns_data_alone()
        self._let_go("share_data", [(self._memory, alone)], lambda: self._use(other._memory))

    def share_diff(self, other: BlobBase) -> None:
        """Use the memory of another Blob's diff from now on; see `share_data`."""
        self._require_sharable(other, "share_diff")
        diff = other._diff_memory()
        if diff is self._diff:
            return
        if isinstance(self._home, Accelerator):
            diff.bind(self._home)

        def replace() -> None:
            self._kept = NOTHING_KEPT
            self._diff = diff

        alone = self._owns_diff_alone()
        if self._diff is None:
            replace()
        else:
            self._let_go("share_diff", [(self._diff, alone)], replace)

    def _require_sharable(self, other: BlobBase, action: str) -> None:
        self._require_own(action)
        if not isinstance(other, BlobBase):
            raise TypeError(f"{action} expects a Blob, got {type(other).__name__}")
        if other.dtype != self.dtype:
            raise TypeError(f"{action} expects dtype {self.dtype}, got {other.dtype}")
        if other.size != self.size:
            raise ValueError(
                f"{action} expects {self.size} elements, shape {self.shape}, got {other.size}, "
                f"shape {other.shape}"
            )
        if not other._layout.contiguous or other._layout.offset or other._readonly:
            raise ValueError(
                f"{action} expects a writable C-contiguous Blob that starts where its memory "
                "starts; copy it first"
            )

    def _set(self, side: Side, array: Any, action: str, *, diff: bool) -> None:
        self._require_writable(action)
        if isinstance(array, BlobBase):
            raise TypeError(f"{action} expects an array, got a Blob; use share_data or copy_from")
        if not self._layout.contiguous or self._layout.offset:
            raise ValueError(f"{action} is for a C-contiguous Blob, and this is a strided view")
        set_side(self._memory_of(diff=diff), self._layout, side, array)
        # Views of this Blob let go of the buffer that was replaced when they are next used.
        if diff:
            self._kept = NOTHING_KEPT
        else:
            self._use(self._memory)

    def _at(self, memory: SyncedMemory, place: tuple[int, ...], reason: str) -> Any:
        index: Any = (*place, ...)
        layout = self._layout.derive(lambda a: a[index])
        return memory.gather(Side.HOST, layout, reason).item()

    def _place(self, indices: tuple[Any, ...]) -> tuple[int, ...]:
        """Turn the arguments of `offset` into a full, checked index."""
        if not self.size:
            raise IndexError(f"a Blob of shape {self.shape} has no elements")
        place = self.offset(*indices)
        return tuple(int(index) for index in np.unravel_index(place, self.shape))
