"""The class Blob: its constructor, its state, and the protocols of other libraries.

Its other methods are in its base classes, in `blob` and `calls`, one for each subject. Shape, dtype
and the other attributes that every module asks for are in `blob.core`.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, SupportsIndex
from weakref import WeakKeyDictionary

import numpy as np

from syncblob._optional import import_optional
from syncblob._shape import canonical_axis, offset
from syncblob._source_lines import user_instruction
from syncblob.arrays import dlpack_capsules
from syncblob.blob import parts, pickling, scalars, text
from syncblob.blob.caffe_math import CaffeMath
from syncblob.blob.core import GPU_DATA, GPU_DIFF, HOST_DATA, HOST_DIFF, BlobCore
from syncblob.blob.creation import Creation, dense_layout
from syncblob.blob.explain import Explanation
from syncblob.blob.flags import Flags
from syncblob.blob.indexing import get_item, set_item
from syncblob.blob.missing import OF_BLOB, add_missing
from syncblob.blob.replace_memory import Replacements
from syncblob.blob.views import Views
from syncblob.calls.numpy_protocols import array_function, array_ufunc
from syncblob.calls.operators import Operators
from syncblob.devices import HOST, Device, home_of
from syncblob.interop import export_cuda, export_dlpack
from syncblob.memory import CONST, MUTABLE, OVERWRITE, Head, SyncedMemory
from syncblob.memory.accesses import assume_unaliased, refresh
from syncblob.memory.loans import NO_LOANS

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray
    from torch import Tensor

    from syncblob.caffe._pb.caffe_pb2 import BlobProto
    from syncblob.calls.torch.blob_parameters import BlobParameter
    from syncblob.memory import Access


_loaded: Any = None


def _torch() -> Any:
    """Return `syncblob.calls.torch`, which imports torch. `_loaded` is it from then on."""
    global _loaded  # noqa: PLW0603  # torch.compile does not trace functions with a cache
    if _loaded is None:
        import_optional("torch")
        from syncblob.calls import torch

        _loaded = torch
    return _loaded


_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
_LEGACY_AXES = 4
# The Blobs of `gpu_shape` for each memory, by shape and home.
_gpu_shapes: WeakKeyDictionary[SyncedMemory, dict[Any, Any]] = WeakKeyDictionary()


def _dimension(index: int, which: str) -> Any:
    description = f"The {which} dimension of at most four; 1 if it does not exist."
    return property(lambda blob: blob.legacy_shape(index), doc=description)


class Blob(Operators, Views, Replacements, CaffeMath, Creation):
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
        layout = dense_layout(shape, dtype)
        self._init_fields(layout, home_of(device))
        if name:
            self.memory.name = name

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
        return memory.spans.head(*self.layout.reach, self.accelerator_side(memory))

    @property
    def diff_head(self) -> Head:
        """Where the newest contents of diff are. Does not create diff."""
        diff = self.existing_diff()
        if diff is None:
            return Head.UNINITIALIZED
        return diff.spans.head(*self.layout.reach, self.accelerator_side(diff))

    @property
    def flags(self) -> Flags:
        """The memory layout and writability; ``flags.writeable = False`` makes this Blob const.

        Transfers nothing.
        """
        return Flags(self)

    def explain(self) -> Explanation:
        """Return the state: head, device, what each side holds, aliases, last transitions.

        Stale aliases are called stale, and arrays that have become read-only are named, with the
        lines that made them so. Transfers nothing. The result prints as a table; ``str`` of it is
        the text. If parts are newest on different sides, it has a line of blocks for each side.
        """
        return Explanation(self)

    def __len__(self) -> int:
        """Return the first dimension; TypeError if this Blob is 0-d."""
        shape = self.shape
        if not shape:
            raise TypeError("a 0-d Blob has no length; use item() for its element")
        return shape[0]

    # --- axes and counts, as Caffe has them ------------------------------------------------------

    def count(self, start: int = 0, end: int | None = None) -> int:
        """Return the product of the dimensions from axis `start` up to, not including, axis `end`.

        IndexError unless ``0 <= start <= end <= num_axes``: they are not negative, as in Caffe.
        """
        axes = self.ndim
        end = axes if end is None else operator.index(end)
        start = operator.index(start)
        if not 0 <= start <= end <= axes:
            raise IndexError(
                f"expected 0 <= start <= end <= {axes} for a Blob of {axes} axes, "
                f"got start={start}, end={end}"
            )
        return math.prod(self.shape[start:end])

    def canonical_axis_index(self, axis: SupportsIndex) -> int:
        """Return the non-negative index of an axis; IndexError if there is none."""
        return canonical_axis(axis, self.shape)

    @property
    def shape_string(self) -> str:
        """The dimensions and the count, in Caffe's format: ``"2 3 4 (24)"``."""
        return "".join(f"{dim} " for dim in self.shape) + f"({self.size})"

    def legacy_shape(self, index: SupportsIndex) -> int:
        """Return a dimension of the Blob seen as four-dimensional, for an index from -4 to 3.

        Missing axes count as 1: after the last for ``index >= 0``, before the first for
        ``index < 0``, as in Caffe. IndexError for another index, ValueError for a Blob of more
        than four axes.
        """
        shape, index = self.shape, operator.index(index)
        if len(shape) > _LEGACY_AXES:
            raise ValueError(
                f"num, channels, height and width are for Blobs of up to {_LEGACY_AXES} axes, "
                f"this one has {len(shape)}; use shape"
            )
        if not -_LEGACY_AXES <= index < _LEGACY_AXES:
            raise IndexError(f"expected an index from -4 to 3, got {index}")
        return shape[index] if -len(shape) <= index < len(shape) else 1

    num: Final[int] = _dimension(0, "first")
    channels: Final[int] = _dimension(1, "second")
    height: Final[int] = _dimension(2, "third")
    width: Final[int] = _dimension(3, "fourth")

    def offset(self, *indices: Any) -> int:
        """Return the index of an element in C order.

        `indices` are one non-negative integer per axis, or a sequence of them; missing ones are 0.
        IndexError if there are too many, or one is out of bounds (Caffe accepts ``n == num``).
        """
        return offset(self.shape, indices)

    def shape_equals(self, other: Blob | BlobProto) -> bool:
        """Compare shapes with a Blob or, by Caffe's rules, with a BlobProto.

        A BlobProto with legacy dimensions is compared with ``legacy_shape(-4)`` … ``(-1)``, so
        that a Blob of shape (3, 2) equals (1, 1, 3, 2).
        """
        if isinstance(other, Blob):
            return self.shape == other.shape
        from syncblob.caffe.messages import blob_proto_methods  # built on Blobs

        return blob_proto_methods.shape_equals(self.shape, other)

    def gpu_shape(self) -> Any:
        """Return the shape as an int32 array on the accelerator. Uploaded once per shape."""
        shape, memory = self.shape, self.memory
        home = memory.home(self.accelerator_side(memory))
        known = _gpu_shapes.setdefault(memory, {})
        if (shape, home) not in known:
            dims = np.array(shape, dtype=np.int32)
            new = SyncedMemory.adopting(dims.view(np.uint8), device="cpu")
            known[shape, home] = self.from_memory(new, dense_layout(dims.size, "int32"), home=home)
        return known[shape, home].const_view(GPU_DATA, "gpu_shape")

    # --- Caffe's accessors of data ---------------------------------------------------------------

    # The arrays are borrows, valid until the next access on the other side. On the host they are
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

    def gpu_data(self) -> Any:
        """Return data on the accelerator, to read. Uploads what is newer on the host.

        NoDeviceError if there is no accelerator.
        """
        return self.const_view(GPU_DATA, "gpu_data")

    def mutable_gpu_data(self) -> Any:
        """Return data on the accelerator, to read and write. Uploads as `gpu_data` does."""
        return self.borrow(GPU_DATA, MUTABLE, "mutable_gpu_data")

    def overwrite_gpu_data(self) -> Any:
        """Return data on the accelerator, to overwrite every element; see `overwrite_cpu_data`."""
        return self.borrow(GPU_DATA, OVERWRITE, "overwrite_gpu_data")

    def async_gpu_push(self, stream: Any = None) -> None:
        """Start an asynchronous upload of data and return.

        Later overlapping accesses wait for it if they are on the accelerator or may write on the
        host. A view uploads its part of the memory. `stream` is a stream of the accelerator; None
        for an internal one. RuntimeError unless the head is HEAD_AT_CPU.
        """
        memory = self.memory
        memory.async_gpu_push(stream, *self.layout.reach, self.accelerator_side(memory))

    def prefetch(self, device: Device | str | None = None) -> None:
        """Start to transfer to a device, by default that of this Blob, the data missing there.

        A view transfers its part of the memory. The transfer is asynchronous, as with
        `async_gpu_push`, and later accesses that depend on it wait for it. Reading from a source to
        the host is synchronous, and so is a download of bytes that a writable alias may change.
        """
        home = self.home if device is None else home_of(device)
        memory = self.memory
        memory.prefetch(memory.side_of(home), *self.layout.reach)

    def evict(self, side: Literal["cpu", "gpu"] = "gpu") -> int:
        """Free the memory of data on a side, and return the number of bytes freed.

        What only that side holds moves to the other first. Writable borrowed arrays of that side
        become read-only. Arrays that the program keeps beyond a borrow keep the bytes alive. A
        buffer that reaches beyond the range of a view stays, and `explain` says so.

        BufferError, with nothing changed, if an alias, exposed memory, or an operation of another
        thread needs a buffer, or if that side is an adopted array or shared memory, which later
        writes would not reach. NoDeviceError if something has to leave the host, and no accelerator
        can be used.
        """
        return parts.evict(self, side)

    def parts(self, axis: int = 0, *, nbytes: int | None = None) -> Iterator[Self]:
        """Walk the Blob in views that are on its device one after the other.

        While the caller uses a part, the next one is transferred, and the one before is evicted:
        the device needs room for two. A part that was written moves back once, and one that was
        only read does not. `nbytes` is the size of a part, which has at least one index along
        `axis`. The default is 64 MiB, or less on a device that has no room for four of them.

        ValueError if the views along this axis would lie between each other in memory, BufferError
        if a part that was left is aliased, as by a tensor that was kept.
        """
        return parts.walk(self, axis, nbytes)

    def data_at(self, *indices: Any) -> Any:
        """Return one element of data as a Python scalar, by indices as for `offset`.

        Transfers only that element.
        """
        return scalars.element_at(self, indices, "data_at", diff=False)

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

    def gpu_diff(self) -> Any:
        """Return diff on the accelerator, to read; see `gpu_data`."""
        return self.const_view(GPU_DIFF, "gpu_diff")

    def mutable_gpu_diff(self) -> Any:
        """Return diff on the accelerator, to read and write; see `mutable_gpu_data`."""
        return self.borrow(GPU_DIFF, MUTABLE, "mutable_gpu_diff")

    def overwrite_gpu_diff(self) -> Any:
        """Return diff on the accelerator, to overwrite every element; see `overwrite_gpu_data`."""
        return self.borrow(GPU_DIFF, OVERWRITE, "overwrite_gpu_diff")

    def diff_at(self, *indices: Any) -> Any:
        """Return one element of diff as a Python scalar; see `data_at`."""
        return scalars.element_at(self, indices, "diff_at", diff=True)

    # --- writes by other code --------------------------------------------------------------------

    def assume_unaliased(self) -> None:
        """Promise that other code no longer writes this Blob's part of its memories.

        Ends the exposure caused by ``__cuda_array_interface__`` and adopted arrays, so that later
        reads need not copy again. Tracked aliases need no promise.
        """
        for memory in (self.memory, self.existing_diff()):
            if memory is not None:
                assume_unaliased(memory, *self.layout.reach)

    def refresh(self) -> None:
        """Make writes by other code into this Blob's host memory visible on the device.

        For memory that is written without syncblob: by other processes in shared memory, or
        through an adopted array. The next access on the device uploads it, once. The host is no
        longer exposed, so later accesses do not upload again until the next call. Bytes that this
        process wrote on the device and has not downloaded stay newest.

        Transfers nothing. The host stays exposed for a view with gaps. Pickling a Blob in shared
        memory exposes the host again. diff is unchanged.
        """
        layout = self.layout
        refresh(self.memory, *layout.reach, still_exposed=not layout.gapless)

    # --- indexing --------------------------------------------------------------------------------

    # Assigned, because a method that calls a function takes longer.
    __getitem__ = get_item
    __setitem__ = set_item

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the first axis: yield views, or the elements of a 1-d Blob.

        Elements are NumPy scalars, read on the host. As with an ndarray, writes during the
        iteration are seen; those on the device are downloaded. Exception: while another library may
        write on the device, writes there are not seen. TypeError if this Blob is 0-d.
        """
        shape = self.shape
        if not shape:
            raise TypeError("a 0-d Blob cannot be iterated over; use item() for its element")
        if len(shape) == 1:
            return scalars.iterate(self)
        return map(self.__getitem__, range(shape[0]))

    def __reversed__(self) -> Iterator[Any]:
        """Iterate over the first axis from its end; see `__iter__`."""
        return iter(self[::-1])

    # --- pickles ---------------------------------------------------------------------------------

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle shape, dtype, device and the bytes of data and diff, out-of-band with protocol 5.

        Reads on the host. The unpickled Blob has its contents on the host, and the same device and
        accelerator if they are available, else the host; that of a const Blob is const.
        UNINITIALIZED memory is not written.

        For data in shared memory (`Blob.in_shared_memory`), the name of the block and the layout
        are pickled. This is a mutable access of the host; for a const Blob a const access.
        """
        return pickling.reduce(self, protocol)

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
            The message or its serialised bytes. ModelFileError if they are not a BlobProto, or if
            the data does not match the shape.
        dtype
            The dtype of the Blob, converted as in C; None for float64 if the message has double
            data, else float32.
        device
            As for the constructor.
        """
        from syncblob.caffe.messages import blob_proto_methods  # built on Blobs

        blob = blob_proto_methods.from_proto(proto, dtype, device)
        if type(blob) is cls:
            return blob
        return cls.from_memory(blob.memory, blob.layout, home=blob.home, gradient=blob.gradient)

    def load_proto(self, proto: BlobProto | bytes, *, resize: bool = True) -> None:
        """Copy the contents of a BlobProto: Caffe's ``FromProto``. Writes on the host.

        `proto` is the message or its serialised bytes. If it has no diff, diff is unchanged. The
        Blob takes its shape; without `resize` the shapes must be equal (see `shape_equals`).
        ModelFileError or ValueError if it does not match; nothing changes then.
        """
        self.require_writable("load_proto")
        from syncblob.caffe.messages import blob_proto_methods  # built on Blobs

        blob_proto_methods.load_proto(self, proto, resize=resize)

    def to_proto(self, *, write_diff: bool = False) -> BlobProto:
        """Return a new BlobProto message with the contents, and diff if asked. Reads on the host.

        float64 is written as double, float32, float16 and bfloat16 as float; TypeError for other
        dtypes. ValueError if the message would reach 2 GiB.
        """
        from syncblob.caffe.messages import blob_proto_methods  # built on Blobs

        return blob_proto_methods.to_proto(self, write_diff=write_diff)

    # --- Python's scalars, lists, bytes and text -------------------------------------------------

    def item(self, *indices: Any) -> Any:
        """Return one element as a Python scalar. Transfers only that element, and changes no state.

        The indices are as for ``numpy.ndarray.item``; none for a Blob of one element.
        """
        return scalars.item(self, indices)

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python scalars. Reads on the host.

        For a view with gaps, only its elements are transferred.
        """
        return self.host_elements("tolist").tolist()

    def tobytes(self, order: Literal["C", "F", "A"] = "C") -> bytes:
        """Return a copy of the elements' bytes, in an order as of NumPy. Reads as `tolist`."""
        return self.host_elements("tobytes").tobytes(order)

    def __bytes__(self) -> bytes:
        """Return a copy of the elements' bytes in C order; see `tobytes`."""
        return self.tobytes()

    def __bool__(self) -> bool:
        """Convert a 0-d Blob. Transfers only its element, and changes no state."""
        return bool(scalars.scalar(self, "bool"))

    def __int__(self) -> int:
        """Convert a 0-d Blob, as `bool` does."""
        return int(scalars.scalar(self, "int"))

    def __float__(self) -> float:
        """Convert a 0-d Blob, as `bool` does."""
        return float(scalars.scalar(self, "float"))

    def __complex__(self) -> complex:
        """Convert a 0-d Blob, as `bool` does."""
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

    def __repr__(self) -> str:
        """Return shape, dtype, device and head. Transfers nothing."""
        return f"Blob({text.describe(self)})"

    def __str__(self) -> str:
        """Return the values as NumPy formats them.

        NumPy's print options apply, and long axes are summarized. Reads only the elements shown, on
        the host, and may download them. If a guard or a graph capture forbids the download, returns
        `repr` with the reason.
        """
        return text.values_of(self)

    def _repr_html_(self) -> str:
        """Draw `explain` in a notebook, with the values that the host holds. Transfers nothing."""
        return self.explain().draw(text.values_on_host(self))

    # --- array libraries; reading protocols take the const path, writing ones the mutable path ---

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """Return `syncblob`, the array API namespace.

        `api_version` is ``"2021.12"`` to ``"2025.12"``, None for the newest; else a ValueError.
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
    ) -> NDArray[Any]:
        """Return data on the host as `numpy.asarray` does: read-only, downloaded if needed.

        Matplotlib, pandas and others call this method, which has pandas' name.

        Parameters
        ----------
        dtype
            Convert to another dtype, as a private, writable copy.
        copy
            True makes a private, writable copy.
        """
        return self.__array__(dtype, copy or None)

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
            True exports a private copy; False raises if a copy is needed. By default the capsule is
            over the Blob's memory, after a transfer if needed.

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
            and kept.exported is not None
            and kept.shortcut.writable
            and dl_device is None
            and copy is None
            and (stream is None or not home.native)
        ):
            array, layout = kept.exported.view(), self.known_layout or self.layout
            # A Blob with kept arrays has a memory.
            memory: Any = self.known_memory
            start, stop, side = layout.start, layout.stop, kept.shortcut.side
            loans = memory.own_loans() if memory.loans is NO_LOANS else memory.loans
            loans.lend(array, "DLPack", side, start, stop, user_instruction())
            if kept.shortcut.writable and memory.loans is loans:
                if home is HOST:
                    return array.__dlpack__(max_version=max_version)
                capsule = home.capsule(array, stream=stream, max_version=max_version)
                return dlpack_capsules.edit(capsule, device=home.dlpack_device)
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

        AttributeError if `device` is not a CUDA device, or the dtype is bfloat16, which the
        interface does not support.
        """
        # Libraries treat every object with this interface as an array on a CUDA device.
        home: Any = self.home
        if home.native or home.protocol != export_cuda.CUDA:
            raise AttributeError(  # what hasattr() expects of a missing protocol
                f"{export_cuda.CUDA}: operations of this Blob run on {home.device.name}; blob.gpu "
                'and blob.on("cuda:0") have it, and cupy.asarray(blob) needs none'
            )

        def array(access: Access) -> Any:
            if access is CONST:
                return self.const_view(GPU_DATA, export_cuda.CUDA)
            return self.borrow(GPU_DATA, access, export_cuda.CUDA)

        described, kept = export_cuda.interface(
            self.memory, self.side, self.layout, self.origin, array, readonly=self.readonly
        )
        self.origin: Any = kept
        return described

    @property
    def __cupy_get_ndarray__(self) -> Callable[[], Any]:
        """The function that CuPy calls for a Blob without ``__cuda_array_interface__``.

        The function returns a tracked alias of data on the CUDA device, and uploads if needed.
        Reading the attribute transfers nothing. AttributeError if there is no CUDA device, or the
        memory is on a device of another kind.
        """
        memory = self.memory
        return export_cuda.for_cupy(memory, self.accelerator_side(memory), self.gpu)

    def __arrow_array__(self, type: Any = None) -> Any:  # noqa: A002  # PyArrow's name
        """Convert a 1-d Blob to a PyArrow array over host data, read-only and without a copy.

        Downloads if needed. Conversions are copied, and so is bool, which PyArrow packs. `type` is
        a `pyarrow.DataType`; None for that of the dtype. ArrowInvalid if there is not exactly one
        axis; `pyarrow.Tensor.from_numpy` takes any number.
        """
        import pyarrow as pa

        return pa.array(np.asarray(self), type=type)

    @property
    def __arrow_c_array__(self) -> Callable[..., tuple[Any, Any]]:
        """The function that Polars and others call for Arrow capsules, made by ``pa.array``.

        Reading the attribute transfers nothing. AttributeError if there is not exactly one axis, or
        PyArrow is missing.
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
        that a compiled function closes over. AttributeError if `device` is a CUDA device, whose
        memory JAX accesses by other protocols.
        """
        if not self.home.native:
            raise AttributeError("__jax_array__ would copy by way of the host")
        import jax.numpy

        return lambda: jax.numpy.array(np.asarray(self))

    @property
    def _sympy_(self) -> Callable[[], Any]:
        """The function that SymPy calls for a 0-d Blob. It reads the element, and returns a number.

        AttributeError if there are axes: SymPy makes an Array of such a Blob, as of an ndarray.
        """
        if self.ndim:
            raise AttributeError("_sympy_ is for a 0-d Blob")
        import sympy

        return lambda: sympy.sympify(scalars.element(self, "_sympy_")[()])

    @property
    def __pandas_priority__(self) -> int:
        """More than that of a DataFrame, whose operators then give way to those of a Blob.

        These call the DataFrame again with a const array. It would refuse a Blob of two axes.
        AttributeError if there are not two: DataFrames and Series take those Blobs.
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
        """Compute one of torch's functions; torch calls this. The results are tensors.

        A tensor over a Blob's memory, such as a reshaped input or an `out`, is a tracked alias of
        the Blob, on the mutable path; for a const Blob it is a copy.
        """
        torch = _loaded or _torch()
        if types and "torch._dynamo" in sys.modules:
            # The compiler must not trace what follows. This calls it again, without types.
            return torch.call_untraced(func, args, kwargs)
        if kwargs:
            values = (*args, *kwargs.values())
            return torch.functions[func][(*kwargs,), *map(type, values)](values)
        return torch.functions[func][(*map(type, args),)](args)

    def to_torch(self, *, copy: bool | None = None) -> Tensor:
        """Return a tensor over data, on this Blob's device: a tracked alias, by a mutable access.

        `copy` True makes a private copy, by a const access. None copies only a const Blob; False
        never copies. ValueError for False and a const Blob, and if a stride is negative, which
        torch does not support.
        """
        return (_loaded or _torch()).tensor_over(self, copy=copy)

    def as_parameter(self) -> BlobParameter:
        """Return an autograd leaf over data, whose gradient is over diff. Copies nothing.

        ``loss.backward()`` adds to diff; `update`, or a torch optimizer of the parameter, writes
        data. Both are tracked aliases on this Blob's device, as long as the parameter exists or a
        graph refers to it. diff is created if needed.

        The `grad` of this ``torch.nn.Parameter`` is never None while it requires one:
        ``zero_grad()`` sets diff to zero, with or without ``set_to_none``. An assigned gradient is
        copied into diff. TypeError if the dtype is not a floating-point or complex one, ValueError
        if this is a const Blob, or a stride is negative, which torch does not support.
        """
        return (_loaded or _torch()).parameter_over(self)

    def __dir__(self) -> list[str]:
        """List the attributes, without the names that only raise."""
        return [name for name in super().__dir__() if name not in OF_BLOB]


add_missing(Blob)
BlobCore.class_of_results = Blob
