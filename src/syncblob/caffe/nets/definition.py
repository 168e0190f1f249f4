"""The settings of a layer, and the file that a net was read from.

Settings stay in the file until they are needed; from then on they are a message that can be edited.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from syncblob.caffe.messages.fields import BLOBS, LAYERS, V0_LAYER
from syncblob.caffe.messages.older_formats import upgrade_net
from syncblob.caffe.messages.texts import all_decoded, decoded, naming, put_texts, require_complete
from syncblob.caffe.messages.wire import Field, WireReader, WireType, length_field
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Self

    from google.protobuf.message import Message

    from syncblob.caffe._pb.caffe_pb2 import LayerParameter
    from syncblob.caffe.files.hdf5 import HDF5Layer
    from syncblob.caffe.files.model_index import LayerIndex
    from syncblob.caffe.messages.disk import OpenFile
    from syncblob.caffe.messages.fields import Kind

M = TypeVar("M", bound="Message")

_CURRENT = max(LAYERS)

_REQUIRES = frozenset(("Clip",))
"""The types of layers whose settings have required fields."""

_OUTLINE = ("name", "type", "bottom", "top")


@dataclass(frozen=True, slots=True)
class LayerRecord:
    """The position in a file that a layer was read from, and how many layers follow it there."""

    file: OpenFile
    index: LayerIndex
    followers: int


@dataclass(frozen=True, slots=True)
class NetRecord:
    """The file that a net was read from, and its contents there.

    Parameters
    ----------
    source
        The file; None if there is none.
    name, version
        The name of the net and the format of the layers in the file.
    claimed
        The positions in the file of the layers that the model had at first.
    rest
        The settings of the net besides name and layers, if they are in no file.
    hdf5
        The layers of an HDF5 file; None for other files.
    """

    source: OpenFile | None = None
    name: str = ""
    version: int = 2
    claimed: frozenset[int] = frozenset()
    rest: bytes = b""
    hdf5: tuple[HDF5Layer, ...] | None = None

    @property
    def message(self) -> OpenFile | None:
        """The file, if it is a message."""
        return self.source if self.hdf5 is None else None


class Definition:
    """Name, type, bottoms and tops of a layer, and its other settings.

    Once `to_edit` has returned the message, the message is authoritative: the user may change it.

    Parameters
    ----------
    name, type, bottoms, tops
        As for `Layer`.
    record
        The position of the settings in a file.
    serialised
        The settings as a LayerParameter, if they are in no file.
    """

    __slots__ = (
        "_message",
        "_messages",
        "_original",
        "_outline",
        "_serialised",
        "name",
        "record",
    )

    name: str
    record: LayerRecord | None

    def __init__(  # noqa: PLR0913  # what a layer says
        self,
        name: str,
        type: str,  # noqa: A002  # Caffe's name for it
        bottoms: Iterable[str],
        tops: Iterable[str],
        *,
        record: LayerRecord | None = None,
        serialised: bytes = b"",
    ) -> None:
        self.name = _as_text("the name", name)
        self.record = record
        self._serialised = serialised
        self._message: LayerParameter | None = None
        self._original = b""
        self._messages: list[tuple[bytes, LayerParameter]] = []
        given = {"type": type, "bottom": bottoms, "top": tops}
        self._outline = {field: _as_texts(field, value) for field, value in given.items()}

    @classmethod
    def of_message(cls, message: LayerParameter) -> Self:
        """Make a definition from a message without blobs. The message is copied."""
        return cls(
            decoded(message.name),
            decoded(message.type),
            all_decoded(message.bottom),
            all_decoded(message.top),
            serialised=message.SerializePartialToString(),
        )

    def texts(self, field: str) -> tuple[str, ...]:
        """Return the texts of the field type, of which there may be one, bottom or top."""
        return self._outline[field] if self._message is None else _texts(self._message, field)

    def put(self, field: str, value: str | Iterable[str]) -> None:
        """Set the type, or the names that are the bottoms or the tops."""
        texts = _as_texts(field, value)
        if self._message is not None:
            put_texts(self._message, field, texts)
        self._outline[field] = texts

    def rename(self, name: str) -> None:
        """Change the name."""
        name = _as_text("the name", name)
        if self._message is not None:
            put_texts(self._message, "name", [name])
        self.name = name

    # --- the message -----------------------------------------------------------------------------

    def to_edit(self) -> LayerParameter:
        """Return the message for editing. It is always the same object, and changes are saved."""
        if self._message is None:
            message = self.message()
            # If several threads parse it at once, all get the message of the first.
            self._messages.append((_settings(message), message))
            self._original, self._message = self._messages[0]
        return self._message

    def message(self) -> LayerParameter:
        """Return the message for reading.

        Raises
        ------
        ModelFileError
            If it is damaged.
        """
        from syncblob.caffe._pb.caffe_pb2 import LayerParameter  # protobuf only when needed

        if self._message is not None:
            return self._message
        if self.record is None:
            message = LayerParameter.FromString(self._serialised)
        else:
            message = self._parsed(self.record)
        if decoded(message.name) != self.name:
            put_texts(message, "name", [self.name])
        for field, texts in self._outline.items():
            if _texts(message, field) != texts:
                put_texts(message, field, texts)
        return message

    def _parsed(self, record: LayerRecord) -> LayerParameter:
        from google.protobuf.message import DecodeError  # protobuf only when needed

        try:
            return _parsed(record)
        except ModelFileError:
            raise
        # Like Caffe, the upgrade refuses some nets.
        except (DecodeError, ValueError) as error:
            raise ModelFileError(
                f"the settings of the layer are damaged ({error}); copy or download the file again",
                path=record.file.path,
                layer=self.name,
            ) from error

    @property
    def has_new_settings(self) -> bool:
        """Whether settings other than name, type, bottoms and tops have changed in the message."""
        return self._message is not None and _settings(self._message) != self._original

    def require_consistent(self) -> None:
        """Raise ValueError if the message has another name, has blobs, or lacks required fields."""
        if self._message is not None or not _REQUIRES.isdisjoint(self.texts("type")):
            with naming(f"layer {self.name!r}"):
                require_complete(self.message())
        message = self._message
        if message is None:
            return
        if decoded(message.name) != self.name:
            raise ValueError(
                f"layer {self.name!r}: expected the same name in its proto, got {message.name!r}; "
                f"model.rename changes the name of a layer, and for another layer take a copy of "
                f"its settings: copy.deepcopy(layer.proto)"
            )
        if message.blobs:
            raise ValueError(
                f"layer {self.name!r}: expected no blobs in its proto, got {len(message.blobs)}; "
                f"put the arrays into layer.blobs, and clear those: layer.proto.ClearField('blobs')"
            )

    # --- copies ----------------------------------------------------------------------------------

    def copy(self, name: str) -> Self:
        """Return an independent definition with another name."""
        made = type(self)(*self._all(), record=self.record, serialised=self._serialised)
        made._message = copy.deepcopy(self._message)
        made._original = self._original
        if name != self.name:
            made.rename(name)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy. Each of the two closes the file separately."""
        made = self.copy(self.name)
        if self.record is not None:
            made.record = replace(self.record, file=copy.deepcopy(self.record.file, memo))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message itself, since the file may be gone later."""
        serialised = self.message().SerializePartialToString()
        return partial(type(self), serialised=serialised), self._all()

    def _all(self) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
        """Return name, type, bottoms and tops."""
        return self.name, "".join(self.texts("type")), self.texts("bottom"), self.texts("top")


def _settings(message: LayerParameter) -> bytes:
    """Serialise everything in a message except name, type, bottoms, tops and blobs."""
    rest = type(message)()
    rest.CopyFrom(message)
    for field in (*_OUTLINE, "blobs"):
        rest.ClearField(field)
    serialised: bytes = rest.SerializePartialToString(deterministic=True)
    return serialised


def _texts(message: LayerParameter, field: str) -> tuple[str, ...]:
    return all_decoded(filter(None, [message.type]) if field == "type" else getattr(message, field))


def _as_text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string as {what} of a layer, got {value!r}")
    return value


def _as_texts(field: str, values: str | Iterable[str]) -> tuple[str, ...]:
    if field == "type":
        return tuple(filter(None, [_as_text("the type", values)]))
    what = f"{field}s"
    if isinstance(values, str):
        raise TypeError(
            f"expected a list of names as {what}, got the string {values!r}; put it in a list: "
            f"[{values!r}]"
        )
    texts = tuple(values)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"expected a list of names as {what}, got {text!r} among them")
    return texts


# --- messages -------------------------------------------------------------------------------------


def own_copy(kind: type[M], message: Any, advice: str) -> M:
    """Copy a message of any generated module into this package's class for it.

    The error message includes `advice`, which says how to get such a message.

    Raises
    ------
    TypeError
        If it is a message of another type, or not a message.
    ValueError
        If it lacks fields that Caffe requires.
    """
    wanted = kind.DESCRIPTOR.name
    descriptor = getattr(message, "DESCRIPTOR", None)
    if descriptor is None or descriptor.name != wanted:
        found = type(message).__name__ if descriptor is None else descriptor.name
        raise TypeError(f"expected a {wanted} message, got {found}; {advice}")
    require_complete(message)
    return kind.FromString(message.SerializeToString())


def _parsed(record: LayerRecord) -> LayerParameter:
    """Parse the settings of a layer. Those of older formats are upgraded as Caffe does."""
    from syncblob.caffe._pb.caffe_pb2 import LayerParameter, NetParameter  # only when needed

    layer = record.index
    with WireReader.of_file(record.file) as reader:
        if layer.version:
            settings = _without(reader, layer, BLOBS[layer.version])
        else:
            settings = _v0_net(reader)
    if layer.version == _CURRENT:
        return LayerParameter.FromString(settings)
    if layer.version:
        settings = length_field(LAYERS[layer.version], settings)
    net = NetParameter.FromString(settings)
    # A V0 layer is upgraded with its whole net, because padding layers before it matter.
    return upgrade_net(net).layer[-1 if layer.version else -1 - record.followers]


def _rewritten(
    reader: WireReader,
    message: Field | LayerIndex,
    changes: Mapping[Kind, Callable[[Field], bytes]],
    *,
    depth: int = 0,
) -> bytes:
    """Copy a message, replacing the fields of some kinds."""
    copied = bytearray()
    position = message.start
    for field in reader.fields(message.start, message.stop, depth=depth):
        change = changes.get((field.number, field.wire_type))
        copied += reader.read(position, field.stop) if change is None else change(field)
        position = field.stop
    return bytes(copied)


def _without(reader: WireReader, message: Field | LayerIndex, number: int) -> bytes:
    """Copy a message without one of its length-delimited fields."""
    return _rewritten(reader, message, {(number, WireType.LENGTH): _dropped})


def _v0_net(reader: WireReader) -> bytes:
    """Copy a V0 net without its blobs, and without V2 layers."""
    net = Field(0, WireType.LENGTH, 0, reader.size)
    changes: dict[Kind, Callable[[Field], bytes]] = {
        (LAYERS[0], WireType.LENGTH): lambda field: length_field(
            LAYERS[0], _v0_layer(reader, field)
        ),
        (LAYERS[2], WireType.LENGTH): _dropped,
    }
    return _rewritten(reader, net, changes)


def _v0_layer(reader: WireReader, layer: Field) -> bytes:
    changes: dict[Kind, Callable[[Field], bytes]] = {
        (V0_LAYER, WireType.LENGTH): lambda field: length_field(
            V0_LAYER, _without(reader, field, BLOBS[0])
        ),
        (BLOBS[1], WireType.LENGTH): _dropped,
    }
    return _rewritten(reader, layer, changes, depth=1)


def _dropped(_field: Field) -> bytes:
    return b""
