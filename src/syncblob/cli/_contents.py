"""What is in a file, whatever its format, for the commands that look at it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import syncblob
from syncblob.convert import Weights, format_of, open_weights
from syncblob.convert._caffe import as_model
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.blob import Blob
    from syncblob.caffe import ModelFile

__all__ = ["Contents", "LayerLike", "open_contents"]

_CAFFEMODEL, _SOLVER_STATE = "caffemodel", "solverstate"
_LONE = ("binaryproto", "npy")
_DESCRIPTIONS = {
    "binaryproto": "binaryproto, one blob",
    "caffemodel.h5": "caffemodel.h5, Caffe's HDF5",
    "hdf5": "HDF5",
    "npy": "npy, one array",
    "solverstate": "solverstate, the state of a solver",
    "torch": "PyTorch state_dict",
}


class LayerLike(Protocol):
    """The attributes that all kinds of layers have."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def bottoms(self) -> tuple[str, ...]: ...
    @property
    def tops(self) -> tuple[str, ...]: ...
    @property
    def blobs(self) -> Sequence[Blob]: ...


class _Blobs(NamedTuple):
    """Blobs without a layer, in the form of one."""

    blobs: tuple[Blob, ...]
    name: str = ""
    type: str = ""
    bottoms: tuple[str, ...] = ()
    tops: tuple[str, ...] = ()


class Contents(NamedTuple):
    """What was found in a file.

    Attributes
    ----------
    path, kind
        The file and its format, as ``"caffemodel"``.
    layers
        The layers; for a solver state its history as one.
    net
        The name of the net; None for a file that has none.
    version
        The format of the layers; None in files other than ``.caffemodel``.
    lone
        The Blob of a ``.binaryproto`` or ``.npy``.
    solver
        Iteration, current step and learned net of a solver state.
    source
        What was opened; None for a solver state.
    """

    path: str
    kind: str
    layers: Sequence[LayerLike] = ()
    net: str | None = None
    version: int | None = None
    lone: Blob | None = None
    solver: dict[str, int | str] | None = None
    source: ModelFile | Weights | None = None

    @property
    def description(self) -> str:
        """The format in words."""
        if self.version is not None:
            return f"{self.kind}, V{self.version} layers"
        return _DESCRIPTIONS.get(self.kind, self.kind)

    @property
    def is_net(self) -> bool:
        """Whether the layers are those of a net."""
        return self.lone is None and self.solver is None

    def as_model(self) -> ModelFile:
        """Return the layers with all that the file says about them.

        Raises
        ------
        ModelFileError
            If the file has no layers of a net, or settings of one are damaged.
        """
        if not self.is_net or self.source is None:
            raise ModelFileError(
                f"expected a file with the layers of a net, which have settings, got "
                f"{self.description}",
                path=self.path,
            )
        if isinstance(self.source, Weights):
            return as_model(self.source)
        for layer in self.source.layers:
            _ = layer.proto  # parsed before anything is printed
        return self.source

    @property
    def file_bytes(self) -> int:
        """The size of the file."""
        return Path(self.path).stat().st_size

    @property
    def places(self) -> Sequence[LayerLike]:
        """The layers; for a Blob on its own, a layer without a name that has it."""
        return self.layers if self.lone is None else [_Blobs((self.lone,))]

    @property
    def blobs(self) -> list[Blob]:
        """All blobs, in order."""
        return [blob for layer in self.places for blob in layer.blobs]

    @property
    def totals(self) -> dict[str, int]:
        """How much there is."""
        blobs = self.blobs
        return {
            "layers": len(self.layers),
            "blobs": len(blobs),
            "parameters": sum(blob.size for blob in blobs),
            "bytes": sum(blob.nbytes for blob in blobs),
        }


def open_contents(path: str) -> Contents:
    """Open a file. What it is, is seen from its contents.

    Raises
    ------
    ModelFileError, OSError, ModuleNotFoundError
        If that is not possible.
    """
    kind = format_of(path)
    if kind == _CAFFEMODEL:
        model = syncblob.open_model(path)
        return Contents(path, kind, model.layers, model.name, model.version, source=model)
    if kind == _SOLVER_STATE:
        return _solver_state(path)
    weights = open_weights(path)
    if kind in _LONE:
        return Contents(path, kind, lone=weights.only(), source=weights)
    return Contents(path, weights.kind, weights.layers, weights.name, source=weights)


def _solver_state(path: str) -> Contents:
    state = syncblob.open_solver_state(path)
    solver: dict[str, int | str] = {
        "iter": state.iter,
        "current_step": state.current_step,
        "learned_net": state.learned_net,
    }
    return Contents(path, _SOLVER_STATE, [_Blobs(state.history, "history")], solver=solver)
