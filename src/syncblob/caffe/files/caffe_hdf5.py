"""Caffe's HDF5 formats: models and solver states, read and written.

A ``.caffemodel.h5`` has a group ``data`` with a group for each layer, whose blobs are datasets
named by number, and perhaps a group ``diff`` like it. Caffe writes a parameter that layers share
once, with the first of them, and this module with each of them. A layer whose name has a ``/`` is a
group within a group, which Caffe does not find. A ``.solverstate.h5`` has three small datasets and
a group ``history``.

h5py looks up names, shapes and offsets. Contiguous values are then read from the file, and others,
which are chunked or floats that are not IEEE's, by h5py when they are first accessed. A file may be
malicious, so links, values in other files and groups that contain themselves are refused, and
declared sizes are compared with that of the file.

When writing, h5py lays the file out, and the values are written at their offsets piece by piece:
HDF5 itself would need each converted array in memory as a whole.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from syncblob.caffe._pb.caffe_pb2 import LayerParameter
from syncblob.caffe.messages.fields import (
    MOST_AXES,
    MOST_ELEMENTS,
    MOST_OBJECTS,
    Array,
    DType,
    Shape,
    Write,
)
from syncblob.caffe.messages.lazy_blobs import blob_values, had_diff, has_values, lazy_blob
from syncblob.caffe.messages.open_file import OpenFile, stream_of
from syncblob.caffe.messages.pieces import (
    BlobValues,
    FileRange,
    require_axes,
    wire_dtype,
    write_pieces,
)
from syncblob.caffe.messages.read_blobproto import BlobIndex, LayersInFile
from syncblob.caffe.messages.string_fields import at_place, decode_text, encode_text, put_texts
from syncblob.caffe.messages.values import Runs, Values
from syncblob.caffe.nets.layer import Layer
from syncblob.caffe.nets.layer_types import own_shapes
from syncblob.errors import ModelFileError
from syncblob.formats import Blob, as_shape, import_optional

# The shape, the dtype and the values of an array of any kind.
Dataset = tuple[Shape, DType, Values]

_OTHER_LAYOUT = (
    "this is HDF5 in another layout than Caffe's; syncblob.caffe.convert.open_weights opens it"
)
_MOST_LEVELS = 32
_MOST_COMPRESSION = 1032
"""The highest compression ratio of deflate, also in zip; other common filters have lower ones."""
_MOST_TEXT = 1 << 16
_HARMLESS = 1 << 24
"""The bytes that a dataset of another layout may claim without storing them: HDF5 generates fill
values for unwritten parts, and small arrays compress very well."""
_PARTS_OF_STATE = {"iter", "learned_net", "current_step", "history"}
_LARGEST_ITEM = 8


def is_too_dense(nbytes: int, stored: int) -> bool:
    """Return whether values claim more bytes than any compression would store as so few."""
    return nbytes > max(_HARMLESS, stored * _MOST_COMPRESSION)


def index_hdf5(file: OpenFile) -> LayersInFile:
    """Find the layers of a ``.caffemodel.h5``, in the order of their names."""
    with _open(file) as h5:
        if "data" not in h5.root:
            raise h5.error(
                f"expected a group 'data' with the layers of a model; "
                f"{'use open_solver_state' if 'history' in h5.root else _OTHER_LAYOUT}"
            )
        diffs = dict(h5.groups(h5.child(h5.root, "diff"))) if "diff" in h5.root else {}
        layers: LayersInFile = []
        for name, datasets in h5.groups(h5.child(h5.root, "data")):
            proto = LayerParameter()
            put_texts(proto, "name", [name])
            layers.append((proto, h5.blobs(name, datasets, diffs.get(name, {}))))
    return layers


def read_state(file: OpenFile, *, complete: bool = False) -> dict[str, Any]:
    """Find the parts of a ``.solverstate.h5``, by name. Raises the errors of `index_hdf5`."""
    with _open(file) as h5:
        if "history" not in h5.root or (complete and {*h5.root} != _PARTS_OF_STATE):
            raise h5.error(
                f"expected a group 'history' with the state of a solver; "
                f"{'use open_model' if 'data' in h5.root else _OTHER_LAYOUT}"
            )
        history = dict(h5.groups(h5.child(h5.root, "history")))
        if any(history):
            raise h5.error("expected datasets in the group 'history', got groups within it")
        return {
            "iter": int(h5.scalar("iter", "iu") or 0),
            "learned_net": decode_text(bytes(h5.scalar("learned_net", "S") or b"").rstrip(b"\0")),
            "current_step": int(h5.scalar("current_step", "iu") or 0),
            "history": [
                lazy_blob(file, blob) for blob in h5.blobs("history", history.get("", {}), {})
            ],
        }


def read_tree(file: OpenFile) -> tuple[dict[str, Dataset], list[str]] | None:
    """Find the datasets of a file in any layout but that of a ``.caffemodel.h5``."""
    with _open(file) as h5:
        h5.left_out = others = []
        groups = list(h5.groups(h5.root))
        numbered = all(name and key.isdecimal() for name, datasets in groups for key in datasets)
        if "data" in h5.root and {*h5.root} <= {"data", "diff"} and numbered:
            return None
        tree = {
            f"{name}/{key}" if name else key: dataset
            for name, datasets in groups
            for key, dataset in datasets.items()
        }
        for name, dataset in [*tree.items()]:
            if dataset.dtype.kind in "SO" or dataset.shape is None:
                is_text = h5.h5py.check_string_dtype(dataset.dtype)
                others.append(f"the {'text' if is_text else 'dataset without numbers'} {name!r}")
                del tree[name]
        return {name: h5.dataset(dataset) for name, dataset in tree.items()}, others


@contextlib.contextmanager
def _open(file: OpenFile) -> Iterator[_Walk]:
    """Open a file with h5py, and turn its errors into ModelFileError."""
    h5py = import_optional("h5py", "hdf5")
    walk = _Walk(h5py, file)

    def explain(error: Exception) -> ModelFileError:
        return walk.error(f"the HDF5 library finds the file damaged: {error}")

    with stream_of(file, explain) as stream, h5py.File(stream, "r") as walk.root:
        yield walk


Datasets = dict[str, Any]


@dataclass(slots=True)
class _Walk:
    """A walk over an open file, which may be damaged or malicious."""

    h5py: ModuleType
    file: OpenFile
    root: Any = None
    place: str | None = None
    """The layer, group or dataset that is being read, for error messages."""
    left_out: list[str] | None = None
    """Links and datatypes that are left out, in words; None if links are refused."""
    _objects: int = 0

    def error(self, message: str) -> ModelFileError:
        return ModelFileError(message, path=self.file.path, layer=self.place)

    def blobs(self, name: str, datasets: Datasets, diffs: Datasets) -> tuple[BlobIndex, ...]:
        self.place = name
        numbers = [*map(str, range(len(datasets)))]
        if datasets.keys() != {*numbers}:
            raise self.error(
                f"expected datasets '0' to '{numbers[-1]}', got {sorted(datasets)}: "
                f"perhaps one is shared with another layer, which has it; or {_OTHER_LAYOUT}"
            )
        blobs = tuple(self._blob(datasets[number], diffs.get(number)) for number in numbers)
        self.place = None
        return blobs

    def scalar(self, name: str, kinds: str) -> Any:
        """Read a dataset of one value at the root, of a dtype of these kinds; None without one."""
        if name not in self.root:
            return None
        dataset = self.child(self.root, name)
        is_one = isinstance(dataset, self.h5py.Dataset) and dataset.shape in ((), (1,))
        if not is_one or dataset.dtype.kind not in kinds or dataset.dtype.itemsize > _MOST_TEXT:
            text = f"a string of fixed length, at most {_MOST_TEXT} bytes,"
            what = text if kinds == "S" else "one integer"
            raise self.error(f"expected {what} in {name!r}")
        self._require_sound(dataset, harmless=_MOST_TEXT)
        return np.asarray(dataset[()]).reshape(-1)[0]

    def groups(
        self, group: Any, name: str = "", levels: int = _MOST_LEVELS
    ) -> Iterator[tuple[str, Datasets]]:
        """Yield the groups in a group, at any depth, that have datasets or are empty."""
        if not isinstance(group, self.h5py.Group):
            raise self.error(f"expected a group, got a dataset; {_OTHER_LAYOUT}")
        if not levels:
            raise self.error(
                f"group {name!r} contains itself, or groups are nested more than {_MOST_LEVELS} "
                f"deep"
            )
        datasets: Datasets = {}
        groups: dict[str, Any] = {}
        for key in group:
            # h5py returns names that are not UTF-8 as bytes.
            child = decode_text(key)
            self.place = path = f"{name}/{child}" if name else child
            item = self.child(group, child)
            if isinstance(item, self.h5py.Dataset):
                datasets[child] = item
            elif isinstance(item, self.h5py.Group):
                groups[path] = item
            elif item is not None and self.left_out is not None:
                self.left_out.append(f"the datatype {path!r}")
        # A group with only groups in it is part of a name with slashes. The outermost group has no
        # name.
        if datasets or (name and not groups):
            yield name, datasets
        for path, item in groups.items():
            yield from self.groups(item, path, levels - 1)
        self.place = None

    def child(self, group: Any, name: str) -> Any:
        """Return an item of a group; None if it is a link that is left out."""
        self._objects += 1
        if self._objects > MOST_OBJECTS:
            raise self.error(f"expected at most {MOST_OBJECTS} groups and datasets, got more")
        key = encode_text(name)
        kind = group.id.links.get_info(key).type
        if kind == self.h5py.h5l.TYPE_HARD:  # a soft or external link may lead to another file
            return group[key]
        if self.left_out is None:
            raise self.error(
                f"{name!r} is a link to another file or dataset, which is not followed"
            )
        self.left_out.append(f"the link {self.place or name!r}")
        return None

    def dataset(self, dataset: Any) -> Dataset:
        """Describe a dataset that need not be a blob."""
        dtype = dataset.dtype
        return dataset.shape, dtype, self._values(dataset, dtype, harmless=_HARMLESS)

    # --- datasets ----------------------------------------------------------------------------

    def _blob(self, dataset: Any, diff: Any) -> BlobIndex:
        shape, dtype = self._describe(dataset)
        values, diff_values = self._values(dataset, dtype), None
        if diff is not None:
            diff_shape, diff_dtype = self._describe(diff)
            if diff_shape != shape:
                raise self.error(f"expected a diff of shape {shape}, as the data, got {diff_shape}")
            diff_values = self._values(diff, diff_dtype)
        return BlobIndex(shape, legacy=False, data=values, diff=diff_values)

    def _describe(self, dataset: Any) -> tuple[Shape, DType]:
        """Return the shape and the dtype of a dataset; refuse it if it cannot be a blob."""
        dtype = dataset.dtype
        if dtype.kind not in "fiu" or dtype.itemsize > _LARGEST_ITEM:
            raise self.error(f"expected floats of 2 to 8 bytes or integers, got {dtype}")
        if dataset.shape is None:
            raise self.error("expected a dataset with a shape, got an empty one")
        try:
            return as_shape(dataset.shape, max(dtype.itemsize, 4)), dtype
        except ValueError as error:
            raise self.error(f"{error}: the file is damaged") from error

    def _values(self, dataset: Any, stored: DType, *, harmless: int = 0) -> Values:
        self._require_sound(dataset, harmless=harmless)
        offset, count = dataset.id.get_offset(), dataset.size
        # Chunked or compact; or a type such as bfloat16, which h5py gives as a larger dtype.
        as_numpy = dataset.id.get_type() == self.h5py.h5t.py_create(stored)
        if not count or (offset is not None and as_numpy):
            return Runs.in_order(stored, offset or 0, count)
        return _ValuesByH5py(stored, dataset.shape, dataset.name, (dataset.chunks or [1])[0])

    def _require_sound(self, dataset: Any, *, harmless: int = 0) -> None:
        """Refuse a dataset whose values should not be read."""
        h5d, what, size = self.h5py.h5d, f"dataset {dataset.name!r}", len(self.file)
        properties = dataset.id.get_create_plist()
        layout = properties.get_layout()
        if layout == h5d.VIRTUAL or properties.get_external_count():
            raise self.error(f"the values of {what} are in another file, which is not read")
        itemsize = dataset.id.get_type().get_size()
        nbytes = dataset.id.get_space().get_simple_extent_npoints() * itemsize
        if nbytes <= harmless:
            return
        stored, most = dataset.id.get_storage_size(), _MOST_COMPRESSION
        if layout == h5d.CONTIGUOUS:
            offset, most = dataset.id.get_offset(), 1
            stored = 0 if offset is None else max(0, size - offset)
        elif layout == h5d.CHUNKED and not properties.get_nfilters():
            chunk = math.prod(properties.get_chunk()) * itemsize
            if dataset.id.get_num_chunks() * chunk != stored:
                raise self.error(
                    f"chunks of {what} are not as long as it says: the file is damaged"
                )
        if nbytes > min(stored, size) * most:
            raise self.error(
                f"{what} claims {nbytes} bytes, but only {min(stored, size)} are stored for it: "
                f"the file is truncated, damaged or was never filled"
            )


@dataclass(frozen=True, slots=True)
class _ValuesByH5py(Values):
    """Values that h5py reads: chunked or compact ones, or of types NumPy lacks."""

    shape: Shape
    name: str
    rows: int
    """The rows that a chunk of the file has."""
    longest_chunk: ClassVar[int] = 1 << 23  # opening the dataset again for each chunk takes time

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def grain(self) -> int:
        """The number of values in whole chunks: others would be unpacked twice."""
        return self.rows * math.prod(self.shape[1:])

    def read_into(self, contents: Any, target: Array, *, first: int = 0) -> None:
        """Read the rows that have the values, and only the chunks that contain them."""
        if not len(target):
            return
        size = math.prod(self.shape[1:])  # a scalar is one row
        row, stop = first // size, -(-(first + len(target)) // size)
        count = (stop - row) * size
        rows = target if count == len(target) else np.empty(count, target.dtype)
        contents.require_unchanged()
        with _open(contents) as h5:
            dataset = h5.root[self.name]
            if self.shape:
                dataset.read_direct(rows.reshape(-1, *self.shape[1:]), np.s_[row:stop])
            else:
                dataset.read_direct(rows.reshape(()))
        if rows is not target:
            target[:] = rows[first - row * size :][: len(target)]


# --- writing --------------------------------------------------------------------------------------


class _Dataset(NamedTuple):
    place: bytes
    """The path in the file."""
    values: BlobValues
    shape: Shape


def plan_hdf5(layers: Sequence[Layer], *, write_diff: bool | None) -> Write:
    """Return a function that writes layers as ``.caffemodel.h5`` into an existing file."""
    data, diffs = [], []
    for layer in layers:
        entries = layer.blobs.entries
        shapes = own_shapes(layer) if any(entry.legacy for entry in entries) else ()
        for number, (blob, legacy) in enumerate(entries):
            place = b"%s/%d" % (encode_text(layer.name), number)
            found = _dataset(b"data/" + place, blob, f"layer {layer.name!r}, blob {number}")
            found = found._replace(shape=shapes[number] if legacy else blob.shape)
            data.append(found)
            if write_diff or (write_diff is None and had_diff(blob)):
                diff = BlobValues(blob, found.values.dtype, diff=True)
                diffs.append(_Dataset(b"diff/" + place, diff, found.shape))
    roots = [b"data"] + [b"diff"] * bool(diffs)
    groups = [b"%s/%s" % (root, encode_text(layer.name)) for root in roots for layer in layers]
    return _plan(data + diffs, roots + groups)


def plan_state_hdf5(facts: Mapping[str, int | bytes], history: Sequence[Blob]) -> Write:
    """Return a function that writes a ``.solverstate.h5`` into an existing file."""
    datasets = [
        _dataset(b"history/%d" % number, blob, f"history {number}")
        for number, blob in enumerate(history)
    ]
    return _plan(datasets, [b"history"], facts)


def plan_tree(tensors: Mapping[str, Blob]) -> Write:
    """Return a function that writes a dataset for each tensor into an existing file."""
    return _plan(
        [
            _Dataset(encode_text(name), BlobValues(blob, blob.dtype), blob.shape)
            for name, blob in tensors.items()
        ]
    )


def _values(source: OpenFile, names: Iterable[str]) -> Iterator[Array]:
    """Yield the values of datasets. The errors of who takes them are not those of h5py."""
    with _open(source) as h5:
        for name in names:
            found = h5.root[encode_text(name)][()]
            yield np.asarray(found, found.dtype.newbyteorder("="))


def plan_edit(source: OpenFile, tensors: Mapping[str, Blob]) -> Write:
    """Return a function that writes a file with new values of datasets, and all else as it is."""
    h5py = import_optional("h5py", "hdf5")

    def write(path: Path) -> None:
        # Compare all datasets before the first one is changed: one may have several names.
        edited = {}
        for (name, blob), values in zip(tensors.items(), _values(source, tensors), strict=True):
            if not has_values(blob, values):
                edited[encode_text(name)] = blob
        write_pieces([FileRange(source, 0, len(source))], path)
        with h5py.File(path, "r+") as file:
            for place, blob in edited.items():
                dataset = file[place]
                if (dataset.shape, dataset.dtype.newbyteorder("=")) == (blob.shape, blob.dtype):
                    dataset[...] = blob_values(blob)
                    file.flush()
                    # Several filters may exceed the ratio that reading accepts.
                    if not is_too_dense(blob.nbytes, dataset.id.get_storage_size()):
                        continue
                    names = [each for each in map(encode_text, tensors) if file[each] == dataset]
                else:
                    names = [place]
                attributes = dict(dataset.attrs)
                for each in names:
                    del file[each]
                dataset = file.create_dataset(place, data=blob_values(blob))
                dataset.attrs.update(attributes)
                for each in {*names} - {place}:
                    file[each] = dataset

    return write


def _plan(
    datasets: list[_Dataset],
    groups: Sequence[bytes] = (),
    facts: Mapping[str, int | bytes] | None = None,
) -> Write:
    """Return a function that writes a file. Raise ValueError if it could not be read again."""
    facts = facts or {}
    places = Counter([*groups, *(dataset.place for dataset in datasets)])
    steps = {place: place.split(b"/") for place in places}
    above = {b"/".join(path[:end]) for path in steps.values() for end in range(1, len(path))}
    for place, path in steps.items():
        is_odd = b"\0" in place or not {b"", b"."}.isdisjoint(path)
        if is_odd or places[place] > 1 or (place in above and place not in groups):
            raise ValueError(
                f"HDF5 cannot hold {decode_text(place)!r}{' twice' * (places[place] > 1)}: "
                f"expected names that are neither empty nor '.', also between '/', and each of one "
                f"layer, blob or group; rename it (model.rename), or write another format"
            )
    all_groups = sorted({*groups, *above})
    count = len(all_groups) + len(datasets) + len(facts)
    axes = max((len(dataset.shape) for dataset in datasets), default=0)
    longest = max((len(fact) for fact in facts.values() if isinstance(fact, bytes)), default=0)
    levels = max((group.count(b"/") + 1 for group in all_groups), default=0)
    for limit, found, what in (
        (MOST_AXES, axes, "axes"),
        (MOST_OBJECTS, count, "groups and datasets"),
        (_MOST_LEVELS - 1, levels, "groups within each other"),
        (_MOST_TEXT - 1, longest, "bytes of text"),
    ):
        if found > limit:
            raise ValueError(
                f"an HDF5 file that can be opened again has at most {limit} {what}, and this one "
                f"would have {found}; write another format, or several files"
            )
    # Each group precedes those within it.
    return partial(_write, import_optional("h5py", "hdf5"), all_groups, datasets, facts)


def _dataset(place: bytes, blob: Blob, name: str) -> _Dataset:
    with at_place(name):
        dtype = wire_dtype(blob.dtype)
        require_axes(blob)
        if blob.size > MOST_ELEMENTS:
            raise ValueError(
                f"Caffe's blobs have at most {MOST_ELEMENTS} elements, got shape {blob.shape}"
            )
    return _Dataset(place, BlobValues(blob, dtype), blob.shape)


def _write(
    h5py: ModuleType,
    groups: Sequence[bytes],
    datasets: list[_Dataset],
    facts: Mapping[str, int | bytes],
    path: Path,
) -> None:
    """Create groups, numbers, strings and empty datasets; then write the values."""
    as_caffe = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    as_caffe.set_layout(h5py.h5d.CONTIGUOUS)
    as_caffe.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    as_caffe.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    # The same model gives the same bytes.
    as_caffe.set_obj_track_times(False)  # h5py accepts this argument by position only
    offsets: list[int] = []
    with h5py.File(path, "w") as file:
        for group in groups:
            file.create_group(group)
        for name, fact in facts.items():
            kind, value = np.dtype("<i4"), np.array([fact])
            if isinstance(fact, bytes):
                # Caffe reads up to the terminating zero.
                terminated = h5py.h5t.C_S1.copy()
                terminated.set_size(len(fact) + 1)
                kind, value = h5py.Datatype(terminated), np.array(fact)
            file.create_dataset(name, value.shape, kind, value, track_times=False)
        for dataset in datasets:
            created = h5py.h5d.create(
                file.id,
                dataset.place,
                h5py.h5t.py_create(dataset.values.dtype),
                h5py.h5s.create_simple(dataset.shape),
                as_caffe,
            )
            # A dataset without elements has no offset.
            offsets.append(created.get_offset() or 0)
    with path.open("r+b") as contents:
        for dataset, offset in zip(datasets, offsets, strict=True):
            contents.seek(offset)
            contents.writelines(dataset.values.chunks())
