"""``syncblob inspect --prototxt``: the settings of the layers in a file."""

import numpy as np
import pytest

import syncblob
from syncblob.caffe.convert import convert

_DEFINITION = """
name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 } } }
layer {
  name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { lr_mult: 2 }
  convolution_param {
    num_output: 20 kernel_size: 5 kernel_size: 3 stride: 2 weight_filler { type: "xavier" }
  }
}
layer { name: "Größe" type: "Pooling" bottom: "conv1" pooling_param { pool: AVE } }
"""


@pytest.fixture
def defined_model(tmp_path):
    """Write a model with settings and, separately, its definition without weights."""
    (tmp_path / "given.prototxt").write_text(_DEFINITION, encoding="utf-8")
    model = syncblob.ModelFile.from_net(syncblob.read_prototxt(tmp_path / "given.prototxt"))
    model["conv1"].blobs.append(np.ones((2, 3), "f4"))
    path = tmp_path / "small.caffemodel"
    syncblob.save_model(model, path)
    return path


@pytest.mark.parametrize("extension", ["caffemodel", "safetensors"])
def test_a_definition(run, defined_model, tmp_path, extension):
    convert(defined_model, tmp_path / f"x.{extension}")
    done = run("inspect", tmp_path / f"x.{extension}", "--prototxt")
    assert (done.status, done.err) == (0, "")
    assert done.out.isascii()
    (tmp_path / "printed.prototxt").write_text(done.out)
    with syncblob.open_model(defined_model) as model:
        assert syncblob.read_prototxt(tmp_path / "printed.prototxt") == model.to_net()


def test_fields_that_caffe_does_not_have_are_left_out_of_a_definition(run, tmp_path):
    path = tmp_path / "x.caffemodel"
    # Field 1000 of a layer called "a", and of its convolution_param (106).
    unknown = b"\xc0\x3e\x07"
    layer = b"\x0a\x01a\x12\x01T" + unknown
    inner = b"\x0a\x01b\x12\x01T\xd2\x06\x03" + unknown
    path.write_bytes(
        b"".join(b"\xa2\x06" + bytes([len(one)]) + one for one in (layer, inner)) + unknown
    )
    done = run("inspect", path, "--prototxt")
    assert done.status == 0
    assert 'name: "a"' in done.out
    assert "1000" not in done.out
    assert done.err == (
        "syncblob: note: left out are fields that Caffe does not have: 1000 (1), layer.1000 (1), "
        "layer.convolution_param.1000 (1)\n"
    )


def test_files_without_types_have_no_definition(run, tmp_path):
    syncblob.write_blob(np.ones(2, "f4"), tmp_path / "x.binaryproto")
    np.savez(tmp_path / "x.npz", a=np.ones(2))
    for name, kind in (("x.binaryproto", "binaryproto, one blob"), ("x.npz", "npz")):
        done = run("inspect", tmp_path / name, "--prototxt")
        assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
        assert f"got {kind}, of which no definition can be made" in done.err


def test_a_definition_is_printed_alone(run, defined_model):
    done = run("inspect", defined_model, "--prototxt", "--json")
    assert done.status == 2
    assert "--json: not allowed with argument --prototxt" in done.err
