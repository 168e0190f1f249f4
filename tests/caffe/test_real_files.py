"""Files written by the original Caffe, compared with the values that other programs read."""

import numpy as np
import pytest
from caffe_agreement import check

from syncblob.caffe import open_model, read_blob
from syncblob.caffe._pb.caffe_pb2 import NetParameter
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
    path = real_files / name
    message = NetParameter.FromString(path.read_bytes())
    check("NetParameter", path.read_bytes(), path)
    net = open_model(path)
    assert (net.name, net.version) == (message.name, 1 if message.layers else 2)
    expected = message.layers or message.layer
    assert [(layer.name, layer.bottoms, layer.tops) for layer in net.layers] == [
        (proto.name, tuple(proto.bottom), tuple(proto.top)) for proto in expected
    ]


@pytest.mark.parametrize("name", ["mean_w32", "mean_7x7"])
def test_means(real_files, name):
    path = real_files / f"{name}.binaryproto"
    check("BlobProto", path.read_bytes(), path)
    assert read_blob(path).shape[:2] == (1, 3)


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
