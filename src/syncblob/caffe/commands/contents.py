"""The contents of a file of any format, for the commands that show or compare them."""

from __future__ import annotations

from collections.abc import Sequence

import syncblob
from syncblob.caffe import Layer
from syncblob.caffe.convert import LayerWeights, Weights, format_of, open_weights
from syncblob.caffe.convert.caffe_files import of_model
from syncblob.caffe.files.file_types import BY_NAME
from syncblob.formats import Blob


def open_contents(path: str) -> tuple[Weights, dict[str, str]]:
    """Open a file by its contents, also one whose blobs have no names.

    Returns its weights, and what else there is to say, by name.
    """
    kind = format_of(path)
    if kind == "caffemodel":
        model = syncblob.open_model(path)
        return of_model(model, path, kind), {"format": f"{kind}, V{model.version} layers"}
    facts = {"format": BY_NAME[kind].title or kind}
    if kind == "solverstate":
        state = syncblob.open_solver_state(path)
        for name in ("iter", "current_step", "learned_net"):
            facts[name.replace("_", " ")] = str(getattr(state, name))
        return _layer("history", state.history, path, kind), facts
    if kind == "binaryproto":
        return _layer("mean", [syncblob.read_blob(path)], path, kind), facts
    weights = open_weights(path)
    return weights, {"format": BY_NAME[weights.kind].title or weights.kind}


def _layer(name: str, blobs: Sequence[Blob], path: str, kind: str) -> Weights:
    tensors = {f"{name}.{number}": blob for number, blob in enumerate(blobs)}
    return Weights(path, kind, (LayerWeights.of(Layer(name), tensors),))
