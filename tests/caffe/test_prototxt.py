"""Definitions as text: reading and writing."""

import io
import tempfile
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from syncblob.caffe import ModelFile, read_prototxt, read_solver_prototxt, write_prototxt
from syncblob.caffe._pb.caffe_pb2 import LayerParameter, NetParameter
from syncblob.caffe.messages.string_fields import put_texts
from syncblob.errors import ModelFileError

STOCK = """
# A comment in Latin-1: \xe9
name: "stock"
input: "data"
input_shape { dim: 1 dim: 3 dim: 28 dim: 28 }
layer {
  name: 'conv1' type: "Convolution"; bottom: "data", top: "conv1"
  param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
  convolution_param {
    num_output: 20 kernel_size: [5, 5] stride: 1
    weight_filler: < type: "xavier" variance_norm: AVERAGE >
    engine: CUDNN
  }
}
layer {
  name: "loss" type: "SoftmaxWithLoss" bottom: "conv1" bottom: "label"
  include { phase: TRAIN stage: "a" }
  loss_param { ignore_label: -1 normalization: VALID }
}
"""


def test_a_definition_in_memory(text):
    net = read_prototxt(text(STOCK))
    assert read_prototxt(io.BytesIO(STOCK.encode("latin-1"))) == net
    with pytest.raises(ModelFileError, match=r"<BytesIO>.*open_model"):
        read_solver_prototxt(io.BytesIO(b"\0"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            'name: "x"\nlayer {\n  convolution_param { num_outputs: 3 }\n}',
            'line 3, column 23: Message type "ConvolutionParameter" has no field named "num_out',
        ),
        ("layer { phase: TRIAN }", 'line 1, column 16: Enum type "Phase" has no value named TRIAN'),
        ('layer { name: "x" ', 'line 1, column 15: Expected "}"'),
        ("\r\nname: 3", "line 2, column 7: Expected string but found: '3'"),
        ("layer { phase: \xff }", 'line 1, column 16: Enum type "Phase" has no value named'),
        ("layer { name: 'it' : 3 }", "line 1, column 20: Expected identifier or number, got :"),
        ("name: 'a' name: 'b'", "should not have multiple"),
        ("a" * 70_000, 'has no field named "aaa'),
        ("nope: 1", "; read_prototxt(path, ignore_unknown=True) leaves such fields and values out"),
        *(
            (f"layers {{ {setting} }}", "; write the layer as layer {}, the current one")
            for setting in ('type: "SoftmaxWithLoss"', "type: BatchNorm", "batch_norm_param { }")
        ),
    ],
)
def test_errors_say_where(text, content, message):
    path = text(content)
    with pytest.raises(ModelFileError) as caught:
        read_prototxt(path)
    assert str(caught.value).startswith(f"{path}: line ")
    assert message.removeprefix("; ") in str(caught.value)


def test_binary_files_are_told_apart(text):
    with pytest.raises(ModelFileError, match=r"byte 3: expected a network definition in text"):
        read_prototxt(text(b"\x0a\x01a\x00"))


def test_nesting_without_end(text):
    with pytest.raises(ModelFileError, match="less nesting"):
        read_prototxt(text("a { " * 50_000), ignore_unknown=True)


def test_fields_without_a_name_are_not_dropped_silently(tmp_path):
    net = NetParameter()
    net.layer.add(name="p").MergeFromString(b"\xca\x3e\x03abc")
    path = tmp_path / "net.prototxt"
    with pytest.raises(
        ValueError,
        match=r"layer 'p' has a field 1001 of a fork.*\(net, path, ignore_unknown=True\)",
    ):
        write_prototxt(net, path)
    assert not path.exists()
    write_prototxt(net, path, ignore_unknown=True)
    assert list(read_prototxt(path).layer) == [LayerParameter(name="p")]
    net = NetParameter(layer=[LayerParameter(name="p")])
    net.layer[0].input_param.shape.add().MergeFromString(b"\xc8\x3e\x01")
    with pytest.raises(ValueError, match=r"layer 'p' has a field input_param\.shape\.1001"):
        write_prototxt(net, path)


def test_messages_of_another_generated_module(tmp_path):
    file = descriptor_pb2.FileDescriptorProto(name="fork.proto", package="fork", syntax="proto2")
    net = file.message_type.add(name="NetParameter")
    net.field.add(name="name", number=1, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    fork = message_factory.GetMessageClass(pool.FindMessageTypeByName("fork.NetParameter"))
    write_prototxt(fork(name="x"), tmp_path / "x")
    assert read_prototxt(tmp_path / "x") == NetParameter(name="x")
    assert ModelFile.from_net(fork(name="x")).name == "x"


@pytest.mark.parametrize(
    ("rule", "state", "included"),
    [
        ("", {"phase": "TEST"}, True),
        ("include { phase: TEST }", {"phase": "TEST"}, True),
        ("include { phase: TRAIN }", {"phase": "TEST"}, False),
        ("include { phase: TRAIN }", {"phase": "test"}, False),
        ("include { phase: TRAIN }", {"phase": "Test"}, False),
        ("include { phase: TRAIN }", {}, True),
        ("include { phase: TRAIN } include { phase: TEST }", {"phase": "TEST"}, True),
        ("exclude { phase: TRAIN }", {"phase": "TEST"}, True),
        ("exclude { phase: TEST }", {"phase": "TEST"}, False),
        ("include { min_level: 2 }", {"phase": "TEST", "level": 1}, False),
        ("include { min_level: 2 max_level: 3 }", {"phase": "TEST", "level": 3}, True),
        ("include { max_level: 0 }", {"phase": "TEST", "level": 1}, False),
        ('include { stage: "a" stage: "b" }', {"phase": "TEST", "stages": ["b", "a"]}, True),
        ('include { stage: "a" stage: "b" }', {"phase": "TEST", "stages": ["a"]}, False),
        ('include { not_stage: "a" }', {"phase": "TEST", "stages": ["a"]}, False),
        ('include { not_stage: "a" }', {"phase": "TEST"}, True),
        # Those of the definition are added.
        ('include { stage: "mine" stage: "b" }', {"phase": "TEST", "stages": ["b"]}, True),
    ],
)
def test_layers_of_a_phase(text, rule, state, included):
    net = read_prototxt(text(f'state {{ stage: "mine" }} layer {{ name: "x" {rule} }}'))
    assert ("x" in ModelFile.from_net(net, **state)) is included


def test_rules_of_both_kinds(text):
    net = read_prototxt(text('layer { name: "x" include { } exclude { } }'))
    with pytest.raises(ValueError, match="layer 'x' has rules of both kinds"):
        ModelFile.from_net(net, phase="TEST")


@pytest.mark.parametrize("ignore_unknown", [False, True])
def test_the_definition_of_a_solver(text, ignore_unknown):
    with pytest.raises(ModelFileError, match="read_solver_prototxt that of a solver"):
        read_prototxt(text("# Adam\nbase_lr: 0.01"), ignore_unknown=ignore_unknown)
    # A field of a net that a solver has too.
    path = text('layer { name: "x" momentum: 1 }')
    with pytest.raises(ModelFileError, match=r'named "momentum"; read_prototxt\(path, ignore_unkn'):
        read_prototxt(path)


@pytest.mark.parametrize("phase", ["deploy", 1])
def test_what_is_no_phase(phase):
    with pytest.raises(ValueError, match=rf"a phase of 'TRAIN' and 'TEST'.* got {phase!r}"):
        ModelFile.from_net(NetParameter(), phase=phase)


# --- round trips ---------------------------------------------------------------------------------


@settings(max_examples=150)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.binary(max_size=5),
    st.floats(width=32, allow_nan=False),
)
def test_what_is_written_is_read(text, content, number):
    """Texts may have any characters, and in files any bytes."""
    net = NetParameter(name=text, force_backward=True, layers=[{"type": 4, "blobs_lr": [number]}])
    net.layer.add().data_param.source = text
    net.layer[0].data_param.batch_size = 2**32 - 1
    put_texts(net, "input", [content])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.prototxt")
        write_prototxt(net, path)
        assert read_prototxt(path) == net
        before = path.read_bytes()
        write_prototxt(read_prototxt(path), path)
        assert path.read_bytes() == before


SOLVER = """
net: "examples/mnist/lenet_train_test.prototxt"  # a comment
test_iter: 100 test_interval: 500
base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005
lr_policy: "multistep" stepvalue: [5000, 7000] gamma: 0.0001
snapshot_format: HDF5 solver_mode: GPU random_seed: 1701
"""


def test_a_solver(text, tmp_path):
    solver = read_solver_prototxt(text(SOLVER))
    assert (solver.net, solver.type) == ("examples/mnist/lenet_train_test.prototxt", "SGD")
    assert (solver.momentum, list(solver.stepvalue)) == (pytest.approx(0.9), [5000, 7000])
    assert (solver.snapshot_format, solver.random_seed) == (solver.HDF5, 1701)
    write_prototxt(solver, tmp_path / "again.prototxt")
    assert read_solver_prototxt(tmp_path / "again.prototxt") == solver


def test_older_solvers_are_upgraded(text):
    for old, new in ("SGD", "SGD"), ("NESTEROV", "Nesterov"), ("ADAM", "Adam"):
        solver = read_solver_prototxt(text(f"solver_type: {old}"))
        assert (solver.type, solver.HasField("solver_type")) == (new, False)


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (STOCK, {}, "read_prototxt reads the definition of a net"),
        (
            "layer { }",
            {"ignore_unknown": True},
            "expected a SolverParameter, got none of its fields; read_prototxt",
        ),
        ("base_lr: fast", {}, "line 1, column 10: "),
        ("fancy: 1", {}, r"read_solver_prototxt\(path, ignore_unknown=True\) leaves such"),
        ('type: "Adam" solver_type: ADAM', {}, "type and solver_type, got both"),
    ],
)
def test_what_is_no_solver(text, content, options, words):
    with pytest.raises(ModelFileError, match=words):
        read_solver_prototxt(text(content), **options)
