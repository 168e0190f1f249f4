"""Caffe's files: the program runs in a folder that has a model, `lenet.caffemodel`."""

import io
from pathlib import Path
from typing import assert_type

import syncblob
from syncblob import Blob, CopyReport, Layer, LayerBlobs, ModelFile, NetShapes, SolverState

with syncblob.open_model(Path("lenet.caffemodel")) as model:
    assert_type(model, ModelFile)
    assert_type(model.params["conv1"][0], Blob)
    assert_type(model["conv1"], Layer)
    assert_type(model.layers, tuple[Layer, ...])
    assert_type(list(model), list[str])
    for name, layer in model.items():
        assert_type(name, str)
        assert_type(layer.type, str)
        assert_type(layer.bottoms, tuple[str, ...])
        assert_type(layer.blobs, LayerBlobs)
        assert_type(layer.blobs[:1], list[Blob])
    weights, bias = model["conv1"].blobs
    assert_type(weights, Blob)
    assert_type(bias.diff, Blob)
    model["conv1"].blobs[1] = bias * 2
    assert_type(syncblob.save_model(model, "copy.caffemodel"), None)
    assert_type(model.copy_trained_layers_from(model), CopyReport)
    assert_type(model.to_net().name, str)

net = ModelFile("net")
assert_type(net.infer_shapes({}), NetShapes)
assert_type(net.fill({}, rng=0), tuple[str, ...])

assert_type(syncblob.write_blob(Blob((1, 3)), "mean.binaryproto"), None)
assert_type(syncblob.read_blob("mean.binaryproto"), Blob)
with Path("mean.binaryproto").open("rb") as file:
    assert_type(syncblob.read_blob(file), Blob)
assert_type(syncblob.write_blob(Blob((1, 3)), io.BytesIO()), None)
assert_type(syncblob.save_solver_state(SolverState(1), "x.solverstate"), None)
assert_type(syncblob.open_solver_state("x.solverstate").history, list[Blob])

message = Blob((2, 2)).to_proto(write_diff=True)
assert_type(list(message.shape.dim), list[int])
assert_type(Blob.from_proto(message), Blob)
assert_type(Blob.from_proto(message.SerializeToString()), Blob)
