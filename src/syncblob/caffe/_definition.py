"""What a layer says besides its blobs: in its file until asked for, then a message to be edited."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from syncblob.caffe._settings import layer_message
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from syncblob.caffe._mapped_file import MappedFile
    from syncblob.caffe._model_index import LayerIndex
    from syncblob.caffe._pb.caffe_pb2 import LayerParameter

__all__ = ["Definition", "LayerRecord"]

_OUTLINE = ("name", "type", "bottom", "top")


@dataclass(frozen=True, slots=True)
class LayerRecord:
    """Where a layer was read from, and how many follow it there."""

    file: MappedFile
    index: LayerIndex
    followers: int


class Definition:
    """Name, type, bottoms and tops of a layer, and its settings.

    Once the message has been handed out, it is what counts.

    Parameters
    ----------
    name, type, bottoms, tops
        As for `Layer`.
    record
        Where the settings are in a file.
    serialised
        The settings as a LayerParameter, where they are in no file.

    Raises
    ------
    TypeError
        If one of them is no text, or a text where several are expected.
    """

    __slots__ = (
        "_bottoms",
        "_message",
        "_original",
        "_serialised",
        "_tops",
        "_type",
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
        self._type = _as_text("the type", type)
        self._bottoms = _as_texts("bottoms", bottoms)
        self._tops = _as_texts("tops", tops)

    @classmethod
    def of_message(cls, message: LayerParameter) -> Self:
        """Make a definition of a message without blobs, which is copied."""
        return cls(
            _decoded(message.name),
            _decoded(message.type),
            _all_decoded(message.bottom),
            _all_decoded(message.top),
            serialised=message.SerializeToString(),
        )

    @property
    def type(self) -> str:
        """The type."""
        return self._type if self._message is None else _decoded(self._message.type)

    @type.setter  # noqa: A003  # the property
    def type(self, value: str) -> None:
        value = _as_text("the type", value)
        if self._message is not None:
            _put_type(self._message, value)
        self._type = value

    @property
    def bottoms(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return self._bottoms if self._message is None else _all_decoded(self._message.bottom)

    @bottoms.setter
    def bottoms(self, value: Iterable[str]) -> None:
        texts = _as_texts("bottoms", value)
        if self._message is not None:
            self._message.bottom[:] = texts
        self._bottoms = texts

    @property
    def tops(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return self._tops if self._message is None else _all_decoded(self._message.top)

    @tops.setter
    def tops(self, value: Iterable[str]) -> None:
        texts = _as_texts("tops", value)
        if self._message is not None:
            self._message.top[:] = texts
        self._tops = texts

    def rename(self, name: str) -> None:
        """Change the name."""
        name = _as_text("the name", name)
        if self._message is not None:
            self._message.name = name
        self.name = name

    # --- the message -----------------------------------------------------------------------------

    def to_edit(self) -> LayerParameter:
        """Return the message, the same each time: what is changed in it counts."""
        if self._message is None:
            message = self.message()
            self._original = _settings(message)
            self._message = message
        return self._message

    def message(self) -> LayerParameter:
        """Return the message, to be read.

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
        if _decoded(message.name) != self.name:
            message.name = self.name
        if _decoded(message.type) != self._type:
            _put_type(message, self._type)
        if _all_decoded(message.bottom) != self._bottoms:
            message.bottom[:] = self._bottoms
        if _all_decoded(message.top) != self._tops:
            message.top[:] = self._tops
        return message

    def _parsed(self, record: LayerRecord) -> LayerParameter:
        from google.protobuf.message import DecodeError  # protobuf only when needed

        try:
            return layer_message(record.file, record.index, record.followers)
        except DecodeError as error:
            raise ModelFileError(
                f"the settings of the layer are damaged ({error}); copy or download the file again",
                path=record.file.path,
                layer=self.name,
            ) from error

    @property
    def has_new_settings(self) -> bool:
        """Whether anything but name, type, bottoms and tops was changed in the message."""
        return self._message is not None and _settings(self._message) != self._original

    def require_consistent(self) -> None:
        """Raise ValueError if there is something in the message that has its place elsewhere."""
        message = self._message
        if message is None:
            return
        if _decoded(message.name) != self.name:
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
        """Return an independent definition of another name."""
        made = type(self)(
            self.name,
            self.type,
            self.bottoms,
            self.tops,
            record=self.record,
            serialised=self._serialised,
        )
        made._message = copy.deepcopy(self._message)
        made._original = self._original
        if name != self.name:
            made.rename(name)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy; the file stays mapped for the copy on its own."""
        made = self.copy(self.name)
        if self.record is not None:
            made.record = replace(self.record, file=copy.deepcopy(self.record.file, memo))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message in place of where it is in a file."""
        serialised = self.message().SerializeToString()
        return _restored, (type(self), self.name, self.type, self.bottoms, self.tops, serialised)


def _restored(  # noqa: PLR0913, PLR0917  # what was pickled
    cls: type[Definition],
    name: str,
    kind: str,
    bottoms: tuple[str, ...],
    tops: tuple[str, ...],
    serialised: bytes,
) -> Definition:
    return cls(name, kind, bottoms, tops, serialised=serialised)


def _settings(message: LayerParameter) -> bytes:
    """Return what a message says besides name, type, bottoms, tops and blobs."""
    rest = type(message)()
    rest.CopyFrom(message)
    for field in (*_OUTLINE, "blobs"):
        rest.ClearField(field)
    serialised: bytes = rest.SerializeToString(deterministic=True)
    return serialised


def _put_type(message: LayerParameter, value: str) -> None:
    if value:
        message.type = value
    else:
        message.ClearField("type")


def _as_text(what: str, value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string as {what} of a layer, got {value!r}")
    return value


def _as_texts(what: str, values: Iterable[str]) -> tuple[str, ...]:
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


def _all_decoded(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(_decoded, texts))


def _decoded(text: str | bytes) -> str:
    """Return a text of a message, which some versions of protobuf give as bytes if it is none."""
    return text.decode(errors="surrogateescape") if isinstance(text, bytes) else text
