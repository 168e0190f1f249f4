"""What is in a file, whatever its format, for the commands that look at it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import syncblob
from syncblob.convert import format_of, open_weights
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.blob import Blob

__all__ = ["Contents", "LayerLike", "open_contents"]

_CAFFEMODEL = "caffemodel"
_DESCRIPTIONS = {
    "binaryproto": "binaryproto, one blob",
    "caffemodel.h5": "caffemodel.h5, Caffe's HDF5",
    "hdf5": "HDF5",
    "torch": "PyTorch state_dict",
}


class LayerLike(Protocol):
    """What all kinds of layers have."""

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
    """Blobs that are in no layer, as if they were."""

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
        The Blob of a ``.binaryproto``.
    solver
        Iteration, current step and learned net of a solver state.
    """

    path: str
    kind: str
    layers: Sequence[LayerLike] = ()
    net: str | None = None
    version: int | None = None
    lone: Blob | None = None
    solver: dict[str, int | str] | None = None

    @property
    def description(self) -> str:
        """The format in words."""
        if self.version is not None:
            return f"{self.kind}, V{self.version} layers"
        return _DESCRIPTIONS.get(self.kind, self.kind)

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
    """Open a file. A known extension is taken at its word; otherwise the contents say what it is.

    Raises
    ------
    ModelFileError, OSError, ModuleNotFoundError
        If that is not possible.
    """
    name = Path(path).name.lower()
    if name.endswith(".caffemodel"):
        return _model(path)
    if name.endswith(".binaryproto"):
        return Contents(path, "binaryproto", lone=syncblob.read_blob(path))
    if name.endswith((".solverstate", ".solverstate.h5")):
        return _solver_state(path)
    if format_of(path) != _CAFFEMODEL:
        return _weights(path)
    return _recognise(path)


def _model(path: str) -> Contents:
    model = syncblob.open_model(path)
    return Contents(path, _CAFFEMODEL, model.layers, model.name, model.version)


def _weights(path: str) -> Contents:
    weights = open_weights(path)
    return Contents(path, weights.kind, weights.layers, weights.name)


def _solver_state(path: str) -> Contents:
    from syncblob.caffe.solver_state import open_solver_state  # few need it

    state = open_solver_state(path)
    solver: dict[str, int | str] = {
        "iter": state.iter,
        "current_step": state.current_step,
        "learned_net": state.learned_net,
    }
    return Contents(path, "solverstate", [_Blobs(state.history, "history")], solver=solver)


def _recognise(path: str) -> Contents:
    """Open a file that may be a model or a blob of Caffe's."""
    model, failure = None, None
    try:
        model = _model(path)
    except ModelFileError as error:
        failure = error
    if model is not None and model.layers:
        return model
    # Nearly any bytes are a net without layers, so the blob gets its chance.
    try:
        return Contents(path, "binaryproto", lone=syncblob.read_blob(path))
    except ModelFileError as error:
        if model is not None:
            return model
        if failure is not None and failure.message == error.message:
            raise
        message = "" if failure is None else failure.message
        raise ModelFileError(
            f"neither a model ({message}) nor a blob ({error.message})", path=path
        ) from None
