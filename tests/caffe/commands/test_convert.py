"""``syncblob convert``: its output, and its errors in one line."""

import numpy as np
import pytest

import syncblob


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["no/such/folder/x.npz"], "error: no/such/folder: the folder to write to does not exist"),
        ([""], "expected a name"),
        (["x.binaryproto"], "expected a name that says the format"),
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


def test_a_note_on_names_that_caffe_does_not_find(run, tmp_path):
    layer = syncblob.Layer("conv1/7x7", blobs=[np.ones(2, "f4")])
    syncblob.save_model(syncblob.ModelFile(layers=[layer]), tmp_path / "x.caffemodel")
    done = run("convert", tmp_path / "x.caffemodel", tmp_path / "x.caffemodel.h5")
    assert "Note: Caffe does not find layers with '/' in their names" in done.out
    assert list(syncblob.open_model(tmp_path / "x.caffemodel.h5")) == ["conv1/7x7"]
