"""Fixtures shared by the tests of Caffe's files."""

import pytest

from syncblob.caffe import save_model
from syncblob.caffe._pb.caffe_pb2 import (
    BlobProto,
    BlobShape,
    LayerParameter,
    NetParameter,
    V1LayerParameter,
)


@pytest.fixture
def write(tmp_path):
    """Write a message, or bytes, to a file and return its path."""

    def write(content, name="net.caffemodel"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
        return path

    return write


@pytest.fixture
def v2_net():
    """A net of three layers: without blobs, with two, and with one of doubles and a gradient."""
    weights = BlobProto(shape=BlobShape(dim=[2, 3]), data=range(6))
    bias = BlobProto(shape=BlobShape(dim=[2]), data=range(2))
    doubles = BlobProto(shape=BlobShape(dim=[2]), double_data=[1, 2], diff=[3, 4])
    return NetParameter(
        name="net",
        layer=[
            LayerParameter(name="data", type="Input", top=["data", "label"]),
            LayerParameter(
                name="conv1",
                type="Convolution",
                bottom=["data"],
                top=["conv1"],
                loss_weight=[1, 2],
                blobs=[weights, bias],
            ),
            LayerParameter(name="ip", type="InnerProduct", blobs=[doubles]),
        ],
    )


@pytest.fixture
def v1_net():
    """A net of the previous format. Its one blob has the four legacy dimensions."""
    types = V1LayerParameter.LayerType
    weights = BlobProto(num=1, channels=1, height=2, width=3, data=range(6))
    return NetParameter(
        name="old",
        layers=[
            V1LayerParameter(
                name="conv1", type=types.CONVOLUTION, bottom=["data"], blobs=[weights]
            ),
            V1LayerParameter(name="loss", type=types.SOFTMAX_LOSS, top=["l"]),
            V1LayerParameter(name="untyped"),
        ],
    )


@pytest.fixture
def text(tmp_path):
    """Write a definition to a file and return its path."""

    def text(content):
        path = tmp_path / "net.prototxt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode("latin-1"))
        return path

    return text


@pytest.fixture
def old_file(tmp_path):
    """A file that must stay unchanged, and the only one in its folder."""
    path = tmp_path / "old.caffemodel"
    path.write_bytes(b"old")
    yield path
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def saved(tmp_path):
    """Save a model and return the written message."""

    def saved(model, **options):
        path = tmp_path / "saved.caffemodel"
        save_model(model, path, **options)
        return NetParameter.FromString(path.read_bytes())

    return saved
