"""The contents of a file of any format, for the commands that show or compare them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import syncblob
from syncblob.caffe import Layer, ModelFile, NetParameter
from syncblob.caffe.convert import LayerWeights, Weights, format_of, open_weights
from syncblob.caffe.convert.caffe_files import of_model
from syncblob.caffe.files.file_types import head_of
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.errors import ModelFileError
from syncblob.formats import Blob

_LABEL_MAP = re.compile(rb"(\s|#[^\n]*\n)*item\s*[{:]")


Facts = dict[str, Any]
"""Entries of ``inspect --json`` besides the weights."""
_FACTS: Facts = {
    **dict.fromkeys(("version", "solver", "shapes")),
    "refused": "",
    "missing": {},
    "ignored": "",
}


def open_contents(path: str) -> tuple[Weights, Facts]:
    """Open a file by its contents; a solver state has one layer with its history."""
    kind = format_of(path)
    if kind == "caffemodel":
        model = syncblob.open_model(path)
        return of_model(model, path, kind), _FACTS | {"version": model.version}
    if kind == "solverstate":
        state = syncblob.open_solver_state(path)
        solver = {name: getattr(state, name) for name in ("iter", "current_step", "learned_net")}
        blobs = {str(number): blob for number, blob in enumerate(state.history)}
        layer = LayerWeights.of(Layer("history"), blobs)
        return Weights(path, kind, (layer,)), _FACTS | {"solver": solver}
    return open_weights(path), _FACTS


def open_definition(
    path: str, phase: str | None, shapes: Mapping[str, Sequence[int]] | None, *, forks: bool = False
) -> tuple[Weights, Facts]:
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
    facts = _FACTS | {"ignored": ignored}
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
    return of_model(model, path, "prototxt"), facts


def _read_without_unknown(path: str, *, forks: bool) -> NetParameter:
    """Read a definition without unknown fields; say what another text is."""
    try:
        return syncblob.read_prototxt(path, ignore_unknown=True, forks=forks)
    except ModelFileError as error:
        # Advice on functions is of no use to users of the command.
        message = error.message.partition("; ")[0]
    with contextlib.suppress(ModelFileError):
        solver = syncblob.read_solver_prototxt(path, ignore_unknown=True)
        nets = [*filter(None, (solver.net, solver.train_net, *solver.test_net))]
        message = "this is the definition of a solver, not of a net" + (
            f"; that of its net is {nets[0]}" if nets else ""
        )
    if _LABEL_MAP.match(head_of(OpenFile(path))):
        message = "this is a map of labels, not the definition of a net"
    raise ModelFileError(message, path=path)
