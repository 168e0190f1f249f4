"""Copies and pickles of models and layers."""

import copy
import pickle

import numpy as np
import pytest

from syncblob._blob import Blob
from syncblob.caffe import Layer, ModelFile, open_model, save_model
from syncblob.memory import Head


@pytest.fixture(params=["v2_net", "v1_net"])
def path(request, write):
    return write(request.getfixturevalue(request.param))


def blobs_of(model):
    return [blob for layer in model.layers for blob in layer.blobs]


@pytest.mark.parametrize("name", ["net.caffemodel", "net.h5"])
@pytest.mark.parametrize("touched", [False, True])
def test_a_deep_copy_is_saved_as_the_file_was(path, tmp_path, touched, name):
    model = open_model(path)
    path = tmp_path / f"first.{name}"
    save_model(model, path)
    model = open_model(path)
    if touched:
        for blob in blobs_of(model):
            blob.mutable_cpu_data()
    twin = copy.deepcopy(model)
    heads = {blob.head for blob in blobs_of(twin)}
    assert heads == {Head.HEAD_AT_CPU if touched else Head.UNINITIALIZED}
    save_model(twin, tmp_path / name)
    assert (tmp_path / name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("touched", [False, True])
def test_a_deep_copy_is_independent(path, tmp_path, touched):
    model = open_model(path)
    if touched:
        model["conv1"].blobs[0].cpu_data()
    twin = copy.deepcopy(model)
    before = model["conv1"].blobs[0].cpu_data().tolist()
    twin["conv1"].blobs[0].mutable_cpu_data()[...] = 7
    twin["conv1"].proto.convolution_param.num_output = 3
    twin.rename("conv1", "first")
    twin.name = "twin"
    assert model["conv1"].blobs[0].tolist() == before
    save_model(model, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    save_model(twin, tmp_path / "twin")
    changed = open_model(tmp_path / "twin")
    assert (changed.name, np.unique(changed["first"].blobs[0]).tolist()) == ("twin", [7])


def test_gradients_are_copied(write, v2_net, saved):
    twin = copy.deepcopy(open_model(write(v2_net)))
    assert twin["ip"].blobs[0].diff.tolist() == [3, 4]
    model = open_model(write(v2_net))
    model["ip"].blobs[0].mutable_cpu_diff()[1] = 9
    twin = copy.deepcopy(model)
    model["ip"].blobs[0].mutable_cpu_diff()[1] = 8
    assert list(saved(twin).layer[2].blobs[0].double_diff) == [3, 9]


@pytest.mark.parametrize(
    "twin_of", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]
)
@pytest.mark.parametrize("first", ["base", "view"])
def test_memory_in_two_shapes_is_shared_in_the_copy(twin_of, first):
    blob = Blob.asarray(np.arange(8, dtype=np.float32).reshape(2, 4))
    blobs = {"base": blob, "view": blob.reshape(4, 2), "row": blob[1]}
    if first == "view":
        blobs = dict(reversed(blobs.items()))
    model = ModelFile("n", [Layer(name, blobs=[each]) for name, each in blobs.items()])
    model.add(Layer("again", blobs=model["view"].blobs))
    twin = twin_of(model)
    assert twin["again"].blobs[0] is twin["view"].blobs[0]
    for name, each in blobs.items():
        assert twin[name].blobs[0].tolist() == each.tolist()
    twin["base"].blobs[0].data[...] = 9
    twin["view"].blobs[0].diff[...] = 5
    assert twin["view"].blobs[0].tolist() == [[9, 9]] * 4
    assert twin["base"].blobs[0].diff.tolist() == [[5] * 4] * 2
    assert model["base"].blobs[0].asum_data() == 28
    assert model["base"].blobs[0].asum_diff() == 0


def test_memory_of_a_file_in_two_shapes_stays_in_the_file(path, saved):
    model = open_model(path)
    blob = model["conv1"].blobs[0]
    model["conv1"].blobs.append(blob.reshape(-1))
    whole, flat = copy.deepcopy(model)["conv1"].blobs[:: len(model["conv1"].blobs) - 1]
    assert whole.memory is flat.memory is not blob.memory
    assert whole.head is Head.UNINITIALIZED
    assert saved(copy.deepcopy(model)) == saved(model)


def test_a_shallow_copy_has_layers_of_its_own(path, tmp_path):
    model = open_model(path)
    twin = copy.copy(model)
    assert blobs_of(twin) == blobs_of(model)
    del twin["conv1"]
    twin.add(Layer("new"))
    save_model(model, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_a_pickle_has_the_contents(path, saved):
    model = open_model(path)
    model["conv1"].type = "Deconvolution"
    model.settings.force_backward = True
    expected = saved(model, upgrade=True)
    pickled = pickle.dumps(model)
    model.close()
    path.unlink()
    again = pickle.loads(pickle.dumps(pickle.loads(pickled)))
    assert (again.path, again.version) == ("", 2)
    assert saved(again, write_diff=None) == without_diffs(expected)


def without_diffs(net):
    """Remove gradients. By default, only gradients that come from a file are written."""
    for layer in net.layer:
        for blob in layer.blobs:
            blob.ClearField("diff")
            blob.ClearField("double_diff")
    return net
