"""The common representation of all formats: named tensors in layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from syncblob.formats import Blob

    Entry = Blob | ModelFileError

# The name of a tensor from a format without names.
_MEAN = "mean"


class _Tensors(Mapping[str, "Blob"]):
    """Tensors by name, of which a Blob cannot hold some: accessing one of these raises its error.

    So the others can be read, and a loop over all of them does not miss any in silence.
    """

    __slots__ = ("entries",)

    def __init__(self, entries: dict[str, Entry]) -> None:
        self.entries = entries

    def __getitem__(self, name: str) -> Blob:
        entry = self.entries[name]
        if isinstance(entry, ModelFileError):
            raise ModelFileError(entry.message, path=entry.path)
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return repr(self.entries)


def as_tensors(entries: dict[str, Entry]) -> Mapping[str, Blob]:
    """Return tensors by name. Accessing one that is an error raises the error."""
    if any(isinstance(entry, ModelFileError) for entry in entries.values()):
        return _Tensors(entries)
    return entries  # type: ignore[return-value]  # they are all Blobs


def _entries(tensors: Mapping[str, Blob]) -> Mapping[str, Entry]:
    return tensors.entries if isinstance(tensors, _Tensors) else tensors


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """A layer and its tensors.

    Attributes
    ----------
    name, type
        The name and the type; the type is ``""`` if the file does not contain it.
    bottoms, tops
        The names of the inputs and the outputs; empty if the file does not contain them.
    tensors
        The tensors by name, such as ``"conv1.weight"``, in the order of Caffe's blobs. Accessing
        one that a Blob cannot hold, such as one of float8, raises ModelFileError.
    definition
        The serialized LayerParameter message of Caffe, without name, type, bottom, top and blobs.
    legacy
        The names of the tensors that have num, channels, height and width, as in older formats.
    """

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    tensors: Mapping[str, Blob]
    definition: bytes = b""
    legacy: frozenset[str] = frozenset()

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """The tensors without their names."""
        return tuple(self.tensors.values())

    @property
    def unreadable(self) -> dict[str, str]:
        """The names of the tensors that a Blob cannot hold, and why."""
        return {
            name: entry.message
            for name, entry in _entries(self.tensors).items()
            if isinstance(entry, ModelFileError)
        }


class Weights:
    """The tensors of an open file, by name and by layer. Made by `open_weights`.

    The tensors are Blobs whose values are read on first access. As a context manager, it closes the
    file. Blobs that have not been accessed by then cannot be read.

    Parameters
    ----------
    path
        The file.
    kind
        Its format, such as ``"safetensors"``.
    name
        The name of the net; ``""`` if the file does not contain it.
    layers
        The layers, in the order of the file.
    settings
        The serialized NetParameter message of Caffe, without name and layers.
    close
        The function that closes the file.
    """

    __slots__ = (
        "_close",
        "described",
        "kind",
        "layers",
        "name",
        "others",
        "path",
        "settings",
        "texts",
    )

    path: str
    kind: str
    name: str
    layers: tuple[LayerWeights, ...]
    settings: bytes
    described: bool
    """Whether to write the description of the layers to files whose format supports it."""
    texts: tuple[str, ...]
    """The names of texts that the file has beside its tensors. They are not converted."""
    others: tuple[str, ...]
    """What else the file has that is not converted, in words, such as ``"the link 'a'"``."""

    def __init__(  # noqa: PLR0913  # what a file contains
        self,
        path: str,
        kind: str,
        *,
        name: str,
        layers: tuple[LayerWeights, ...],
        settings: bytes = b"",
        close: Callable[[], object],
    ) -> None:
        self.path = path
        self.kind = kind
        self.name = name
        self.layers = layers
        self.settings = settings
        self._close = close
        self.described = True
        self.texts = ()
        self.others = ()

    @classmethod
    def of_one(cls, path: str, kind: str, blob: Blob) -> Self:
        """Make weights from a single Blob without a name, usually the mean of a data set."""
        layer = LayerWeights(_MEAN, "", (), (), {_MEAN: blob})
        return cls(path, kind, name="", layers=(layer,), close=lambda: None)

    @property
    def tensors(self) -> Mapping[str, Blob]:
        """All tensors by name, layer by layer.

        Accessing one that a Blob cannot hold, such as one of float8, raises ModelFileError.
        """
        layers = [_entries(layer.tensors) for layer in self.layers]
        return as_tensors({name: entry for layer in layers for name, entry in layer.items()})

    @property
    def unreadable(self) -> dict[str, str]:
        """The names of the tensors that a Blob cannot hold, and why."""
        return {name: why for layer in self.layers for name, why in layer.unreadable.items()}

    @property
    def nbytes(self) -> int:
        """The size of all values, in bytes."""
        return sum(blob.nbytes for layer in self.layers for blob in layer.tensors.values())

    def only(self) -> Blob:
        """Return the only tensor.

        Raises
        ------
        ValueError
            If there is not exactly one.
        """
        blobs = list(self.tensors.values())
        if len(blobs) != 1:
            raise ValueError(
                f"{self.kind} holds one array, got {len(blobs)}; choose a layer with one blob with "
                f"--layers (layers=), or write a format of several, such as .npz"
            )
        return blobs[0]

    def close(self) -> None:
        """Close the file. Blobs that have been accessed keep their values."""
        self._close()

    def __enter__(self) -> Self:
        """Return the weights; their file is closed at the end of the ``with`` block."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the file."""
        self.close()

    def __repr__(self) -> str:
        """Return the path, the format and the sizes."""
        entries = _entries(self.tensors).values()
        values = sum(entry.size for entry in entries if not isinstance(entry, ModelFileError))
        return (
            f"<Weights {self.path!r}, {self.kind}: {len(self.layers)} layers, "
            f"{len(entries)} tensors, {values} values>"
        )
