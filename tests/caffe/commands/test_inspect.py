"""``syncblob inspect``: its output, its reads, and unusual files."""

import numpy as np
import pytest

import syncblob
from syncblob import Blob, Head
from syncblob.caffe.messages.open_file import OpenFile

# --- text output ---------------------------------------------------------------------------------


def test_statistics_are_a_table_of_their_own(run, small_model):
    done = run("inspect", small_model, "--stats")
    assert done.status == 0
    lines = done.out.splitlines()
    start = lines.index("Statistics") + 1
    assert lines[start : start + 6] == [
        "layer  blob  min  mean  max  std  non-finite",
        "--------------------------------------------",
        "conv1     0  0.5   0.5  0.5    0           0",
        "conv1     1    1     2    3    1           0",
        "bn        0    1     1    1    0           2",
        "bn        1    -     -    -    -           0",
    ]


def test_a_net_without_layers(run, write_model):
    done = run("inspect", write_model(), "--stats")
    assert done.status == 0
    assert not any(heading in done.out for heading in ("Layers", "Statistics"))
    assert "0 layers, 0 blobs, 0 parameters, 0 B of weights" in done.out


# --- reads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [[], ["--json"], ["--stats"], ["--stats", "--json"]])
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


# --- kinds of files ------------------------------------------------------------------------------


def test_a_blob_that_could_be_a_net_without_layers(inspect_json, tmp_path):
    path = tmp_path / "scalar"
    path.write_bytes(Blob.asarray(np.array(1.5)).to_proto().SerializeToString())
    found = inspect_json(path)
    assert found["format"] == "binaryproto"
    assert found["blob"] == {"shape": [], "dtype": "float64", "parameters": 1, "bytes": 8}


# --- types that the file does not contain --------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "said", "columns"),
    [
        (["", ""], "the file does not say of which types the layers are.", "layer  blob"),
        (["", "X"], "the file does not say of which types some layers are.", "layer  type  blob"),
    ],
)
def test_missing_types(run, write_model, kinds, said, columns):
    out = run("inspect", write_model(*((f"l{kind}", kind, [[1.0]]) for kind in kinds))).out
    assert said in out.lower()
    assert columns in out
    assert ("l      -     (1,)" in out) == ("X" in kinds)
