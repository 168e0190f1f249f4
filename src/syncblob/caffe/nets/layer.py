"""One layer of a net: its settings and its blobs."""

from __future__ import annotations

import copy
from collections.abc import Container, Iterable, MutableSequence, Sequence
from typing import Any, NamedTuple, Never, NoReturn, Self, TypeVar, overload

from google.protobuf.message import Message
from numpy.typing import DTypeLike

from syncblob.caffe._pb.caffe_pb2 import LayerParameter
from syncblob.caffe.messages.fields import LEGACY_AXES, LEGACY_NAMES, Shape
from syncblob.caffe.messages.lazy_blobs import independent_copy, is_legacy
from syncblob.caffe.messages.string_fields import (
    at_place,
    decode_text,
    escape,
    parse,
    put_texts,
    require_complete,
    require_list,
)
from syncblob.formats import Blob, before_reshape, memory_of

M = TypeVar("M", bound="Message")

_NO_FLOATS = "biuc"


class Layer:
    """One layer of a net.

    You can assign the type, bottoms and tops, change all other settings in `proto`, and replace
    blobs in `blobs`. `save_model` writes the result. Change the name by `ModelFile.rename`.

    Parameters
    ----------
    name
        The name; ``""`` if the file has none.
    type
        The type, such as ``"Convolution"``; ``""`` for a number in a V1 file that Caffe does not
        know.
    bottoms, tops
        Lists of the names of the inputs and the outputs.
    blobs
        A list of the weights: for a convolution the kernels, then the bias. Arrays of any library.
        As in `Blob.asarray`, their memory is adopted if possible.
    """

    __slots__ = ("_blobs", "_proto")

    def __init__(
        self,
        name: str,
        type: str = "",  # noqa: A002  # Caffe's name for it
        bottoms: Iterable[str] = (),
        tops: Iterable[str] = (),
        blobs: Iterable[Any] = (),
    ) -> None:
        self._proto = LayerParameter()
        put_texts(self._proto, "name", _as_texts("the name", [name]))
        self._blobs = LayerBlobs(name, blobs)
        self.type, self.bottoms, self.tops = type, bottoms, tops

    @classmethod
    def from_proto(cls, proto: LayerParameter, blobs: Iterable[Any] | None = None) -> Self:
        """Make a layer from a message, with all of its settings.

        Parameters
        ----------
        proto
            A LayerParameter. It is copied.
        blobs
            The weights. The default is those in the message.
        """
        advice = "layer.proto is one, and so is each of read_prototxt(path).layer"
        settings = own_copy(LayerParameter, proto, advice)
        settings.ClearField("blobs")
        if blobs is not None:
            return cls.of_own(settings, blobs)
        layer = cls.of_own(settings)
        layer.blobs.put(
            [
                Entry(Blob.from_proto(blob), any(map(blob.HasField, LEGACY_NAMES)))
                for blob in proto.blobs
            ]
        )
        return layer

    @classmethod
    def of_own(cls, proto: LayerParameter, blobs: Iterable[Any] = ()) -> Self:
        """Make a layer of a message without blobs, which is not copied."""
        layer = cls.__new__(cls)
        layer._proto = proto  # noqa: SLF001  # a field of the new layer
        layer._blobs = LayerBlobs(decode_text(proto.name), blobs)  # noqa: SLF001  # a field of the new layer
        return layer

    def __copy__(self) -> Self:
        return self.of_own(copy.deepcopy(self._proto), self._blobs)

    def __getstate__(self) -> tuple[bytes, LayerBlobs]:
        return serialise(self._proto), self._blobs

    def __setstate__(self, state: tuple[bytes, LayerBlobs]) -> None:
        settings, self._blobs = state
        self._proto = parse(LayerParameter, settings)

    def rename(self, name: str) -> None:
        """Change the name, for models, which find layers by it."""
        put_texts(self._proto, "name", _as_texts("the name", [name]))
        self._blobs.rename(name)

    @property
    def name(self) -> str:
        """The name. Change it by `ModelFile.rename`."""
        return self._blobs.layer

    @name.setter
    def name(self, value: Never) -> NoReturn:
        raise AttributeError(
            f"the name of a layer cannot be assigned, because models find layers by it; "
            f"model.rename({self.name!r}, {value!r}) changes it"
        )

    @property
    def type(self) -> str:
        """The type. Can be assigned."""
        return decode_text(self._proto.type)

    @type.setter  # noqa: A003  # the property
    def type(self, value: str) -> None:
        put_texts(self._proto, "type", filter(None, _as_texts("the type", [value])))

    @property
    def bottoms(self) -> tuple[str, ...]:
        """Names of the inputs. A list can be assigned."""
        return tuple(map(decode_text, self._proto.bottom))

    @bottoms.setter
    def bottoms(self, value: Iterable[str]) -> None:
        put_texts(self._proto, "bottom", _as_texts("bottoms", value))

    @property
    def tops(self) -> tuple[str, ...]:
        """Names of the outputs. A list can be assigned."""
        return tuple(map(decode_text, self._proto.top))

    @tops.setter
    def tops(self, value: Iterable[str]) -> None:
        put_texts(self._proto, "top", _as_texts("tops", value))

    @property
    def blobs(self) -> LayerBlobs:
        """The weights, as a mutable sequence; see `LayerBlobs`."""
        return self._blobs

    @blobs.setter
    def blobs(self, blobs: LayerBlobs) -> None:
        # Python assigns the result of ``layer.blobs += [array]``, which is the same sequence.
        if blobs is not self._blobs:
            raise AttributeError(
                "the sequence of blobs cannot be replaced; layer.blobs.assign(arrays) replaces its "
                "contents"
            )

    @property
    def proto(self) -> LayerParameter:
        """All settings, as a LayerParameter message without blobs.

        It is upgraded as Caffe does if the file has an older format. Changing it changes the layer.
        Do not change its name, which belongs to the model, or add blobs, which belong in `blobs`:
        `save_model` refuses both. ``copy.deepcopy(layer.proto)`` is independent of the layer.
        """
        return self._proto

    def require_consistent(self, read: Container[bytes] = ()) -> None:
        """Raise ValueError if the message has another name, has blobs, or lacks required fields."""
        with at_place(f"layer {self.name!r}"):
            if not self._proto.IsInitialized() and serialise(self._proto) not in read:
                require_complete(self._proto)
            if decode_text(self._proto.name) != self.name:
                raise ValueError(
                    f"expected the same name in its proto, got {self._proto.name!r}; model.rename "
                    f"changes the name of a layer, and for another layer take a copy of its "
                    f"settings: copy.deepcopy(layer.proto)"
                )
            if self._proto.blobs:
                raise ValueError(
                    f"expected no blobs in its proto, got {len(self._proto.blobs)}; put the arrays "
                    f"into layer.blobs, and clear those: layer.proto.ClearField('blobs')"
                )

    def replace_blob(self, index: int, array: Any, *, resize: bool = False) -> None:
        """Replace a blob by another array. The old Blob is not changed.

        Parameters
        ----------
        index
            The index of the blob.
        array
            A Blob, or an array of any library; see `Blob.asarray`. A list of numbers gets the dtype
            of the old Blob. Integers in place of floats raise TypeError.
        resize
            Whether the shape may change; else another one raises ValueError.
        """
        self._blobs.replace(index, array, resize=resize)

    def __repr__(self) -> str:
        shapes = ", ".join(str(blob.shape) for blob in self.blobs)
        return f"<Layer {self.name!r} {self.type or 'of no type'}, blobs: {shapes or 'none'}>"


class Entry(NamedTuple):
    """A Blob of a layer."""

    blob: Blob
    legacy: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (before_reshape(self.blob), self.blob.shape, self.legacy)


def _restore(blob: Blob, shape: Shape, legacy: bool) -> Entry:
    return Entry(blob.reshape(shape) if blob.shape != shape else blob, legacy)


class LayerBlobs(MutableSequence[Blob]):
    """The blobs of a layer. Accepts arrays of any library and returns Blobs.

    A list of numbers gets the dtype of the Blob that it replaces. An array keeps its own dtype, and
    integers in place of floats raise TypeError, because Caffe's files do not hold integers. An
    array of another shape raises ValueError; use `Layer.replace_blob` to change the shape. Writing
    into a Blob of the sequence changes the layer, and so does resizing it.

    A Blob without a name is named after its layer and its index, such as ``"conv1[0]"``. The log
    and `Blob.explain` show the name. `entries` is for this package.

    Parameters
    ----------
    layer
        The name of the layer.
    blobs
        The arrays.
    """

    __slots__ = ("entries", "layer")

    def __init__(self, layer: str, blobs: Iterable[Any] = ()) -> None:
        self.layer: str = layer
        self.put(self._entries_of(blobs))

    @overload
    def __getitem__(self, index: int) -> Blob: ...
    @overload
    def __getitem__(self, index: slice) -> list[Blob]: ...
    def __getitem__(self, index: int | slice) -> Blob | list[Blob]:
        if isinstance(index, slice):
            return [entry.blob for entry in self.entries[index]]
        return self._entry_at(index).blob

    def _entry_at(self, index: int) -> Entry:
        try:
            return self.entries[index]
        except IndexError:
            raise IndexError(
                f"layer {self.layer!r} has {len(self)} blobs, got index {index}; append adds one"
            ) from None

    def __setitem__(self, index: int | slice, value: Any) -> None:
        if isinstance(index, slice):
            raise TypeError("blobs are replaced one by one; expected an integer index, got a slice")
        self.replace(index, value)

    def __delitem__(self, index: int | slice) -> None:
        del self.entries[index]
        self._name_blobs()

    def __len__(self) -> int:
        return len(self.entries)

    def insert(self, index: int, value: Any) -> None:
        """Insert an array before a Blob."""
        self.entries.insert(index, self._entry(index, value))
        self._name_blobs()

    def assign(self, blobs: Iterable[Any]) -> None:
        """Replace all Blobs by any number of arrays of any shapes, under the rules for dtypes."""
        self.put(self._entries_of(blobs, self.entries))

    def put(self, entries: list[Entry]) -> None:
        """Replace all entries, for this package."""
        self.entries: list[Entry] = entries
        self._name_blobs()

    def rename(self, layer: str) -> None:
        """Change the name of the layer, for this package."""
        before, self.layer = self.layer, layer
        self._name_blobs(before)

    def _name_blobs(self, before: str | None = None) -> None:
        """Name the Blobs after the layer, whose name was `before`. Keep names given by the user."""
        mine = f"{escape(self.layer if before is None else before)}["
        for number, blob in enumerate(self):
            name = f"{escape(self.layer)}[{number}]" if self.layer else ""
            for memory in (blob.memory, memory_of(blob, diff=True)):
                if memory is not None and (not memory.name or memory.name.startswith(mine)):
                    memory.name = name

    def _entries_of(self, blobs: Iterable[Any], old: Sequence[Entry] = ()) -> list[Entry]:
        """Make entries from arrays. They replace the entries of `old`, one by one."""
        require_list(blobs, f"arrays as blobs of layer {self.layer!r}")
        made = [self._entry(at, blob, *old[at : at + 1]) for at, blob in enumerate(blobs)]
        return list(blobs.entries) if isinstance(blobs, LayerBlobs) else made

    def _entry(self, index: int, array: Any, old: Entry | None = None) -> Entry:
        """Make an entry of an array, which may replace another entry."""
        dtype, place = (
            None if old is None else old.blob.dtype,
            f"layer {self.layer!r}, blob {index}",
        )
        # Python numbers have no dtype.
        blob = as_named_blob(place, array, dtype if isinstance(array, (list, tuple)) else None)
        if dtype and dtype.kind not in _NO_FLOATS and blob.dtype.kind in _NO_FLOATS:
            raise TypeError(
                f"{place}: expected floats, as {dtype}, got {blob.dtype}; convert them first: "
                f"array.astype({dtype.name!r})"
            )
        was_legacy = old is not None and old.legacy and blob.ndim == LEGACY_AXES
        return Entry(blob, is_legacy(blob) or was_legacy)

    def replace(self, index: int, array: Any, *, resize: bool = False) -> None:
        """Replace a Blob by another array; see `Layer.replace_blob`."""
        old = self._entry_at(index)
        new = self._entry(index, array, old)
        if new.blob.shape != old.blob.shape and not resize:
            raise ValueError(
                f"layer {self.layer!r}, blob {index}: expected shape {old.blob.shape}, got "
                f"{new.blob.shape}; replace_blob(..., resize=True) changes the shape on purpose"
            )
        self.entries[index] = new
        self._name_blobs()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = type(self)(self.layer)
        made.put(
            [entry._replace(blob=independent_copy(entry.blob, memo)) for entry in self.entries]
        )
        return made

    def __repr__(self) -> str:
        return repr(self[:])


def as_named_blob(place: str, array: Any, dtype: DTypeLike | None = None) -> Blob:
    """Make a Blob of an array. The message of an error names the place."""
    with at_place(place):
        return Blob.asarray(array, dtype)


def _as_texts(what: str, values: Iterable[str]) -> list[str]:
    require_list(values, f"names as {what}")
    texts = list(values)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"expected strings as {what} of a layer, got {text!r}")
    return texts


def serialise(proto: Message) -> bytes:
    """Serialise a message such that equal messages give equal bytes."""
    content: bytes = proto.SerializePartialToString(deterministic=True)
    return content


def own_copy(kind: type[M], message: Any, advice: str) -> M:
    """Copy a message of any generated module into this package's class for it."""
    wanted = kind.DESCRIPTOR.name
    descriptor = getattr(message, "DESCRIPTOR", None)
    if descriptor is None or descriptor.name != wanted:
        found = type(message).__name__ if descriptor is None else descriptor.name
        raise TypeError(f"expected a {wanted} message, got {found}; {advice}")
    require_complete(message)
    return parse(kind, message.SerializePartialToString())
