"""``syncblob inspect``: its output, its reads, and files of every kind."""

import numpy as np
import pytest
from comparable_models import need_library_of

import syncblob
from syncblob import Blob, Head
from syncblob.caffe._pb.caffe_pb2 import SolverState
from syncblob.caffe.commands.inspect import _statistics
from syncblob.caffe.convert import convert
from syncblob.caffe.messages.open_file import OpenFile

# --- layers ---------------------------------------------------------------------------------------


def test_the_whole_output(run, small_model):
    done = run("inspect", small_model, "--stats")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"file    {small_model}",
        "format  caffemodel, V2 layers",
        f"size    {small_model.stat().st_size} B",
        "net     small",
        "",
        "Layers",
        "layer  type         shape         dtype    size  min  mean  max  std  non-finite",
        "--------------------------------------------------------------------------------",
        "data   Input        -             -           -    -     -    -    -           -",
        "conv1  Convolution  (2, 1, 3, 3)  float32  72 B  0.5   0.5  0.5    0           0",
        "conv1  Convolution  (2,)          float32   8 B    1     2    3    1           0",
        "bn     BatchNorm    (3,)          float64  24 B    1     1    1    0           2",
        "bn     BatchNorm    (0, 4)        float32   0 B    -     -    -    -           0",
        "",
        "3 layers, 4 blobs, 23 parameters, 104 B of weights",
    ]


@pytest.mark.parametrize("flags", [[], ["--stats"]])
def test_weights_are_read_for_statistics_only_and_not_kept(run, small_model, monkeypatch, flags):
    opened, counts = [], []
    real, read_into = syncblob.open_model, OpenFile.read_into

    def open_model(path):
        opened.append(real(path))
        return opened[-1]

    def count_and_read(file, target, offset):
        counts.append(len(target))
        read_into(file, target, offset)

    monkeypatch.setattr(syncblob, "open_model", open_model)
    monkeypatch.setattr(OpenFile, "read_into", count_and_read)
    assert run("inspect", small_model, *flags).status == 0
    blobs = [blob for layer in opened[0].layers for blob in layer.blobs]
    assert sum(counts) == sum(blob.nbytes for blob in blobs) * ("--stats" in flags)
    assert {blob.head for blob in blobs} == {Head.UNINITIALIZED}


@pytest.mark.parametrize("dtype", ["bool", "int64", "float16", "float32", "float64", "complex64"])
def test_statistics_over_several_blocks(dtype):
    values = np.random.default_rng(0).normal(3, 2, (1000, 1000)).astype(dtype)
    if values.dtype.kind in "fc":
        values[0, 0], values[-1, -1], values[2] = np.nan, np.inf, -np.inf
    real = np.abs(values) if values.dtype.kind == "c" else values.astype(np.float64)
    finite = real[np.isfinite(real)].astype(np.float64)
    expected = finite.min(), finite.mean(), finite.max(), finite.std()
    assert _statistics(Blob.asarray(values)) == {
        **dict(zip(("min", "mean", "max", "std"), (f"{one:.3g}" for one in expected), strict=True)),
        "non-finite": f"{values.size - finite.size:,}",
    }


def test_statistics_of_the_largest_doubles():
    found = _statistics(Blob.asarray(np.array([1e308, -1e308, 1e308])))
    assert (found["min"], found["max"], found["non-finite"]) == ("-1e+308", "1e+308", "0")


# --- other kinds of files -------------------------------------------------------------------------


@pytest.mark.parametrize("extension", ["safetensors", "npz", "h5", "caffemodel.h5", "pt"])
def test_files_of_other_formats(run, small_model, tmp_path, extension):
    need_library_of(extension)
    convert(small_model, tmp_path / f"x.{extension}")
    out = run("inspect", (tmp_path / f"x.{extension}").rename(tmp_path / "x")).out
    title = {
        "h5": "HDF5",
        "caffemodel.h5": "caffemodel.h5, Caffe's HDF5",
        "pt": "PyTorch state_dict",
    }
    assert f"format  {title.get(extension, extension)}\n" in out
    assert "(2, 1, 3, 3)  float32  72 B" in out
    assert "4 blobs, 23 parameters, 104 B of weights" in out
    assert ("Convolution" in out) == (extension == "safetensors")


def test_files_whose_blobs_have_no_names(run, tmp_path):
    history = [Blob.asarray(np.ones(3, "f4")).to_proto()]
    state = SolverState(iter=7, current_step=2, learned_net="x_iter_7", history=history)
    # A blob that could be a net without layers.
    scalar = Blob.asarray(np.array(1.5)).to_proto()
    for message, lines in (
        (
            state,
            ["iter          7", "learned net   x_iter_7", "history  -     (3,)   float32  12 B"],
        ),
        (scalar, ["format  binaryproto, one blob", "mean   -     ()     float64   8 B"]),
    ):
        (tmp_path / "x").write_bytes(message.SerializeToString())
        assert {*lines} <= {*run("inspect", tmp_path / "x").out.splitlines()}


# --- definitions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("extension", ["caffemodel", "safetensors"])
def test_a_definition_is_printed_without_fields_of_forks(run, tmp_path, extension):
    given, path = tmp_path / "given.prototxt", tmp_path / "x.caffemodel"
    given.write_text(
        'name: "small" layer { name: "Größe" type: "InnerProduct" bottom: "data" top: "ip"'
        " inner_product_param { num_output: 2 } }",
        encoding="utf-8",
    )
    net = syncblob.read_prototxt(given)
    model = syncblob.ModelFile.from_net(net)
    model["Größe"].blobs.append(np.ones((2, 3), "f4"))
    # Field 1000 of the net, of a layer, and of its settings.
    for message in (model.settings, model["Größe"].proto, model["Größe"].proto.inner_product_param):
        message.MergeFromString(b"\xc0\x3e\x07")
    syncblob.save_model(model, path)
    convert(path, tmp_path / f"y.{extension}")
    done = run("inspect", tmp_path / f"y.{extension}", "--prototxt")
    assert done.status == 0
    assert done.out.isascii()
    assert done.err == (
        "syncblob: note: left out are fields that Caffe does not have: 1000 (1), layer.1000 (1), "
        "layer.inner_product_param.1000 (1)\n"
    )
    (tmp_path / "printed.prototxt").write_text(done.out)
    assert syncblob.read_prototxt(tmp_path / "printed.prototxt") == net


def test_files_without_types_have_no_definition(run, tmp_path):
    syncblob.write_blob(np.ones(2, "f4"), tmp_path / "x.binaryproto")
    np.savez(tmp_path / "x.npz", a=np.ones(2))
    for name, kind in (("x.binaryproto", "binaryproto, one blob"), ("x.npz", "npz")):
        done = run("inspect", tmp_path / name, "--prototxt")
        assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
        assert f"got {kind}, of which no definition can be made" in done.err
