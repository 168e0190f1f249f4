"""``syncblob diff``: the differences that it shows, and the exit statuses of diff."""

import numpy as np
import pytest

from syncblob.caffe._pb.caffe_pb2 import NetParameter
from syncblob.caffe.convert import convert

_W = np.arange(6, dtype="f4").reshape(2, 3)
_B = np.array([1.0, np.nan, np.inf], "f4")


@pytest.fixture
def pair(write_model):
    """Write two models with differences of every kind."""
    changed = _W.copy()
    changed[1, 2] = 6
    before = write_model(
        ("same", "", [_W, _B]),
        ("changed", "", [_W]),
        ("reshaped", "", [_W]),
        ("removed", "", [_W]),
        ("shorter", "", [_W, _W]),
        ("relu", "ReLU", []),
        ("infinite", "", [_W]),
        name="a.caffemodel",
    )
    after = write_model(
        ("added", "", [_W]),
        ("shorter", "", [_W]),
        ("same", "", [_W, _B]),
        ("changed", "", [changed]),
        ("reshaped", "", [_W.T]),
        ("infinite", "", [np.full((2, 3), np.inf, "f4")]),
        name="b.caffemodel",
    )
    return before, after


def test_the_whole_output(run, pair):
    done = run("diff", *pair)
    assert done.status == 1
    assert done.out.splitlines() == [
        "layer     blob  status    shape             values         max  relative",
        "------------------------------------------------------------------------",
        "changed      0  changed   (2, 3)                 1           1      0.17",
        "reshaped     0  reshaped  (2, 3) -> (3, 2)       -           -         -",
        "removed      0  removed   (2, 3)                 -           -         -",
        "shorter      1  removed   (2, 3)                 -           -         -",
        "infinite     0  changed   (2, 3)                 6  not finite         -",
        "added        0  added     (2, 3)                 -           -         -",
        "",
        "1 added, 2 removed, 1 reshaped, 2 changed, 3 same",
    ]


@pytest.mark.parametrize("tolerance", ["-1", "1", "inf", "nan"])
def test_a_tolerance_is_a_share(run, small_model, tolerance):
    done = run("diff", small_model, small_model, "--tolerance", tolerance)
    assert done.status == 2
    assert "expected a --tolerance from 0 to 1" in done.err


@pytest.mark.parametrize(("tolerance", "status"), [("0", 1), ("0.09", 1), ("0.1", 0), ("0.5", 0)])
def test_a_tolerance(run, write_model, tolerance, status):
    a = write_model(("x", "", [np.array([10.0, 5.0])]), name="a.caffemodel")
    b = write_model(("x", "", [np.array([10.0, 4.0])]), name="b.caffemodel")
    assert run("diff", a, b, "--tolerance", tolerance).status == status


def test_files_of_different_formats(run, write_model, tmp_path):
    path = write_model(
        ("bn", "BatchNorm", [np.ones(2, "f4"), np.ones(2, "f4"), np.ones(1, "f4")]),
        ("relu", "ReLU", []),
        ("twice", "", [np.ones(2, "f4")]),
        ("twice", "", [np.zeros(2, "f4")]),
    )
    convert(path, tmp_path / "x.npz", dtype="float64")
    done = run("diff", path, tmp_path / "x.npz")
    assert (done.status, done.out) == (0, "0 added, 0 removed, 0 reshaped, 0 changed, 5 same\n")


def test_trouble_is_two(run, pair, tmp_path):
    for arguments in ((pair[0], tmp_path / "nowhere"), (tmp_path / "nowhere", pair[0])):
        done = run("diff", *arguments)
        assert done.status == 2
        assert done.out == ""
        assert done.err.count("\n") == 1
    damaged = tmp_path / "x.caffemodel"
    damaged.write_bytes(b"\xff" * 9)
    assert run("diff", pair[0], damaged).status == 2


def test_blobs_of_the_older_format_have_the_shapes_that_caffe_takes_them_for(
    run, write_model, tmp_path
):
    old = NetParameter()
    old.layers.add(name="a").blobs.add(num=1, channels=1, height=1, width=3, data=[1, 2, 3])
    path = tmp_path / "old.caffemodel"
    path.write_bytes(old.SerializeToString())
    new = write_model(("a", "", [np.array([1, 2, 4], "f4")]), name="new.caffemodel")
    for pair in ((path, new), (new, path)):
        done = run("diff", *pair, "--tolerance", "0.3")
        assert (done.status, done.out) == (0, "0 added, 0 removed, 0 reshaped, 0 changed, 1 same\n")
    assert "(1, 1, 1, 3) -> (3,)       1    1      0.25" in run("diff", path, new).out
    meant = write_model(("a", "", [np.array([[[[1, 2, 4]]]], "f4")]), name="meant.caffemodel")
    assert "reshaped" in run("diff", meant, new).out


def test_two_files_without_blobs_are_not_the_same(run, write_model):
    files = [write_model(("x", "ReLU", []), net=net, name=f"{net}.caffemodel") for net in "ab"]
    for arguments in (files, [files[0], files[0]]):
        done = run("diff", *arguments)
        assert (done.status, done.out) == (2, "")
        assert "a.caffemodel: expected blobs to compare, got none in this file" in done.err
    assert run("diff", files[0], write_model(("x", "", [_W]))).status == 1
