"""The contents of a file of any format, for the commands that show or compare them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import syncblob
from syncblob.caffe import Layer, ModelFile
from syncblob.caffe.convert import Weights, format_of, open_weights
from syncblob.caffe.convert.caffe_models import as_model
from syncblob.caffe.convert.recognition import is_text, read_head
from syncblob.errors import ModelFileError
from syncblob.formats import Blob

_CAFFEMODEL, _SOLVER_STATE, _PROTOTXT = "caffemodel", "solverstate", "prototxt"
_LONE = ("binaryproto", "npy")
_DESCRIPTIONS = {
    "binaryproto": "binaryproto, one blob",
    "caffemodel.h5": "caffemodel.h5, Caffe's HDF5",
    "hdf5": "HDF5",
    "npy": "npy, one array",
    "prototxt": "prototxt, the definition of a net",
    "solverstate": "solverstate, the state of a solver",
    "torch": "PyTorch state_dict",
}


class Contents(NamedTuple):
    """The contents of a file.

    Attributes
    ----------
    path, kind
        The file and its format, such as ``"caffemodel"``.
    layers
        The layers; for a solver state, one layer with its history.
    net
        The name of the net; None for a file without a net.
    version
        The version of the layers; None for files other than ``.caffemodel``.
    lone
        The Blob of a ``.binaryproto`` or ``.npy``.
    solver
        The iteration, current step and learned net of a solver state, or the settings of a solver.
    source
        The opened model or weights; None for a solver state.
    shapes
        The shapes of the tops in a definition; None if they are not known, and for files of
        weights.
    no_shapes
        Why the shapes are not known.
    missing
        The tops whose shapes must be given, and why. Those that follow from them are not known.
    ignored
        What a definition has of forks: the name, the count, and the rule applied or ``""``.
    file_bytes
        The size of the file.
    unreadable
        The names of the tensors that a Blob cannot hold, and why. Their layers are left out.
    """

    path: str
    kind: str
    layers: Sequence[Layer] = ()
    net: str | None = None
    version: int | None = None
    lone: Blob | None = None
    solver: dict[str, Any] | None = None
    source: ModelFile | Weights | None = None
    shapes: dict[str, tuple[int, ...]] | None = None
    no_shapes: str = ""
    missing: Mapping[str, str] = MappingProxyType({})
    ignored: Sequence[tuple[str, int, str]] = ()
    file_bytes: int = 0
    unreadable: Mapping[str, str] = MappingProxyType({})

    @property
    def description(self) -> str:
        """The format in words."""
        if self.kind == _PROTOTXT and not self.is_net:
            return "prototxt, the definition of a solver"
        if self.version is not None:
            return f"{self.kind}, V{self.version} layers"
        return _DESCRIPTIONS.get(self.kind, self.kind)

    @property
    def is_net(self) -> bool:
        """Whether the file contains a net."""
        return self.lone is None and self.solver is None

    def as_model(self) -> ModelFile:
        """Return a model with all information about the layers in the file.

        Raises
        ------
        ModelFileError
            If the file does not contain a net, or the settings of a layer are damaged.
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

    def require_readable(self) -> None:
        """Raise ModelFileError if a tensor of the file is left out."""
        for reason in self.unreadable.values():
            raise ModelFileError(reason, path=self.path)

    @property
    def places(self) -> Sequence[Layer]:
        """The layers; for a lone Blob, an unnamed layer with that Blob."""
        return self.layers if self.lone is None else [Layer("", blobs=[self.lone])]

    @property
    def blobs(self) -> list[Blob]:
        """All blobs, in order."""
        return [blob for layer in self.places for blob in layer.blobs]

    @property
    def totals(self) -> dict[str, int]:
        """The numbers of layers, blobs and parameters, and the bytes of the weights."""
        blobs = self.blobs
        return {
            "layers": len(self.layers),
            "blobs": len(blobs),
            "parameters": sum(blob.size for blob in blobs),
            "bytes": sum(blob.nbytes for blob in blobs),
        }


def open_contents(path: str, key: str | None = None) -> Contents:
    """Open a file by its contents. `key` and the errors are those of `open_weights`."""
    kind = format_of(path)
    if key is None and kind == _CAFFEMODEL:
        model = syncblob.open_model(path)
        return Contents(path, kind, model.layers, model.name, model.version, source=model)
    if key is None and kind == _SOLVER_STATE:
        return _solver_state(path)
    weights = open_weights(path, key=key)
    if kind in _LONE:
        return Contents(path, kind, lone=weights.only(), source=weights)
    layers = [each.layer for each in weights.layers if not each.unreadable]
    return Contents(
        path, weights.kind, layers, weights.name, source=weights, unreadable=weights.unreadable
    )


def _solver_state(path: str) -> Contents:
    state = syncblob.open_solver_state(path)
    solver = {name: getattr(state, name) for name in ("iter", "current_step", "learned_net")}
    return Contents(path, _SOLVER_STATE, [Layer("history", blobs=state.history)], solver=solver)


def is_definition(path: str) -> bool:
    """Return whether a file is text, as the definitions of nets and solvers are."""
    head = read_head(path)
    return bool(head) and is_text(head)


def open_definition(
    path: str,
    phase: str | None,
    shapes: Mapping[str, Sequence[int]] | None,
    *,
    forks: bool = False,
) -> Contents:
    """Open the definition of a net or a solver, without unknown fields of Caffe's forks.

    The layers have uninitialized Blobs with the shapes of their weights.

    Parameters
    ----------
    path
        The file.
    phase
        The phase whose layers are included; None for all layers.
    shapes
        The shapes of inputs, as for `ModelFile.infer_shapes`, or of the first top of a layer, by
        its name. If None, the shapes of a net that Caffe refuses are omitted.
    forks
        Whether to apply the rules of well-known forks.

    Raises
    ------
    ModelFileError
        If the file is not a definition, or does not match the given shapes.
    OSError
        If the file cannot be read.
    """
    try:
        net = syncblob.read_prototxt(path, ignore_unknown=True, forks=forks)
    except ModelFileError as error:
        try:
            solver = syncblob.read_solver_prototxt(path, ignore_unknown=True)
        except ModelFileError:
            raise error from None
        from google.protobuf import json_format  # slow to import

        ignored = _ignored(solver)
        solver.ClearField("ignored")
        found = json_format.MessageToDict(solver, preserving_proto_field_name=True)
        return Contents(path, _PROTOTXT, solver=found, ignored=ignored)
    try:
        model = syncblob.ModelFile.from_net(net, phase=phase)
    except ValueError as error:
        raise ModelFileError(str(error), path=path) from error
    if not model.layers:
        raise ModelFileError("expected a definition, got a text without layers", path=path)
    contents = Contents(
        path, _PROTOTXT, model.layers, model.name, source=model, ignored=_ignored(net)
    )
    try:
        inferred = model.infer_shapes(_by_top(model, shapes or {}))
        # Before them is perhaps a layer for the inputs.
        weights = inferred.weights[-len(model.layers) :]
    except ValueError as error:
        if shapes is not None:
            raise ModelFileError(str(error), path=path) from error
        return contents._replace(no_shapes=str(error))
    for layer, dims in zip(model.layers, weights, strict=True):
        layer.blobs.assign(map(Blob, dims))
    return contents._replace(shapes=inferred.blobs, missing=inferred.missing)


def _ignored(definition: Any) -> list[tuple[str, int, str]]:
    return [(each.name, each.count, each.rule) for each in definition.ignored]


def _by_top(model: ModelFile, shapes: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    """Return shapes by the names of tops; those of layers stand for their first top."""
    blobs = {name for layer in model.layers for name in (*layer.bottoms, *layer.tops)}
    return {
        model[name].tops[0]
        if name not in blobs and name in model and model[name].tops
        else name: dims
        for name, dims in shapes.items()
    }
