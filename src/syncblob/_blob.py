"""The class Blob: every public method and attribute, with its documentation.

The bodies are functions in the modules beside this one. The operators are in `operators`, the
methods that NumPy's functions compute in `ndarray_methods`. Shape, dtype and the other attributes
that every module asks for are in `core`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Self, SupportsIndex

import numpy as np

from syncblob import _shape
from syncblob._optional import import_optional
from syncblob._source_lines import user_instruction
from syncblob.arrays.native import native_array
from syncblob.blob import (
    caffe_math,
    copying,
    from_arrays,
    notebook_drawing,
    parts,
    pickling,
    resize,
    scalars,
    share_data,
    text,
    views,
)
from syncblob.blob.core import GPU_DATA, GPU_DIFF, HOST_DATA, HOST_DIFF, BlobCore
from syncblob.blob.explain import Explanation
from syncblob.blob.flags import Flags
from syncblob.blob.indexing import get_item, in_c_order, set_item
from syncblob.blob.iteration import iterate
from syncblob.blob.missing import Missing, add_missing
from syncblob.blob.views import reshape
from syncblob.calls.ndarray_methods import NdarrayMethods
from syncblob.calls.numpy_protocols import array_function, array_ufunc
from syncblob.calls.operators import Operators
from syncblob.devices import HOST, Device, Side, home_of
from syncblob.interop import export_cuda, export_dlpack, export_numpy, shared_memory
from syncblob.memory import CONST, MUTABLE, OVERWRITE, Head, SyncedMemory, acquire
from syncblob.memory.untracked_aliases import assume_unaliased, refresh

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray
    from torch import Tensor

    from syncblob.caffe._pb.caffe_pb2 import BlobProto
    from syncblob.calls.torch.blob_parameters import BlobParameter
    from syncblob.interop.side_view import SideView
    from syncblob.memory import Access
    from syncblob.memory.sources import Function


class _TorchDispatch:
    """Stands for `syncblob.calls.torch` until its first use, because that imports torch.

    An import statement in the methods would take noticeable time in every call.
    """

    def __getattr__(self, name: str) -> Any:
        global _torch  # noqa: PLW0603  # caches the module
        if name.startswith("__"):  # protocols that other libraries probe on any object
            raise AttributeError(name)
        import_optional("torch")
        from syncblob.calls import torch

        _torch = torch
        return getattr(torch, name)


_torch: Any = _TorchDispatch()

_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


def _dimension(index: int, which: str) -> Any:
    def dimension(blob: Blob) -> int:
        return _shape.legacy_dimension(blob.shape, index)

    description = f"The {which} dimension of at most four; 1 if it does not exist."
    return property(dimension, doc=description)


class Blob(Operators, NdarrayMethods):
    """One N-dimensional array with a copy on the host and a copy on an accelerator.

    Each copy is allocated on first use, and updated only when it is needed. NumPy, CuPy and
    PyTorch share a Blob's memory without a copy. A Blob has two memories: data, and diff for the
    gradient, which is created on first use.

    Parameters
    ----------
    shape
        One non-negative integer or a tuple of them; ``()`` holds one element. For values use
        `syncblob.asarray`: ``Blob([1, 2, 3])`` has three axes.
    dtype
        A dtype of the array API, float16, or bfloat16 with ml_dtypes; of data and of diff.
    device
        ``"cpu"``, ``"cuda:N"`` or ``"simulated:N"``: where operations run. It never changes. None
        means the default device.
    name
        The name shown by transfer logs and `explain`.

    Raises
    ------
    TypeError, ValueError
        If shape or dtype are invalid.
    NoDeviceError
        If the device is not available.

    Examples
    --------
    >>> import numpy as np
    >>> from syncblob import Blob
    >>> blob = Blob((2, 3), device="simulated")
    >>> blob.mutable_cpu_data()[...] = 1
    >>> blob.gpu_data().sum()
    np.float32(6.0)
    >>> blob
    Blob(shape=(2, 3), dtype=float32, device=simulated:0, head=SYNCED)
    >>> np.asarray(blob).flags.writeable
    False
    """

    __slots__ = ()

    # For mixed arrays, Dask uses the functions of the type with the highest priority.
    __array_priority__: float = 1000.0

    def __init__(
        self,
        shape: SupportsIndex | Iterable[SupportsIndex],
        dtype: DTypeLike = "float32",
        *,
        device: Device | str | None = None,
        name: str = "",
    ) -> None:
        if hasattr(self, "known_memory"):
            raise TypeError(
                f"expected a new Blob; this one, of shape {self.shape}, exists already: resize() "
                "changes its shape, share_data() its memory"
            )
        layout = from_arrays.dense_layout(shape, dtype)
        self._fill_untouched(layout, home_of(device))
        if name:
            self.memory.name = name

    # --- making Blobs ----------------------------------------------------------------------------

    @classmethod
    def asarray(
        cls,
        x: Any,
        dtype: DTypeLike | None = None,
        *,
        device: Device | str | None = None,
        copy: bool | None = None,
    ) -> Self:
        """Make a Blob of this class as `syncblob.asarray` does, whose parameters these are.

        Returns
        -------
        Blob
            `x` itself, if it is a Blob and nothing changes; else a Blob that shares the memory
            of `x`, or one with a copy.
        """
        return from_arrays.asarray(cls, x, dtype, device, copy)

    @classmethod
    def from_dlpack(
        cls, x: Any, *, device: Device | str | None = None, copy: bool | None = None
    ) -> Self:
        """Make a Blob of this class as `syncblob.from_dlpack` does."""
        return from_arrays.from_dlpack(cls, x, device, copy)

    @classmethod
    def from_source(
        cls,
        shape: SupportsIndex | Iterable[SupportsIndex],
        dtype: DTypeLike,
        source: Function,
        *,
        diff_source: Function | None = None,
        device: Device | str | None = None,
    ) -> Self:
        """Make a Blob that is filled on first access instead of being zeroed.

        Parameters
        ----------
        shape, dtype, device
            As for the constructor.
        source
            A function that returns the contents as a one-dimensional uint8 array of `nbytes`
            bytes, read-only or not. The first access that reads calls it, and again if that
            fails; an access on the accelerator uploads its result directly. `save_model` and
            conversions of files call it too, without changing the Blob. It may have methods
            `read_into` and `again`; see "Lazy sources" in the documentation.
        diff_source
            The same for diff.
        """
        layout = from_arrays.dense_layout(shape, dtype)
        memory = SyncedMemory(layout.nbytes, device=device, source=source)
        diff = None
        if diff_source is not None:
            diff = SyncedMemory(layout.nbytes, device=device, source=diff_source)
        return cls.from_memory(memory, layout, diff=diff)

    @classmethod
    def in_shared_memory(
        cls,
        shape: SupportsIndex | Iterable[SupportsIndex],
        dtype: DTypeLike = "float32",
        *,
        name: str | None = None,
        create: bool = True,
        device: Device | str | None = None,
    ) -> Self:
        """Make a Blob whose host data is in shared memory, for several processes.

        Its pickle contains the name of the block instead of data; loading it attaches to the block.
        Each process has its own head: what it computes on a device reaches the block when it is
        read on the host, or when its last Blob over the block or the process ends. The host is
        exposed, because others may write at any time; writing on the device does not end that.
        Reads and writes of several processes are not ordered; if the processes synchronise, use
        `refresh`. diff is not shared.

        The block does not grow: a `resize` that needs more raises. It is freed when its last array
        is gone. The process that created it removes it from the system then, or when the process
        ends.

        Parameters
        ----------
        shape, dtype, device
            As for the constructor.
        name
            The name of the block, as for ``multiprocessing.shared_memory``; None for a new
            unique name.
        create
            True makes a new block of zeros; False attaches to that of another Blob.

        Raises
        ------
        FileExistsError
            If `create` is True and the block exists.
        FileNotFoundError
            If `create` is False and the block does not exist.
        ValueError
            If the block is too small, or `create` is False and `name` is None.
        """
        layout = from_arrays.dense_layout(shape, dtype)
        if create:
            memory = shared_memory.create(name, layout.nbytes, device)
        elif name is None:
            raise ValueError("expected the name of the shared memory to attach to, got None")
        else:
            memory = shared_memory.attach(name, layout.nbytes, device)
        return cls.from_memory(memory, layout)

    # --- attributes; none of them moves data -----------------------------------------------------

    @property
    def num_axes(self) -> int:
        """The number of axes. Caffe's name."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def name(self) -> str:
        """The name of this Blob's memory in transfer logs and `explain`; empty by default.

        Views, and Blobs that share data, have the same name; copies and results have none.
        """
        return self.memory.name

    @name.setter
    def name(self, name: str) -> None:
        self.memory.name = name
        diff = self.existing_diff()
        if diff is not None:
            diff.name = name

    @property
    def head(self) -> Head:
        """Where the newest contents of data are; for a view, those of its part of the memory."""
        memory = self.memory
        return memory.head_of(self.layout, self.accelerator_side(memory))

    @property
    def diff_head(self) -> Head:
        """Where the newest contents of diff are. Does not create diff."""
        diff = self.existing_diff()
        if diff is None:
            return Head.UNINITIALIZED
        return diff.head_of(self.layout, self.accelerator_side(diff))

    @property
    def flags(self) -> Flags:
        """The memory layout and writability; ``flags.writeable = False`` makes this Blob const.

        Transfers nothing.
        """
        return Flags(self)

    def explain(self) -> Explanation:
        """Return the state: head, device, what each side holds, aliases, last transitions.

        Stale aliases are called stale, and arrays that have become read-only are named, with the
        lines that made them so. Transfers nothing.

        Returns
        -------
        Explanation
            Prints as a table, also in notebooks. ``str(blob.explain())`` is the text.
        """
        return Explanation(self)

    def __len__(self) -> int:
        """Return the first dimension.

        Raises
        ------
        TypeError
            If this Blob is 0-d.
        """
        shape = self.shape
        if not shape:
            raise TypeError("a 0-d Blob has no length; use item() for its element")
        return shape[0]

    # --- axes and counts, as Caffe has them ------------------------------------------------------

    def count(self, start: int = 0, end: int | None = None) -> int:
        """Return the product of the dimensions from axis `start` up to, not including, axis `end`.

        Parameters
        ----------
        start, end
            Axes with ``0 <= start <= end <= num_axes``; not negative, as in Caffe.

        Raises
        ------
        IndexError
            If they are out of this range.
        """
        return _shape.count(self.shape, start, end)

    def canonical_axis_index(self, axis: SupportsIndex) -> int:
        """Return the non-negative index of an axis.

        Raises
        ------
        IndexError
            Unless ``-num_axes <= axis < num_axes``.
        """
        return _shape.canonical_axis(axis, self.shape)

    @property
    def shape_string(self) -> str:
        """The dimensions and the count, in Caffe's format: ``"2 3 4 (24)"``."""
        return _shape.shape_string(self.shape)

    def legacy_shape(self, index: SupportsIndex) -> int:
        """Return a dimension of the Blob seen as four-dimensional.

        Parameters
        ----------
        index
            From -4 to 3. Missing axes count as 1: after the last for ``index >= 0``, before the
            first for ``index < 0``, as in Caffe.

        Raises
        ------
        ValueError
            If the Blob has more than four axes.
        IndexError
            If `index` is out of range.
        """
        return _shape.legacy_dimension(self.shape, index)

    num: Final[int] = _dimension(0, "first")
    channels: Final[int] = _dimension(1, "second")
    height: Final[int] = _dimension(2, "third")
    width: Final[int] = _dimension(3, "fourth")

    def offset(self, *indices: Any) -> int:
        """Return the index of an element in C order.

        Parameters
        ----------
        *indices
            One non-negative integer per axis, or a sequence of them; missing ones are 0.

        Raises
        ------
        IndexError
            If there are too many, or one is out of bounds (Caffe accepts ``n == num``).
        """
        return _shape.offset(self.shape, indices)

    def shape_equals(self, other: Blob | BlobProto) -> bool:
        """Compare shapes with a Blob or, by Caffe's rules, with a BlobProto.

        A BlobProto with legacy dimensions is compared with ``legacy_shape(-4)`` … ``(-1)``, so
        that a Blob of shape (3, 2) equals (1, 1, 3, 2).
        """
        if isinstance(other, Blob):
            return self.shape == other.shape
        from syncblob.caffe.messages import blob_proto_methods  # built on Blobs

        return blob_proto_methods.shape_equals(self.shape, other)

    def resize(self, *shape: SupportsIndex | Iterable[SupportsIndex]) -> None:
        """Change the shape in place: Caffe's ``Reshape``. Copies nothing.

        Within the capacity of the memory the contents are kept, in C order. Memory never shrinks:
        elements beyond a smaller shape keep their values, and are not transferred. Beyond the
        capacity, data and diff get new memory, the contents of both are discarded, borrows end,
        and Blobs that shared the old memory keep it; views keep both.

        Parameters
        ----------
        *shape
            The new dimensions, or one tuple of them.

        Raises
        ------
        ValueError
            If the shape is invalid, this Blob is a view, or more than its shared memory holds is
            needed. Nothing changes then.
        """
        resize.resize(self, shape)

    def resize_like(self, other: Blob) -> None:
        """Take the shape of another Blob; see `resize`."""
        if not isinstance(other, Blob):
            raise TypeError(f"resize_like expects a Blob, got {type(other).__name__}; use resize")
        resize.resize(self, (other.shape,))

    # --- Caffe's accessors of data ---------------------------------------------------------------

    # The arrays are borrows, valid until the next access on the other side. A writable NumPy borrow
    # becomes read-only at that moment; a slice taken from it earlier does not. On the host they are
    # NumPy arrays, on a CUDA device CuPy arrays, on a simulated device NumPy arrays over the
    # device's own memory.

    def cpu_data(self) -> NDArray[Any]:
        """Return data on the host, read-only. Downloads what is newer on the accelerator."""
        return self.const_view(HOST_DATA, "cpu_data")

    def mutable_cpu_data(self) -> NDArray[Any]:
        """Return data on the host, to read and write. Downloads as `cpu_data` does."""
        return self.borrow(HOST_DATA, MUTABLE, "mutable_cpu_data")

    def overwrite_cpu_data(self) -> NDArray[Any]:
        """Return data on the host, to overwrite every element. Transfers nothing.

        A view with gaps transfers as `mutable_cpu_data` does.
        """
        return self.borrow(HOST_DATA, OVERWRITE, "overwrite_cpu_data")

    def set_cpu_data(self, array: Any) -> None:
        """Use an array as the host side of data, without a copy; its contents become newest.

        Newer contents on the accelerator are discarded. Later downloads write into the array.
        Views and Blobs that share data use the array too, unless this Blob was made smaller than
        its memory: then they keep that. Diff is unchanged.

        Parameters
        ----------
        array
            A C-contiguous, aligned, writable array on the host, of this dtype and size, of NumPy
            or any library with DLPack.

        Raises
        ------
        TypeError, ValueError
            If it is not.
        """
        share_data.replace_side(self, Side.HOST, array, "set_cpu_data", diff=False)

    def gpu_data(self) -> Any:
        """Return data on the accelerator, to read. Uploads what is newer on the host.

        Raises
        ------
        NoDeviceError
            If there is no accelerator.
        """
        return self.const_view(GPU_DATA, "gpu_data")

    def mutable_gpu_data(self) -> Any:
        """Return data on the accelerator, to read and write. Uploads as `gpu_data` does."""
        return self.borrow(GPU_DATA, MUTABLE, "mutable_gpu_data")

    def overwrite_gpu_data(self) -> Any:
        """Return data on the accelerator, to overwrite every element; see `overwrite_cpu_data`."""
        return self.borrow(GPU_DATA, OVERWRITE, "overwrite_gpu_data")

    def set_gpu_data(self, array: Any) -> None:
        """Use an array as the accelerator side of data; see `set_cpu_data`.

        Parameters
        ----------
        array
            On a CUDA device, a CuPy array or any with ``__cuda_array_interface__`` or DLPack. On a
            simulated device, a NumPy array or any host array with DLPack.
        """
        share_data.replace_side(self, Side.ACCELERATOR, array, "set_gpu_data", diff=False)

    def async_gpu_push(self, stream: Any = None) -> None:
        """Start an asynchronous upload of data and return.

        Later overlapping accesses wait for it if they are on the accelerator or may write on the
        host. A view uploads its part of the memory.

        Parameters
        ----------
        stream
            A stream of the accelerator; None for an internal one.

        Raises
        ------
        RuntimeError
            Unless the head is HEAD_AT_CPU.
        """
        memory = self.memory
        side = self.accelerator_side(memory)
        memory.async_gpu_push(stream, *self.layout.reach, side)

    def prefetch(self, device: Device | str | None = None) -> None:
        """Start to transfer to a device the part of data that is missing there.

        A view transfers its part of the memory. The transfer is asynchronous, as with
        `async_gpu_push`, and later accesses that depend on it wait for it. Reading from a source to
        the host is synchronous, and so is a download of bytes that a writable alias may change.

        Parameters
        ----------
        device
            ``"cpu"``, or an accelerator. None means `device`.
        """
        home = self.home if device is None else home_of(device)
        memory = self.memory
        memory.prefetch(memory.side_of(home), *self.layout.reach)

    def evict(self, side: Literal["cpu", "gpu"] = "gpu") -> int:
        """Free the memory of data on a side. What only that side holds moves to the other first.

        Writable borrowed arrays of that side become read-only. Arrays that are kept longer than a
        borrow may be keep the bytes alive.

        Parameters
        ----------
        side
            ``"gpu"`` or ``"cpu"``.

        Returns
        -------
        int
            The number of bytes freed. A buffer that reaches beyond the range of a view stays, and
            `explain` says so.

        Raises
        ------
        BufferError
            If an alias, exposed memory, or an operation of another thread needs a buffer, or if
            that side is an adopted array or shared memory, which later writes would not reach.
            Nothing has changed then.
        """
        return parts.evict(self, side)

    def parts(self, axis: int = 0, *, nbytes: int | None = None) -> Iterator[Self]:
        """Walk the Blob in views that are on its device one after the other.

        While one is used, the next is brought. Each is evicted behind it, so that the device needs
        room for two. Only what is missing moves: a part that was written moves back once, and one
        that was only read does not.

        Parameters
        ----------
        axis
            The axis to divide.
        nbytes
            The size of a part. It has at least one index along `axis`. The default is 64 MiB, or
            less on a device that has no room for four such parts.

        Yields
        ------
        Blob
            A view.

        Raises
        ------
        ValueError
            If the views would lie between each other in memory, or `nbytes` is not positive.
        IndexError
            If there is no such axis.
        BufferError
            If a part that was left is aliased, as by a tensor that was kept.
        """
        return parts.walk(self, axis, nbytes)

    def data_at(self, *indices: Any) -> Any:
        """Return one element of data as a Python scalar. Transfers only that element.

        Parameters
        ----------
        *indices
            As for `offset`: missing ones are 0.
        """
        return scalars.element_at(self, indices, "data_at", diff=False)

    def gpu_shape(self) -> Any:
        """Return the shape as an int32 array on the accelerator. Uploaded once per shape."""
        return from_arrays.gpu_shape(self)

    # --- Caffe's accessors of diff ---------------------------------------------------------------

    def cpu_diff(self) -> NDArray[Any]:
        """Return diff on the host, read-only; see `cpu_data`."""
        return self.const_view(HOST_DIFF, "cpu_diff")

    def mutable_cpu_diff(self) -> NDArray[Any]:
        """Return diff on the host, to read and write; see `mutable_cpu_data`."""
        return self.borrow(HOST_DIFF, MUTABLE, "mutable_cpu_diff")

    def overwrite_cpu_diff(self) -> NDArray[Any]:
        """Return diff on the host, to overwrite every element; see `overwrite_cpu_data`."""
        return self.borrow(HOST_DIFF, OVERWRITE, "overwrite_cpu_diff")

    def set_cpu_diff(self, array: Any) -> None:
        """Use an array as the host side of diff; see `set_cpu_data`."""
        share_data.replace_side(self, Side.HOST, array, "set_cpu_diff", diff=True)

    def gpu_diff(self) -> Any:
        """Return diff on the accelerator, to read; see `gpu_data`."""
        return self.const_view(GPU_DIFF, "gpu_diff")

    def mutable_gpu_diff(self) -> Any:
        """Return diff on the accelerator, to read and write; see `mutable_gpu_data`."""
        return self.borrow(GPU_DIFF, MUTABLE, "mutable_gpu_diff")

    def overwrite_gpu_diff(self) -> Any:
        """Return diff on the accelerator, to overwrite every element; see `overwrite_gpu_data`."""
        return self.borrow(GPU_DIFF, OVERWRITE, "overwrite_gpu_diff")

    def set_gpu_diff(self, array: Any) -> None:
        """Use an array as the accelerator side of diff; see `set_gpu_data`."""
        share_data.replace_side(self, Side.ACCELERATOR, array, "set_gpu_diff", diff=True)

    def diff_at(self, *indices: Any) -> Any:
        """Return one element of diff as a Python scalar; see `data_at`."""
        return scalars.element_at(self, indices, "diff_at", diff=True)

    # --- views -----------------------------------------------------------------------------------

    # A view shares memory, head, buffers and gradient with the Blob it was taken from, as long as
    # that Blob keeps its memory.

    @property
    def data(self) -> Self:
        """A Blob over the memory of data. ``blob.data[...] = x`` writes the contents.

        ``blob.data *= 2`` works too; assigning another object raises.
        """
        return self.view_at(self.layout)

    @data.setter
    def data(self, value: Self) -> None:
        views.require_in_place(self, value, self.memory, "data")

    @property
    def diff(self) -> Self:
        """A Blob over the memory of diff, the gradient; created on first use, with zeros.

        As for `data`, ``blob.diff[...] = x`` and ``blob.diff += x`` write it.
        """
        return self.from_memory(
            self.diff_memory(),
            self.layout,
            home=self.home,
            base=self.root(),
            readonly=self.readonly,
        )

    @diff.setter
    def diff(self, value: Self) -> None:
        views.require_in_place(self, value, self.existing_diff(), "diff")

    @property
    def const(self) -> Self:
        """A read-only view: every export of it is a const access, and writing it raises."""
        return self.view_at(self.layout, readonly=True)

    def view(self, dtype: DTypeLike | None = None) -> Self:
        """Return a view of the same bytes as elements of another dtype. Transfers nothing.

        The gradient of the view is that of this Blob, seen in the same way.

        Parameters
        ----------
        dtype
            The dtype of the view; None for this one. If the itemsize differs, the length
            of the last axis changes. For a dtype that Blobs do not support, the view is a
            read-only ndarray over the host side: a const access.

        Raises
        ------
        ValueError
            If the sizes do not match, or the elements would not be aligned.
        """
        return views.view_as(self, dtype)

    def on(self, device: Device | str) -> Self:
        """Return a view of the same memory whose operations run on another device.

        Copies nothing; an operation transfers what it needs. `to_device` makes a copy.

        Parameters
        ----------
        device
            ``"cpu"``, ``"cuda:N"`` or ``"simulated:N"``.

        Raises
        ------
        NoDeviceError
            If the device is not available.
        DeviceMismatchError
            If the memory is on another accelerator.
        """
        return views.on(self, device)

    @property
    def cpu(self) -> SideView:
        """The host side, for other libraries: ``np.asarray(blob.cpu)`` is writable.

        ``blob.cpu.const`` is for reading, ``blob.cpu.overwrite`` for writing every element.
        Nothing is transferred before a library takes it.
        """
        return views.side_view(self, host=True)

    @property
    def gpu(self) -> SideView:
        """The accelerator side, for other libraries: ``cupy.asarray(blob.gpu)``.

        These aliases are tracked, unlike those of ``cupy.asarray(blob)``. ``blob.gpu.const`` is
        for reading, ``blob.gpu.overwrite`` for writing every element. Nothing is transferred
        before a library takes it.
        """
        return views.side_view(self, host=False)

    def assume_unaliased(self) -> None:
        """Promise that other code no longer writes this Blob's part of its memories.

        Ends the exposure caused by ``__cuda_array_interface__`` and adopted arrays, so that later
        reads need not copy again. Tracked aliases need no promise.
        """
        layout = self.layout
        for memory in (self.memory, self.existing_diff()):
            if memory is not None:
                assume_unaliased(memory.ledger, layout.start, layout.stop)

    def refresh(self) -> None:
        """Make writes by other code into this Blob's host memory visible on the device.

        For memory that is written without syncblob: by other processes in shared memory, or
        through an adopted array. The next access on the device uploads it, once. The host is no
        longer exposed, so later accesses do not upload again until the next call. Bytes that this
        process wrote on the device and has not downloaded stay newest.

        Transfers nothing. The host stays exposed for a view with gaps. Pickling a Blob in shared
        memory exposes the host again. diff is unchanged.
        """
        memory, layout = self.memory, self.layout
        refresh(memory.ledger, *layout.reach, still_exposed=not layout.gapless)

    def reshape(
        self,
        *shape: SupportsIndex | Iterable[SupportsIndex],
        order: Literal["C", "F", "A"] = "C",
        copy: bool | None = None,
    ) -> Self:
        """Return the elements in C order in another shape; a view if possible.

        Parameters
        ----------
        *shape
            The new dimensions, or one tuple of them; one may be -1.
        order
            The order in which elements are read and placed, as in NumPy.
        copy
            None copies only if no view is possible, True always, False never.

        Returns
        -------
        Blob
            A view that shares memory, or a copy on this Blob's device.

        Raises
        ------
        ValueError
            If the count differs (`resize` changes the count), or if `copy` is False and no view is
            possible.
        """
        if order != "C":
            return self._call(np.reshape, _shape.shape_from(shape), order=order, copy=copy)
        return reshape(self, shape, copy=copy)

    def transpose(self, *axes: SupportsIndex | Iterable[SupportsIndex]) -> Self:
        """Return a view with the axes permuted; reversed by default."""
        order = _shape.shape_from(axes) if axes else None
        return self.derive(lambda a: a.transpose(order))

    @property
    def T(self) -> Self:  # noqa: N802  # the name in NumPy and the array API
        """A view with the axes in reverse order."""
        return self.transpose()

    @property
    def mT(self) -> Self:  # noqa: N802  # the name in NumPy and the array API
        """A view with the last two axes exchanged.

        Raises
        ------
        ValueError
            If there are fewer than two axes.
        """
        if self.ndim < 2:  # noqa: PLR2004  # a matrix has two axes
            raise ValueError(f"expected at least two axes, got shape {self.shape}")
        return self.derive(lambda a: a.swapaxes(-1, -2))

    def squeeze(self, axis: Any = None) -> Self:
        """Return a view without the axes of length 1."""
        return self.derive(lambda a: a.squeeze(axis))

    def swapaxes(self, axis1: SupportsIndex, axis2: SupportsIndex) -> Self:
        """Return a view with two axes exchanged."""
        return self.derive(lambda a: a.swapaxes(axis1, axis2))

    def ravel(self, order: Any = "C") -> Self:
        """Return the elements along one axis; a view if they are contiguous in that order."""
        if order == "C" and self.layout.contiguous:
            return self.reshape(-1)
        return self._call(np.ravel, order=order)

    def flatten(self, order: Literal["C", "F", "A", "K"] = "C") -> Self:
        """Return a copy of the elements along one axis."""
        return reshape(self, (-1,), copy=True) if order == "C" else self.ravel(order).copy()

    @property
    def flat(self) -> Self:
        """The elements in C order along one axis: a view, so that ``blob.flat[3] = x`` writes.

        If no view is possible it is a const copy. ``blob.flat = values`` assigns values in C order,
        as NumPy does: too few are repeated, too many are truncated.
        """
        elements = self.reshape(-1)
        return elements if elements.memory is self.memory else elements.const

    @flat.setter
    def flat(self, values: Any) -> None:
        self.require_writable("assignment to flat")
        source = values if isinstance(values, Blob) else native_array(values)[0]
        if source.size:
            self[...] = in_c_order(source, self.shape)

    @property
    def real(self) -> Self:
        """The real parts, a view; this Blob itself unless it is complex. Assigning writes them."""
        return self.derive(lambda a: a.real) if self.dtype.kind == "c" else self

    @real.setter
    def real(self, values: Any) -> None:
        self.real[...] = values

    @property
    def imag(self) -> Self:
        """The imaginary parts, a view. Assigning writes them.

        For a Blob that is not complex, a new const one of zeros.
        """
        if self.dtype.kind == "c":
            return self.derive(lambda a: a.imag)
        zeros = self._call(np.zeros_like)
        zeros.make_const()
        return zeros

    @imag.setter
    def imag(self, values: Any) -> None:
        if self.dtype.kind != "c":
            raise TypeError(
                f"expected a complex Blob to set the imaginary part of, got {self.dtype}; "
                "use .astype() first"
            )
        self.imag[...] = values

    # --- indexing --------------------------------------------------------------------------------

    # Assigned, because a method that calls a function takes longer.
    __getitem__ = get_item
    __setitem__ = set_item

    def __delitem__(self, key: Any) -> NoReturn:
        """Raise, as NumPy does.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(
            f"cannot delete elements of a Blob, got {key!r}; numpy.delete() makes one without them"
        )

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the first axis: yield views, or the elements of a 1-d Blob.

        Elements are NumPy scalars, read on the host. As with an ndarray, writes during the
        iteration are seen; those on the device are downloaded. Exception: while another library may
        write on the device, writes there are not seen.

        Raises
        ------
        TypeError
            If this Blob is 0-d.
        """
        if self.ndim == 1:
            return iterate(self)
        if not self.shape:
            raise TypeError("a 0-d Blob cannot be iterated over; use item() for its element")
        return (self[index] for index in range(self.shape[0]))

    def __reversed__(self) -> Iterator[Any]:
        """Iterate over the first axis from its end; see `__iter__`."""
        return iter(self[::-1])

    # --- copies, and other memories --------------------------------------------------------------

    def copy(self, order: Literal["C", "F", "A", "K"] = "C") -> Self:
        """Return an independent copy of data, and of diff if there is one.

        Copies on this Blob's device, after transferring what is newer on the other side, so that a
        second copy transfers nothing. Of a view with gaps only the elements are transferred. The
        copy of a const view is writable.

        Parameters
        ----------
        order
            The memory layout of the copy, as in NumPy: ``"C"`` and ``"F"`` are C-contiguous and
            Fortran-contiguous, ``"A"`` is Fortran-contiguous if only that describes this Blob, and
            ``"K"`` keeps the order of the axes.
        """
        return copying.copy(self, order)

    def __copy__(self) -> Self:
        """Copy, as NumPy does; see `copy`."""
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy; see `copy`."""
        del memo
        return self.copy()

    def astype(  # NumPy's parameters, in their order
        self,
        dtype: DTypeLike,
        order: Any = None,
        casting: Any = "unsafe",
        subok: bool = True,  # noqa: FBT002  # NumPy's parameter
        copy: bool = True,  # noqa: FBT002  # may be given by position, as in NumPy
    ) -> Self:
        """Return data in another dtype, converted on this Blob's device.

        Parameters
        ----------
        dtype
            The new dtype. For one that Blobs do not support, the result is an ndarray, converted
            on the host.
        order
            The memory layout, as for `numpy.ndarray.astype`. By default a copy is in C order, as
            every copy of a Blob.
        casting
            Which conversions are allowed, as for `numpy.can_cast`.
        subok
            Without effect: the class stays.
        copy
            False returns this Blob itself if nothing changes.

        Raises
        ------
        TypeError
            If `casting` does not allow the conversion, or `dtype` is no dtype.
        """
        del subok
        return copying.astype(self, dtype, order, casting, copy=copy)

    def to_device(self, device: Device | str, /, *, stream: Any = None) -> Self:
        """Return this Blob if `device` is its device, else a copy of data on `device`.

        Goes through the host if both are accelerators.

        Parameters
        ----------
        device
            ``"cpu"``, ``"cuda:N"`` or ``"simulated:N"``.
        stream
            None; work is ordered on CuPy's current stream.

        Raises
        ------
        NoDeviceError
            If the device is not available.
        """
        return copying.to_device(self, device, stream=stream)

    def copy_from(self, source: Any, *, copy_diff: bool = False, resize: bool = False) -> None:
        """Copy the data of another Blob, or with `copy_diff` its diff and no data.

        Runs on this Blob's device. Newer contents of the source on the other side are transferred
        first. This Blob's old contents are not.

        Parameters
        ----------
        source
            A Blob of this shape, or any array (then there is no diff to copy). Another dtype is
            converted if that is NumPy's ``same_kind``.
        copy_diff
            False copies data and leaves diff as it is. True copies diff and leaves data as it is,
            like Caffe's CopyFrom. Call it once with each to copy both. True is the same as
            ``blob.diff.copy_from(source.diff)``, which is clearer.
        resize
            Take the source's shape first if it differs.

        Raises
        ------
        ValueError
            If the shapes differ and `resize` is False; equal counts are not enough, as in Caffe.
        TypeError
            If the dtypes do not convert.
        DeviceMismatchError
            If the two are on different accelerators.
        """
        copying.copy_from(self, source, copy_diff=copy_diff, resize=resize)

    def share_data(self, other: Blob) -> None:
        """Share the memory of another Blob's data, with its head and its buffers.

        Copies nothing. This Blob's own memory is released. A growing `resize` of either Blob ends
        the sharing.

        Parameters
        ----------
        other
            A C-contiguous Blob of the same dtype and count; the shape may differ.

        Raises
        ------
        TypeError, ValueError
            If it is not.
        """
        share_data.share(self, other, diff=False)

    def share_diff(self, other: Blob) -> None:
        """Share the memory of another Blob's diff; see `share_data`."""
        share_data.share(self, other, diff=True)

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle shape, dtype, device and the bytes of data and diff, out-of-band with protocol 5.

        Reads on the host. The unpickled Blob has its contents on the host, and the same device and
        accelerator if they are available, else the host; that of a const Blob is const.
        UNINITIALIZED memory is not written.

        For data in shared memory (`Blob.in_shared_memory`), the name of the block and the layout
        are pickled. This is a mutable access of the host; for a const Blob a const access.
        """
        return pickling.reduce(self, protocol)

    # --- Caffe's sums and updates ----------------------------------------------------------------

    def update(self) -> None:
        """Subtract diff from data: one step of gradient descent. In the Blob's dtype.

        Runs where data is newest; diff is transferred there if needed. UNINITIALIZED contents
        count as zeros.

        Raises
        ------
        TypeError
            For bool.
        """
        caffe_math.update(self)

    def asum_data(self) -> float | int:
        """Return the sum of absolute values of data; ``|re| + |im|`` for complex ones, as BLAS.

        Runs where data is newest, and so transfers nothing; for a SPLIT Blob, on its device. 0 for
        UNINITIALIZED memory, without allocating it. Floating-point numbers are accumulated in
        float64, integers in 64 bits, where they wrap around.
        """
        return caffe_math.summed(self, self.memory, caffe_math.asum, "asum_data")

    def asum_diff(self) -> float | int:
        """Return the sum of the absolute values of diff; see `asum_data`."""
        return caffe_math.summed(self, self.existing_diff(), caffe_math.asum, "asum_diff")

    def sumsq_data(self) -> float | int:
        """Return the sum of squares of data, or of squared moduli of complex numbers.

        Runs and accumulates as `asum_data`.
        """
        return caffe_math.summed(self, self.memory, caffe_math.sumsq, "sumsq_data")

    def sumsq_diff(self) -> float | int:
        """Return the sum of the squares of diff; see `sumsq_data`."""
        return caffe_math.summed(self, self.existing_diff(), caffe_math.sumsq, "sumsq_diff")

    def scale_data(self, factor: complex) -> None:
        """Multiply data by a factor in place, in the Blob's dtype.

        Runs where `asum_data` does. UNINITIALIZED memory is unchanged.

        Raises
        ------
        TypeError
            If the dtype cannot take the factor: a fraction for integers, a complex number for
            real ones, any for bool.
        """
        caffe_math.scale(self, self.memory, factor, "scale_data")

    def scale_diff(self, factor: complex) -> None:
        """Multiply diff by a factor in place; see `scale_data`."""
        caffe_math.scale(self, self.existing_diff(), factor, "scale_diff")

    # --- Caffe's messages; protobuf is imported when one of these is called ----------------------

    @classmethod
    def from_proto(
        cls,
        proto: BlobProto | bytes,
        dtype: DTypeLike | None = None,
        *,
        device: Device | str | None = None,
    ) -> Self:
        """Make a Blob from a BlobProto message, or its bytes.

        As in Caffe, legacy dimensions take precedence over ``shape``, double data over float data.

        Parameters
        ----------
        proto
            The message or its serialised bytes.
        dtype
            The dtype of the Blob, converted as in C; None for float64 if the message has double
            data, else float32.
        device
            As for the constructor.

        Raises
        ------
        ModelFileError
            If the bytes are not a BlobProto, or the data does not match the shape.
        """
        from syncblob.caffe.messages import blob_proto_methods  # built on Blobs

        blob = blob_proto_methods.from_proto(proto, dtype, device)
        if type(blob) is cls:
            return blob
        return cls.from_memory(blob.memory, blob.layout, home=blob.home, diff=blob.own_diff)

    def load_proto(self, proto: BlobProto | bytes, *, resize: bool = True) -> None:
        """Copy the contents of a BlobProto: Caffe's ``FromProto``. Writes on the host.

        If the message has no diff, diff is unchanged.

        Parameters
        ----------
        proto
            The message or its serialised bytes.
        resize
            Take its shape; otherwise the shapes must be equal (see `shape_equals`).

        Raises
        ------
        ModelFileError, ValueError
            If the message does not match. Nothing changes then.
        """
        self.require_writable("load_proto")
        from syncblob.caffe.messages import blob_proto_methods  # built on Blobs

        blob_proto_methods.load_proto(self, proto, resize=resize)

    def to_proto(self, *, write_diff: bool = False) -> BlobProto:
        """Return a new BlobProto message with the contents. Reads on the host.

        Parameters
        ----------
        write_diff
            Write diff too.

        Raises
        ------
        TypeError
            If the format cannot hold the dtype: float64 is written as double, float32, float16
            and bfloat16 as float.
        ValueError
            If the message would reach 2 GiB.
        """
        from syncblob.caffe.messages import blob_proto_methods  # built on Blobs

        return blob_proto_methods.to_proto(self, write_diff=write_diff)

    # --- Python's scalars, lists, bytes and text -------------------------------------------------

    def item(self, *indices: Any) -> Any:
        """Return one element as a Python scalar. Transfers only that element, and changes no state.

        Parameters
        ----------
        *indices
            As for ``numpy.ndarray.item``; none for a Blob of one element.
        """
        return scalars.item(self, indices)

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python scalars. Reads on the host.

        For a view with gaps, only its elements are transferred.
        """
        return self.host_elements("tolist").tolist()

    def tobytes(self, order: Literal["C", "F", "A"] = "C") -> bytes:
        """Return a copy of the elements' bytes. Reads on the host, as `tolist`.

        Parameters
        ----------
        order
            The order of the elements, as for `numpy.ndarray.tobytes`.
        """
        return self.host_elements("tobytes").tobytes(order)

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:  # noqa: A002  # NumPy's
        """Write the elements in C order to a file; see `numpy.ndarray.tofile`.

        Reads on the host, as `tolist`. The file has no shape; `write_blob`, `numpy.save` and
        `save_model` write formats that have one.

        Parameters
        ----------
        fid
            A path, or an open file with a file descriptor.
        sep, format
            The separator and the format of elements in text; without `sep`, bytes are written.
        """
        self.host_elements("tofile").tofile(fid, sep, format)

    def __bytes__(self) -> bytes:
        """Return a copy of the elements' bytes in C order; see `tobytes`."""
        return self.tobytes()

    def __bool__(self) -> bool:
        """Convert a 0-d Blob. Transfers only its element, and changes no state."""
        return bool(scalars.scalar(self, "bool"))

    def __int__(self) -> int:
        """Convert a 0-d Blob. Transfers only its element, and changes no state."""
        return int(scalars.scalar(self, "int"))

    def __float__(self) -> float:
        """Convert a 0-d Blob. Transfers only its element, and changes no state."""
        return float(scalars.scalar(self, "float"))

    def __complex__(self) -> complex:
        """Convert a 0-d Blob. Transfers only its element, and changes no state."""
        return complex(scalars.scalar(self, "complex"))

    def __index__(self) -> int:
        """Convert a 0-d integer Blob. Transfers only its element, and changes no state."""
        if self.dtype.kind not in "iu":
            raise TypeError(f"only an integer Blob can be an index, this one has {self.dtype}")
        return int(scalars.scalar(self, "int"))

    def __format__(self, spec: str, /) -> str:
        """Format the element of a 0-d Blob; other Blobs accept no `spec`. Reads on the host.

        Without a `spec`, the same as `str`.
        """
        if not spec:
            return str(self)
        return format(scalars.scalar(self, "a formatted number", "__format__"), spec)

    def __round__(self, ndigits: SupportsIndex | None = None) -> Any:
        """Round the element of a 0-d Blob to a Python number. Reads on the host.

        The method `round` rounds the elements of any Blob.
        """
        return round(scalars.scalar(self, "a rounded number", "__round__"), ndigits)

    def __repr__(self) -> str:
        """Return shape, dtype, device and head. Transfers nothing."""
        return f"Blob({text.described(self)})"

    def __str__(self) -> str:
        """Return the values as NumPy formats them.

        NumPy's print options apply, and long axes are summarized. Reads only the elements shown, on
        the host, and may download them. If a guard or a graph capture forbids the download, returns
        `repr` with the reason.
        """
        return text.values_of(self)

    def _repr_html_(self) -> str:
        """Show `explain` in a notebook, and the values that the host holds. Transfers nothing."""
        return self.explain().drawn(notebook_drawing.values_shown(self))

    # --- array libraries; reading protocols take the const path, writing ones the mutable path ---

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """Return `syncblob`, the array API namespace.

        Parameters
        ----------
        api_version
            A version of the standard, ``"2021.12"`` to ``"2025.12"``; None for the newest.

        Raises
        ------
        ValueError
            If the version is not supported.
        """
        if api_version not in {None, *_API_VERSIONS}:
            raise ValueError(
                f"expected a version of the array API standard, {', '.join(_API_VERSIONS)}, "
                f"got {api_version!r}"
            )
        # Not imported, because it lies above this module; it is loaded before any Blob exists.
        return sys.modules["syncblob"]

    def to_numpy(
        self,
        dtype: DTypeLike | None = None,
        copy: bool = False,  # noqa: FBT002  # pandas' parameters
        na_value: Any = ...,
    ) -> NDArray[Any]:
        """Return data on the host as `numpy.asarray` does: read-only, downloaded if needed.

        Matplotlib, pandas and others call this method, which has pandas' name.

        Parameters
        ----------
        dtype
            Convert to another dtype, as a private, writable copy.
        copy
            True makes a private, writable copy.
        na_value
            The value in place of NaN, if there is one, in a private copy. NaN stays by default.
        """
        if na_value is ...:
            return self.__array__(dtype, copy or None)
        return export_numpy.filled(self.__array__(None, copy or None), dtype, na_value)

    @property
    def ctypes(self) -> Any:
        """The host side for C functions, as `numpy.ndarray.ctypes`; writable.

        A mutable access of the host; a const access for a const Blob. The object and the results
        of its ``data_as`` are a tracked alias; the address ``data`` is valid while one of them
        exists.
        """
        return np.asarray(self.cpu).ctypes

    def __dlpack__(  # not keyword-only: such defaults take longer to fill in
        self,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export data through DLPack, writable; read-only for a const Blob.

        Parameters
        ----------
        stream
            The consumer's CUDA stream, as numbered by the standard, which waits for the data. None
            on the host.
        max_version
            The newest version that the consumer supports. A const Blob needs (1, 0).
        dl_device
            The requested device, ``(1, 0)`` for the host; None for `device`. The other side of this
            Blob is exported as a private copy; use `cpu` or `gpu` to export it without a copy.
        copy
            True exports a private copy; False raises if a copy is needed.

        Returns
        -------
        PyCapsule
            A capsule over the Blob's memory, unless it is a copy. Transfers if needed.

        Raises
        ------
        BufferError
            If the request cannot be met, or a stride is negative, which some consumers do not
            support; use ``.copy()``.
        """
        home = self.home
        place = HOST_DATA if home is HOST else GPU_DATA
        kept = self.accessor_arrays[place]
        if (
            kept is not None
            and dl_device is None
            and copy is None
            and (stream is None or home is not HOST)
        ):
            # The usual case, inlined because another call would take noticeable time, also for
            # finding the user's line on the stack.
            shortcut, exported = kept.shortcut, kept.exported
            held: Any = self.known_memory
            layout: Any = self.known_layout
            if exported is not None and not (shortcut.writable or held.aliased):
                acquire(held.ledger, shortcut.side, MUTABLE, layout, "__dlpack__")
            if exported is not None and shortcut.writable:
                array = exported.view()
                noted = user_instruction()
                loans = held.ledger.own_loans(shortcut.side)
                loans.lease(array, "DLPack", layout.start, layout.stop, noted)
                if shortcut.writable:
                    if home is HOST:
                        return array.__dlpack__(max_version=max_version)
                    return export_dlpack.capsule_of(
                        home, array, stream, max_version, home.dlpack_device
                    )
        capsule = export_dlpack.export(
            self.memory,
            self.layout,
            CONST if self.readonly else MUTABLE,
            side=self.side,
            stream=stream,
            max_version=max_version,
            dl_device=dl_device,
            copy=copy,
        )
        self.keep_arrays(place, self.memory)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device type and id of `device`; (1, N + 1) for simulated:N."""
        return self.home.dlpack_device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The interface of data on the CUDA device, version 3; writable.

        Uploads if needed. The consumer keeps the Blob, so the buffer lives as long as the Blob.

        Raises
        ------
        AttributeError
            If `device` is not a CUDA device, or the dtype is bfloat16, which the interface does not
            support.
        """
        export_cuda.require_own_interface(self.home)

        def array(access: Access) -> Any:
            if access is CONST:
                return self.const_view(GPU_DATA, export_cuda.CUDA)
            return self.borrow(GPU_DATA, access, export_cuda.CUDA)

        described, self._exposed = export_cuda.interface(
            self.memory, self.side, self.layout, self._exposed, array, readonly=self.readonly
        )
        return described

    @property
    def __cupy_get_ndarray__(self) -> Callable[[], Any]:
        """The function that CuPy calls for a Blob without ``__cuda_array_interface__``.

        The function returns a tracked alias of data on the CUDA device, and uploads if needed.
        Reading the attribute transfers nothing.

        Raises
        ------
        AttributeError
            If there is no CUDA device, or the memory is on a device of another kind.
        """
        memory = self.memory
        return export_cuda.for_cupy(memory, self.accelerator_side(memory), self.gpu)

    def __arrow_array__(self, type: Any = None) -> Any:  # noqa: A002  # PyArrow's name
        """Convert a 1-d Blob to a PyArrow array over host data, read-only and without a copy.

        Downloads if needed. Conversions are copied, and so is bool, which PyArrow packs.

        Parameters
        ----------
        type
            A `pyarrow.DataType`; None for that of the dtype.

        Raises
        ------
        pyarrow.ArrowInvalid
            If there is not exactly one axis; `pyarrow.Tensor.from_numpy` takes any number.
        """
        import pyarrow as pa

        return pa.array(np.asarray(self), type=type)

    @property
    def __arrow_c_array__(self) -> Callable[..., tuple[Any, Any]]:
        """The function that Polars and others call for Arrow capsules, made by ``pa.array``.

        Reading the attribute transfers nothing.

        Raises
        ------
        AttributeError
            If there is not exactly one axis, or PyArrow is missing.
        """
        if self.ndim != 1 or find_spec("pyarrow") is None:
            raise AttributeError("__arrow_c_array__ is for a Blob of one axis, and needs pyarrow")
        return lambda requested_schema=None: self.__arrow_array__().__arrow_c_array__(
            requested_schema
        )

    @property
    def __jax_array__(self) -> Callable[[], Any]:
        """The function that JAX calls for an array; a copy, because JAX arrays are immutable.

        JAX uses it in some functions, in operators with a JAX array on the left, and for variables
        that a compiled function closes over.

        Raises
        ------
        AttributeError
            If `device` is a CUDA device, whose memory JAX accesses by other protocols.
        """
        if not self.home.native:
            raise AttributeError("__jax_array__ would copy by way of the host")
        import jax.numpy

        return lambda: jax.numpy.array(np.asarray(self))

    @property
    def _sympy_(self) -> Callable[[], Any]:
        """The function that SymPy calls for a 0-d Blob. It reads the element, and returns a number.

        Raises
        ------
        AttributeError
            If there are axes: SymPy makes an Array of such a Blob, as of an ndarray.
        """
        if self.ndim:
            raise AttributeError("_sympy_ is for a 0-d Blob")
        import sympy

        return lambda: sympy.sympify(scalars.element(self, "_sympy_")[()])

    @property
    def __pandas_priority__(self) -> int:
        """More than that of a DataFrame, whose operators then give way to those of a Blob.

        These call the DataFrame again with a const array. It would refuse a Blob of two axes.

        Raises
        ------
        AttributeError
            If there are not two axes: DataFrames and Series take those Blobs.
        """
        if self.ndim != 2:  # noqa: PLR2004  # rows and columns
            raise AttributeError("__pandas_priority__ is for a Blob of two axes")
        return 5000

    def matvec(self, x: Any) -> NDArray[Any]:
        """Return the product of this matrix and a vector or a column as a new ndarray.

        Computed on this Blob's device. SciPy's iterative solvers take a matrix that has this
        method, and write into its results.
        """
        return np.array(self @ x)

    def rmatvec(self, x: Any) -> NDArray[Any]:
        """Return the product of the conjugate transpose and a vector or a column; see `matvec`."""
        return np.array(self.mT.conj() @ x)

    # --- NumPy's functions; see `calls` ----------------------------------------------------------

    # The functions themselves, because another call in between would take noticeable time.
    __array_ufunc__ = array_ufunc
    __array_function__ = array_function

    # --- PyTorch's functions; see `calls.torch`, which is imported when one of these is called -

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
            The result of the function, with tensors. A tensor over a Blob's memory, such as a
            reshaped input or an `out`, is a tracked alias of the Blob, on the mutable path; for a
            const Blob it is a copy.
        """
        del types  # The function calls the protocols of the other arguments again.
        if "torch._dynamo" in sys.modules:
            # The compiler is loaded, and must not trace it.
            return _torch.call_untraced(func, args, kwargs or {})
        return _torch.call(func, args, kwargs or {})

    def to_torch(self, *, copy: bool | None = None) -> Tensor:
        """Return a tensor over data, on this Blob's device: a tracked alias, by a mutable access.

        Parameters
        ----------
        copy
            True makes a private copy, by a const access. None copies only a const Blob; False never
            copies.

        Raises
        ------
        ValueError
            If the Blob is const and `copy` is False, or a stride is negative, which torch does not
            support.
        """
        return _torch.tensor_over(self, copy=copy)

    def as_parameter(self) -> BlobParameter:
        """Return an autograd leaf over data, whose gradient is over diff. Copies nothing.

        ``loss.backward()`` adds to diff; `update`, or a torch optimizer of the parameter, writes
        data. Both are tracked aliases on this Blob's device, as long as the parameter exists or a
        graph refers to it. diff is created if needed.

        Returns
        -------
        torch.nn.Parameter
            Its `grad` is never None while it requires one: ``zero_grad()`` sets diff to zero, with
            or without ``set_to_none``. An assigned gradient is copied into diff.

        Raises
        ------
        TypeError
            If the dtype is not a floating-point or complex one.
        ValueError
            If this is a const Blob, or a stride is negative, which torch does not support.
        """
        return _torch.parameter_over(self)

    def __dir__(self) -> list[str]:
        """List the attributes, without the names that only raise."""
        return [name for name in super().__dir__() if type(vars(Blob).get(name)) is not Missing]


add_missing(Blob)
BlobCore.class_of_results = Blob
