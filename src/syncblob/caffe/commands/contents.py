"""The contents of a file of any format, for the commands that show or compare them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import syncblob
from syncblob.caffe import Layer, ModelFile, NetParameter
from syncblob.caffe.convert import LayerWeights, Weights, format_of, open_weights
from syncblob.caffe.convert.caffe_files import of_model
from syncblob.caffe.files.file_types import BY_NAME, head_of
from syncblob.caffe.messages.fields import Shape
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.errors import ModelFileError
from syncblob.formats import Blob

_LABEL_MAP = re.compile(rb"(\s|#[^\n]*\n)*item\s*[{:]")


class Contents(NamedTuple):
    """The contents of a file: weights, and entries of ``inspect --json``."""

    weights: Weights
    """A solver state has one layer with its history; those of a definition are uninitialized."""
    version: int | None = None
    solver: Mapping[str, Any] | None = None
    shapes: Mapping[str, Shape] | None = None
    refused: str = ""
    missing: Mapping[str, str] = {}  # never changed
    ignored: str = ""

    @property
    def description(self) -> str:
        kind = self.weights.kind
        if self.version is not None:
            return f"{kind}, V{self.version} layers"
        return BY_NAME[kind].title or kind

    @property
    def is_lone(self) -> bool:
        return self.weights.kind == "binaryproto"

    @property
    def is_net(self) -> bool:
        return not self.is_lone and self.solver is None

    @property
    def layers(self) -> list[Layer]:
        """The layers, without those with a tensor that a Blob cannot hold."""
        return [each.layer for each in self.weights.layers]


def open_contents(path: str) -> Contents:
    """Open a file by its contents. The errors are those of `open_weights`."""
    kind = format_of(path)
    if kind == "caffemodel":
        model = syncblob.open_model(path)
        return Contents(of_model(model, path, kind), version=model.version)
    if kind == "solverstate":
        state = syncblob.open_solver_state(path)
        solver = {name: getattr(state, name) for name in ("iter", "current_step", "learned_net")}
        blobs = {str(number): blob for number, blob in enumerate(state.history)}
        layer = LayerWeights.of(Layer("history"), blobs)
        return Contents(Weights(path, kind, (layer,)), solver=solver)
    return Contents(open_weights(path))


def open_definition(
    path: str, phase: str | None, shapes: Mapping[str, Sequence[int]] | None, *, forks: bool = False
) -> Contents:
    """Open the definition of a net, without unknown fields of Caffe's forks."""
    ignored = ""
    try:
        net = syncblob.read_prototxt(path, forks=forks)
    except ModelFileError as error:
        net = _read_without_unknown(path, forks=forks)
        ignored = error.message.partition("; ")[0]
    try:
        model = ModelFile.from_net(net, phase=phase)
    except ValueError as error:
        raise ModelFileError(str(error), path=path) from error
    if not model.layers:
        raise ModelFileError("expected a definition, got a text without layers", path=path)
    facts: dict[str, Any] = {"ignored": ignored}
    try:
        inferred = model.infer_shapes(shapes)
    except ValueError as error:
        if shapes is not None:
            raise ModelFileError(str(error), path=path) from error
        facts["refused"] = str(error)
    else:
        # The first may be of an Input layer that the net itself implies.
        weights = inferred.weights[-len(model.layers) :]
        for layer, dims in zip(model.layers, weights, strict=True):
            layer.blobs.assign(map(Blob, dims))
        facts |= {"shapes": inferred.blobs, "missing": inferred.missing}
    return Contents(of_model(model, path, "prototxt"), **facts)


def _read_without_unknown(path: str, *, forks: bool) -> NetParameter:
    """Read a definition without unknown fields; say what another text is."""
    try:
        return syncblob.read_prototxt(path, ignore_unknown=True, forks=forks)
    except ModelFileError as error:
        message = error.message.partition("; ")[
            0
        ]  # advice on functions is of no use to users of the command
    with contextlib.suppress(ModelFileError):
        solver = syncblob.read_solver_prototxt(path, ignore_unknown=True)
        nets = [*filter(None, (solver.net, solver.train_net, *solver.test_net))]
        message = "this is the definition of a solver, not of a net" + (
            f"; that of its net is {nets[0]}" if nets else ""
        )
    if _LABEL_MAP.match(head_of(OpenFile(path))):
        message = "this is a map of labels, not the definition of a net"
    raise ModelFileError(message, path=path)
