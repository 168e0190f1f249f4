"""``syncblob convert``: its output, and its errors in one line."""

import re
import sys

import numpy as np
import pytest

import syncblob
from syncblob.caffe.convert import writable_extensions


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["no/such/folder/x.npz"], "error: no/such/folder: the folder to write to does not exist"),
        ([""], "expected a name"),
        (["x.binaryproto"], "holds one array, got 4; choose a layer with one blob with --layers"),
        (["x.npz.gz"], "expected a name that says the format"),
    ],
)
def test_a_refusal_is_one_line(run, small_model, monkeypatch, arguments, reason):
    monkeypatch.chdir(small_model.parent)
    done = run("convert", small_model, *arguments)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("syncblob: error: ")
    assert reason in done.err
    assert done.err.count("\n") == 1
    assert list(small_model.parent.iterdir()) == [small_model]


@pytest.mark.parametrize("name", ["mean.npz", "mean.caffemodel", "MEAN.BinaryProto"])
def test_a_mean_is_converted_and_comes_back(run, tmp_path, name):
    values = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    path = tmp_path / "a.binaryproto"
    syncblob.write_blob(values, path)
    done = [
        run("convert", path, tmp_path / name),
        run("convert", tmp_path / name, tmp_path / "b.binaryproto"),
    ]
    assert [one.status for one in done] == [0, 0]
    # Caffe refuses a mean that does not have four axes.
    assert syncblob.read_blob(tmp_path / "b.binaryproto").tolist() == [values.tolist()]
    if name.endswith(".npz"):
        np.testing.assert_array_equal(np.load(tmp_path / name)["mean"], values)
    if not name.endswith("Proto"):
        assert run("diff", tmp_path / name, path).status == 0


def test_a_missing_library_is_one_line(run, small_model, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    target = small_model.with_name("x.safetensors")
    done = run("convert", small_model, target, "--dtype", "bfloat16")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert "this needs ml_dtypes, which is missing: pip install 'syncblob[bfloat16]'" in done.err


def test_the_help_names_every_format(run):
    done = run("convert", "--help")
    for extension in writable_extensions():
        assert re.search(rf"{re.escape(extension)}(,|$)", done.out, re.MULTILINE), extension


# --- checkpoints ---------------------------------------------------------------------------------


def test_a_note_on_names_that_caffe_does_not_find(run, tmp_path):
    layer = syncblob.Layer("conv1/7x7", blobs=[np.ones(2, "f4")])
    syncblob.save_model(syncblob.ModelFile(layers=[layer]), tmp_path / "x.caffemodel")
    done = run("convert", tmp_path / "x.caffemodel", tmp_path / "x.caffemodel.h5")
    assert "Note: Caffe does not find layers with '/' in their names" in done.out
    assert list(syncblob.open_model(tmp_path / "x.caffemodel.h5")) == ["conv1/7x7"]
