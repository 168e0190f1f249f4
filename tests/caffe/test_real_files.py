"""Files written by the original Caffe, compared with the values that other programs read."""

import h5py
import numpy as np
import pytest

from syncblob.caffe import open_model
from syncblob.caffe._pb.caffe_pb2 import NetParameter
from syncblob.caffe.messages.upgrade_old_nets import V1_LAYER_TYPES
from syncblob.memory import Head

MODELS = [
    "mtcnn_det1.caffemodel",
    "mtcnn_det2.caffemodel",
    "cifar10_quick_v1.caffemodel",
    "tiny_v2.caffemodel",
]


def as_converted(values, features):
    """Arrange weights as the independent converter for TensorFlow did."""
    if values.ndim == 2 and features is not None:
        images = values.reshape(-1, *features)
        return as_converted(images, None).reshape(values.shape[::-1])
    return values.transpose(2, 3, 1, 0) if values.ndim == 4 else values.T


@pytest.mark.parametrize(
    ("name", "blobs", "features"),
    [("mtcnn_det1", 13, {}), ("mtcnn_det2", 18, {"conv4": (64, 3, 3)})],
)
def test_weights_are_bit_equal_to_an_independent_conversion(real_files, name, blobs, features):
    truth = np.load(real_files / f"{name}.npy", allow_pickle=True, encoding="latin1").item()
    net = open_model(real_files / f"{name}.caffemodel")
    assert sum(len(layer.blobs) for layer in net.layers) == blobs
    compared = 0
    layers = {layer.lower(): net[layer] for layer in net}
    for layer, arrays in truth.items():
        names = ["weights", "biases"] if "weights" in arrays else ["alpha"]
        assert set(names) == set(arrays)
        for key, blob in zip(names, layers[layer.lower()].blobs, strict=True):
            assert blob.head is Head.UNINITIALIZED
            found = as_converted(np.asarray(blob), features.get(layer))
            assert found.shape == arrays[key].shape
            assert np.ascontiguousarray(found).tobytes() == arrays[key].tobytes()
            compared += 1
    missing = 2 if name == "mtcnn_det2" else 0
    assert compared == blobs - missing


@pytest.mark.parametrize("name", MODELS)
def test_models_are_what_protobuf_finds(real_files, name):
    net = open_model(real_files / name)
    message = NetParameter.FromString((real_files / name).read_bytes())
    assert net.name == message.name
    assert net.version == (1 if message.layers else 2)
    expected = message.layers or message.layer
    assert len(net.layers) == len(expected) > 0
    for layer, proto in zip(net.layers, expected, strict=True):
        assert (layer.name, layer.bottoms, layer.tops) == (
            proto.name,
            tuple(proto.bottom),
            tuple(proto.top),
        )
        assert layer.type == (proto.type if net.version == 2 else V1_LAYER_TYPES[proto.type])
        for blob, blob_proto in zip(layer.blobs, proto.blobs, strict=True):
            assert blob.shape_equals(blob_proto)
            assert blob.cpu_data().tobytes() == np.array(blob_proto.data, "float32").tobytes()
            assert blob.to_proto().data == blob_proto.data


def test_hdf5(real_files):
    path = real_files / "cifar10_full.caffemodel.h5"
    net = open_model(path)
    assert len(net.layers) == 14
    with h5py.File(path) as file:
        assert list(net) == list(file["data"])
        for layer in net.layers:
            group = file["data"][layer.name]
            assert len(layer.blobs) == len(group)
            for number, blob in enumerate(layer.blobs):
                assert (blob.dtype, blob.head) == (np.float32, Head.UNINITIALIZED)
                assert blob.shape == group[str(number)].shape
                assert blob.cpu_data().tobytes() == group[str(number)][()].tobytes()
    assert net["conv1"].blobs[0].shape == (32, 3, 5, 5)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("mtcnn_det1.caffemodel", {"data12face": (8, 3, 12, 12), "label12face": (8, 10)}),
        ("mtcnn_det2.caffemodel", {"data24": (8, 3, 24, 24), "label24": (8, 15)}),
        ("cifar10_quick_v1.caffemodel", {"data": (100, 3, 32, 32)}),
        ("tiny_v2.caffemodel", {}),
    ],
)
def test_shapes_of_the_weights_follow_from_settings_and_input(real_files, name, shapes):
    model = open_model(real_files / name)
    found = model.infer_shapes(shapes)
    assert model.fill(shapes) == ()  # raises if a blob has a different shape
    assert list(found.params) == list(model.params)
    assert all(found.blobs[top] for layer in model.layers if layer.blobs for top in layer.tops)
