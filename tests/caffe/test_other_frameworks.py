"""Files of other frameworks are none of Caffe's, though their bytes may be read as its messages."""

import pytest

import syncblob
from syncblob import Layer, ModelFile, ModelFileError
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
OTHERS = [
    ("x.onnx", "ONNX", number(1, 8) + field(2, b"pytorch") + field(7, field(1, texts(b"a")))),
    ("x.onnx", "ONNX", number(1, 3) + field(7, field(5, b"\x08\1") + field(2, b"g"))),
    ("x.pb", "TensorFlow", NODES + field(4, number(1, 24))),
    ("x.pb", "TensorFlow", NODES + field(2, field(1, texts(texts(b"f"))))),
    ("saved_model.pb", "TensorFlow", number(1, 1) + field(2, texts(field(4, b"serve"), NODES))),
    ("x.pbtxt", "TensorFlow", b'node {\n  name: "x"\n}\n'),
    ("x.tflite", "TensorFlow", b"\x1c\0\0\0TFL3" + bytes(20)),
    ("x.mlmodel", "Core ML", number(1, 1) + field(2, texts(texts(b"image"))) + field(500, b"")),
    ("x.pdmodel", "PaddlePaddle", field(1, BLOCK) + field(4, number(1, 0))),
    ("x.pb", "Caffe2", field(1, b"n") + field(2, texts(b"data", b"conv1", b"", b"Conv"))),
    ("x.PB", "Caffe2", field(2, CONSTANT) + field(2, CONSTANT)),
]


@pytest.mark.parametrize(("file", "framework", "content"), OTHERS)
def test_the_name_tells_what_it_may_be(tmp_path, file, framework, content):
    path = tmp_path / file
    path.write_bytes(content)
    for reader in (
        syncblob.open_model,
        syncblob.read_blob,
        syncblob.open_solver_state,
        open_weights,
        ModelFile(layers=[Layer("a")]).copy_trained_layers_from,
    ):
        with pytest.raises(ModelFileError, match=rf"by its name, it is .*{framework}.*\.npz with"):
            reader(path)


def test_a_net_of_caffes_may_have_any_name(tmp_path):
    path = tmp_path / "x.pb"
    path.write_bytes(field(100, field(1, b"a\x1b[0m")))
    assert list(syncblob.open_model(path)) == ["a\x1b[0m"]


@pytest.mark.parametrize(
    "content",
    [
        field(1, field(1, b"a")),
        field(1, b"net") + field(11, b"x") + number(12, 1),
        number(1, 1) + field(2, field(2, field(77, b""))),
        number(1, 7),
    ],
)
def test_messages_of_other_programs(tmp_path, content):
    path = tmp_path / "x"
    path.write_bytes(content)
    for reader in (syncblob.open_model, syncblob.open_solver_state, open_weights):
        with pytest.raises(ModelFileError, match="got a message of another program: most of its"):
            reader(path)
