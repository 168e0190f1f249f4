"""The contents of a file of any format, for the commands that show or compare them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import syncblob
from syncblob.caffe import Layer, ModelFile
from syncblob.caffe.convert import LayerWeights, Weights, format_of, open_weights
from syncblob.caffe.convert.caffe_models import of_model
from syncblob.caffe.files.other_formats import head_of, is_text
from syncblob.caffe.messages.disk import OpenFile
from syncblob.errors import ModelFileError
from syncblob.formats import Blob

_CAFFEMODEL, _SOLVER_STATE, _PROTOTXT = "caffemodel", "solverstate", "prototxt"
_DESCRIPTIONS = {
    "binaryproto": "binaryproto, one blob",
    "caffemodel.h5": "caffemodel.h5, Caffe's HDF5",
    "hdf5": "HDF5",
    "npy": "npy, one array",
    "prototxt": "prototxt, the definition of a net",
    "solverstate": "solverstate, the state of a solver",
    "torch": "PyTorch state_dict",
}
_NO_FACTS: dict[str, Any] = {
    "version": None,
    "solver": None,
    "shapes": None,
    "refused": "",
    "missing": {},
    "ignored": [],
}


class Contents(NamedTuple):
    """The contents of a file.

    Attributes
    ----------
    weights
        Its layers. A solver state has one layer with its history; those of a definition have
        uninitialized Blobs.
    facts
        The entries of ``inspect --json`` that do not follow from these.
    """

    weights: Weights
    facts: dict[str, Any] = _NO_FACTS

    @property
    def description(self) -> str:
        """The format in words."""
        kind = self.weights.kind
        if kind == _PROTOTXT and not self.is_net:
            return "prototxt, the definition of a solver"
        if self.facts["version"] is not None:
            return f"{kind}, V{self.facts['version']} layers"
        return _DESCRIPTIONS.get(kind, kind)

    @property
    def is_lone(self) -> bool:
        """Whether the file contains one Blob without a name."""
        return self.weights.kind in {"binaryproto", "npy"}

    @property
    def is_net(self) -> bool:
        """Whether the file contains a net."""
        return not self.is_lone and self.facts["solver"] is None

    def require_net(self) -> None:
        """Raise ModelFileError if the file does not contain a net."""
        if not self.is_net:
            raise ModelFileError(
                f"expected a file with the layers of a net, which have settings, got "
                f"{self.description}",
                path=self.weights.path,
            )

    def require_readable(self) -> None:
        """Raise ModelFileError if a tensor of the file is left out."""
        for reason in self.weights.unreadable.values():
            raise ModelFileError(reason, path=self.weights.path)

    @property
    def layers(self) -> list[Layer]:
        """The layers, without those with a tensor that a Blob cannot hold."""
        return [each.layer for each in self.weights.layers if not each.unreadable]


def open_contents(path: str, key: str | None = None) -> Contents:
    """Open a file by its contents. `key` and the errors are those of `open_weights`."""
    kind = format_of(path)
    if key is None and kind == _CAFFEMODEL:
        model = syncblob.open_model(path)
        return Contents(of_model(model, path, kind), _NO_FACTS | {"version": model.version})
    if key is None and kind == _SOLVER_STATE:
        state = syncblob.open_solver_state(path)
        solver = {name: getattr(state, name) for name in ("iter", "current_step", "learned_net")}
        blobs = {str(number): blob for number, blob in enumerate(state.history)}
        weights = Weights(path, kind, [LayerWeights.of(Layer("history"), blobs)])
        return Contents(weights, _NO_FACTS | {"solver": solver})
    return Contents(open_weights(path, key=key))


def is_definition(path: str) -> bool:
    """Return whether a file is text, as the definitions of nets and solvers are."""
    head = head_of(OpenFile(path))
    return bool(head) and is_text(head)


def open_definition(
    path: str,
    phase: str | None,
    shapes: Mapping[str, Sequence[int]] | None,
    *,
    forks: bool = False,
) -> Contents:
    """Open the definition of a net or a solver, without unknown fields of Caffe's forks.

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

        facts = _NO_FACTS | {"ignored": _ignored(solver)}
        solver.ClearField("ignored")
        facts["solver"] = json_format.MessageToDict(solver, preserving_proto_field_name=True)
        return Contents(Weights(path, _PROTOTXT, ()), facts)
    try:
        model = syncblob.ModelFile.from_net(net, phase=phase)
    except ValueError as error:
        raise ModelFileError(str(error), path=path) from error
    if not model.layers:
        raise ModelFileError("expected a definition, got a text without layers", path=path)
    facts = _NO_FACTS | {"ignored": _ignored(net)}
    try:
        inferred = model.infer_shapes(_by_top(model, shapes or {}))
        # Before them is perhaps a layer for the inputs.
        weights = inferred.weights[-len(model.layers) :]
    except ValueError as error:
        if shapes is not None:
            raise ModelFileError(str(error), path=path) from error
        facts["refused"] = str(error)
    else:
        for layer, dims in zip(model.layers, weights, strict=True):
            layer.blobs.assign(map(Blob, dims))
        facts |= {"shapes": inferred.blobs, "missing": dict(inferred.missing)}
    return Contents(of_model(model, path, _PROTOTXT), facts)


def _ignored(definition: Any) -> list[dict[str, Any]]:
    return [
        {name: getattr(each, name) for name in ("name", "count", "rule")}
        for each in definition.ignored
    ]


def _by_top(model: ModelFile, shapes: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    """Return shapes by the names of tops; those of layers stand for their first top."""
    blobs = {name for layer in model.layers for name in (*layer.bottoms, *layer.tops)}
    return {
        model[name].tops[0]
        if name not in blobs and name in model and model[name].tops
        else name: dims
        for name, dims in shapes.items()
    }
