"""One layer of a net: its settings, which stay in the file until asked for, and its blobs."""

from __future__ import annotations

from collections.abc import MutableSequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from syncblob.blob import Blob
from syncblob.caffe._settings import layer_message

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from syncblob.caffe._mapped_file import MappedFile
    from syncblob.caffe._model_index import LayerIndex
    from syncblob.caffe._pb.caffe_pb2 import LayerParameter

__all__ = ["Layer", "LayerBlobs", "LayerRecord"]


_NO_FLOATS = "biuc"


@dataclass(frozen=True, slots=True)
class LayerRecord:
    """Where a layer was read from, and how many follow it there."""

    file: MappedFile
    index: LayerIndex
    followers: int


class Layer:
    """One layer of a net.

    The name is changed by `ModelFile.rename`; other settings by replacing the layer with one made
    by `from_proto`.

    Parameters
    ----------
    name
        The name; ``""`` where a file has none.
    type
        The type, as ``"Convolution"``. V1 files number the types; the numbers are translated, and
        a number that Caffe does not know gives ``""``.
    bottoms, tops
        Names of the inputs and the outputs.
    blobs
        The weights: for a convolution the kernels, then the bias. Arrays of any library; as for
        `Blob.asarray`, their memory is taken over where that is possible.

    Raises
    ------
    TypeError
        If `bottoms` or `tops` is one string, or `blobs` one array, instead of several in a list.
    """

    __slots__ = ("_blobs", "_message", "_name", "_record", "bottoms", "tops", "type")

    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]

    def __init__(
        self,
        name: str,
        type: str = "",  # noqa: A002  # Caffe's name for it
        bottoms: Iterable[str] = (),
        tops: Iterable[str] = (),
        blobs: Iterable[Any] = (),
    ) -> None:
        self._name = name
        self.type = type
        self.bottoms = _as_names("bottoms", bottoms)
        self.tops = _as_names("tops", tops)
        self._blobs = LayerBlobs(name, blobs)
        self._record: LayerRecord | None = None
        self._message: bytes | None = None

    @classmethod
    def from_proto(cls, proto: LayerParameter, blobs: Iterable[Any] | None = None) -> Self:
        """Make a layer of a message, with all of its settings.

        Parameters
        ----------
        proto
            A LayerParameter. It is copied.
        blobs
            The weights; by default those in the message.
        """
        settings = _without_blobs(proto)
        if blobs is None:
            blobs = [Blob.from_proto(blob) for blob in proto.blobs]
        layer = cls(proto.name, proto.type, proto.bottom, proto.top, blobs)
        layer._message = settings.SerializeToString()
        return layer

    @classmethod
    def _of_file(cls, record: LayerRecord, blobs: Iterable[Blob]) -> Self:
        """Make the layer that was found in a file."""
        index = record.index
        layer = cls(index.name, index.type, index.bottoms, index.tops, blobs)
        layer._record = record
        return layer

    def _copy(self, name: str) -> Self:
        """Return a layer of another name over the same Blobs."""
        layer = type(self)(name, self.type, self.bottoms, self.tops, self._blobs)
        layer._record = self._record
        layer._message = self._message
        return layer

    def _rename(self, name: str) -> None:
        self._name = name
        self._blobs.layer = name

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def blobs(self) -> LayerBlobs:
        """The weights, as a mutable sequence; see `LayerBlobs`."""
        return self._blobs

    @property
    def proto(self) -> LayerParameter:
        """All settings, as a new LayerParameter message without blobs.

        Parsed from the file when asked for, and upgraded as Caffe does where the file is of an
        older format. Changing it changes nothing: replace the layer by one made of it.
        """
        from syncblob.caffe._pb.caffe_pb2 import LayerParameter  # protobuf only when needed

        if self._message is not None:
            message = LayerParameter.FromString(self._message)
        elif self._record is not None:
            record = self._record
            message = layer_message(record.file, record.index, record.followers)
        else:
            message = LayerParameter(type=self.type or None, bottom=self.bottoms, top=self.tops)
            message.name = self._name
        if message.name != self._name:
            message.name = self._name
        return message

    def replace_blob(self, index: int, array: Any, *, resize: bool = False) -> None:
        """Put another array in place of a blob. The old Blob is left as it is.

        Parameters
        ----------
        index
            Which blob.
        array
            A Blob, or an array of any library; see `Blob.asarray`. A list of numbers gets the
            dtype of the Blob that was there.
        resize
            Whether the shape may be another one.

        Raises
        ------
        TypeError
            If the Blob has floats, and the array has none.
        ValueError
            If the shape differs and `resize` is False.
        IndexError
            If there is no such blob.
        """
        self._blobs.replace(index, array, resize=resize)

    def __repr__(self) -> str:
        """Show name, type and the shapes of the blobs."""
        shapes = ", ".join(str(blob.shape) for blob in self.blobs)
        return f"<Layer {self.name!r} {self.type or 'of no type'}, blobs: {shapes or 'none'}>"


class LayerBlobs(MutableSequence[Blob]):
    """The blobs of a layer. Arrays of any library can be put in; they come out as Blobs.

    A list of numbers gets the dtype of the Blob that it replaces; an array keeps its own, and
    integers in place of floats raise TypeError, since Caffe's files do not hold them.
    Replacing one by an array of another shape raises ValueError; `Layer.replace_blob` does it on
    purpose. Writing into a Blob that is in the sequence changes the layer too.

    Parameters
    ----------
    layer
        The name of the layer, for error messages.
    blobs
        The arrays.
    """

    __slots__ = ("_blobs", "layer")

    def __init__(self, layer: str, blobs: Iterable[Any] = ()) -> None:
        self.layer: str = layer
        self._blobs = self._made_of(blobs)

    @overload
    def __getitem__(self, index: int) -> Blob: ...
    @overload
    def __getitem__(self, index: slice) -> list[Blob]: ...
    def __getitem__(self, index: int | slice) -> Blob | list[Blob]:
        """Return a Blob, or a list of them."""
        return self._blobs[index]

    def __setitem__(self, index: int | slice, value: Any) -> None:
        """Put an array of the same shape in place of a Blob."""
        if isinstance(index, slice):
            raise TypeError("blobs are replaced one by one; expected an integer index, got a slice")
        self.replace(index, value)

    def __delitem__(self, index: int | slice) -> None:
        """Remove a Blob."""
        del self._blobs[index]

    def __len__(self) -> int:
        """Return the number of Blobs."""
        return len(self._blobs)

    def insert(self, index: int, value: Any) -> None:
        """Put an array in front of a Blob."""
        self._blobs.insert(index, Blob.asarray(value))

    def assign(self, blobs: Iterable[Any]) -> None:
        """Put other arrays in place of all Blobs, of any number and shapes."""
        self._blobs = self._made_of(blobs)

    def _made_of(self, blobs: Iterable[Any]) -> list[Blob]:
        if hasattr(blobs, "shape"):
            raise TypeError(
                f"layer {self.layer!r}: expected a list of arrays as blobs, got one array of shape "
                f"{tuple(blobs.shape)}; put it in a list: [array]"
            )
        return [Blob.asarray(blob) for blob in blobs]

    def replace(self, index: int, array: Any, *, resize: bool = False) -> None:
        """Put another array in place of a Blob; see `Layer.replace_blob`."""
        if not -len(self._blobs) <= index < len(self._blobs):
            raise IndexError(
                f"layer {self.layer!r} has {len(self._blobs)} blobs, got index {index}; "
                f"append adds one"
            )
        old = self._blobs[index]
        # Numbers of Python have no dtype of their own.
        blob = Blob.asarray(array, old.dtype if isinstance(array, (list, tuple)) else None)
        if blob.dtype.kind in _NO_FLOATS and old.dtype.kind not in _NO_FLOATS:
            raise TypeError(
                f"layer {self.layer!r}, blob {index}: expected floats, as {old.dtype}, got "
                f"{blob.dtype}; convert them first: array.astype({old.dtype.name!r})"
            )
        expected = old.shape
        if blob.shape != expected and not resize:
            raise ValueError(
                f"layer {self.layer!r}, blob {index}: expected shape {expected}, got {blob.shape}; "
                f"replace_blob(..., resize=True) changes the shape on purpose"
            )
        self._blobs[index] = blob

    def __repr__(self) -> str:
        """Show the Blobs."""
        return repr(self._blobs)


def _as_names(what: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(
            f"expected a list of names as {what}, got the string {names!r}; put it in a list: "
            f"[{names!r}]"
        )
    return tuple(names)


def _without_blobs(proto: LayerParameter) -> LayerParameter:
    from syncblob.caffe._pb.caffe_pb2 import LayerParameter  # protobuf only when needed

    if proto.DESCRIPTOR.name != LayerParameter.DESCRIPTOR.name:
        raise TypeError(f"expected a LayerParameter message, got {proto.DESCRIPTOR.name}")
    settings = LayerParameter()
    # Through bytes, because it may be of another generated module.
    settings.ParseFromString(proto.SerializeToString())
    settings.ClearField("blobs")
    return settings
