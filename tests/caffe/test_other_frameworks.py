"""Files of other frameworks are none of Caffe's, though their bytes may be read as its messages."""

import pytest

import syncblob
from syncblob import Layer, ModelFile, ModelFileError
from syncblob.caffe._pb.caffe_pb2 import NetParameter
from syncblob.caffe.convert import open_weights
from syncblob.caffe.messages.wire import length_field as field
from syncblob.caffe.messages.wire import varint


def number(tag, value):
    return varint(tag << 3) + varint(value)


def texts(*words):
    """Return a message of texts in the fields 1, 2, 3 …; an empty one is left out."""
    return b"".join(field(at, word) for at, word in enumerate(words, 1) if word)


NODES = field(1, texts(b"x", b"Placeholder")) + field(1, texts(b"y", b"Relu", b"x"))
BLOCK = number(1, 0) + number(2, 2**64 - 1) + field(3, texts(b"feed"))
CONSTANT = field(2, b"w") + field(4, b"GivenTensorFill") + field(5, texts(b"shape"))
OTHERS = {
    "ONNX": number(1, 8) + field(2, b"pytorch") + field(7, field(1, texts(b"a")) + field(2, b"g")),
    "ONNX of one part": number(1, 3) + field(7, field(5, b"\x08\1") + field(2, b"g")),
    "TensorFlow (GraphDef)": NODES + field(4, number(1, 24)),
    "TensorFlow (GraphDef) with functions": NODES + field(2, field(1, texts(texts(b"f")))),
    "TensorFlow (SavedModel)": number(1, 1) + field(2, texts(field(4, b"serve"), NODES)),
    "text (.pbtxt)": b'node {\n  name: "x"\n}\n',
    "TensorFlow Lite": b"\x1c\0\0\0TFL3" + bytes(20),
    "Core ML": number(1, 1) + field(2, texts(texts(b"image"))) + field(500, texts(texts(b"c"))),
    "PaddlePaddle": field(1, BLOCK) + field(4, number(1, 0)),
    "Caffe2 (NetDef)": field(1, b"n") + field(2, texts(b"data", b"conv1", b"", b"Conv")),
    "Caffe2 (NetDef) with weights": field(2, CONSTANT) + field(2, CONSTANT),
    "MXNet": b"\x12\1" + bytes(14) + b"\1\0\0\0",
    "MXNet's (.json)": b'{\n  "nodes": [\n    {"op": "null", "name": "data"}]}',
    "MNN": b"\x18\0\0\0" + bytes(20),
    "ncnn": b"7767517\n1 1\nInput data 0 1 data\n",
    "ncnn's": b"\xdd\x85\x76\0" + bytes(20),
    "Darknet": b"\0\0\0\0\2\0\0\0\5\0\0\0" + bytes(20),
    "Darknet's (.cfg)": b"[net]\nbatch=1\n[convolutional]\nfilters=16\n",
    "MATLAB": b"MATLAB 5.0 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\1IM" + bytes(20),
}


@pytest.fixture(params=OTHERS)
def other(request, tmp_path):
    path = tmp_path / ("net.mnn" if request.param == "MNN" else "net.pb")
    path.write_bytes(OTHERS[request.param])
    return path, request.param.partition(" with ")[0].partition(" of ")[0]


def test_what_it_is(other):
    path, name = other
    for reader in (
        syncblob.open_model,
        syncblob.read_blob,
        syncblob.open_solver_state,
        open_weights,
        ModelFile(layers=[Layer("a")]).copy_trained_layers_from,
    ):
        with pytest.raises(ModelFileError) as caught:
            reader(path)
        assert name in str(caught.value)
        assert "not a file of Caffe's; save its weights as .safetensors" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (field(1, b"net") * 500, "it has 500 names"),
        (field(1, field(1, b"a")), "its name is a message"),
        (field(2, field(77, b"x")) * 3, "none of its layers is one of Caffe's"),
        (field(100, number(3, 1)), "none of its layers is one of Caffe's"),
        (field(1, b"net") + field(11, b"x") + number(12, 1), "most of its fields are unknown"),
        (number(1, 1) + field(2, field(2, field(77, b""))), "its name is a message"),
    ],
)
def test_what_speaks_against_a_message_of_caffes(tmp_path, content, why):
    path = tmp_path / "x"
    path.write_bytes(content)
    for reader in (syncblob.open_model, syncblob.open_solver_state, open_weights):
        with pytest.raises(ModelFileError, match=f"got a message of another program: {why}"):
            reader(path)


@pytest.mark.parametrize(
    "content",
    [
        field(1, b"\x0a\x01") + field(100, field(1, b"a\x1b[0m")),
        field(2, field(2, b"data") + field(4, b"conv") + number(5, 4)) + field(1, b"net"),
        field(2, field(4, b"conv") + field(6, number(1, 0))),
        field(1, b"a\n\tb"),
        field(1, b"x") * 3,
        field(2, field(3, b"top")),
        field(2, b""),
    ],
)
def test_what_does_not(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    model = syncblob.open_model(tmp_path / "x")
    assert len(model.layers) == len(NetParameter.FromString(content).layers) or model["a\x1b[0m"]


@pytest.mark.parametrize("name", ["", "net", "a\nb", "\n\x01a", "\n\x01a\x12\x01b", "\x08\x01"])
@pytest.mark.parametrize("layers", [[], [Layer("a")]])
def test_what_is_written_is_read_or_refused_before(tmp_path, name, layers):
    path = tmp_path / "x.caffemodel"
    model = ModelFile(name, layers)
    model.settings.MergeFromString(field(1001, b"of a fork"))
    if not layers and name.startswith(("\n", "\x08")):
        with pytest.raises(ValueError, match="this model could not be opened again"):
            syncblob.save_model(model, path)
        assert not path.exists()
    else:
        syncblob.save_model(model, path)
        assert syncblob.open_model(path).name == name
