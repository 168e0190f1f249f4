"""``syncblob inspect``: its output, its reads, and unusual files."""

import numpy as np
import pytest

import syncblob
from syncblob import Blob, Head

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


@pytest.mark.parametrize(
    ("flags", "head"),
    [
        ([], Head.UNINITIALIZED),
        (["--json"], Head.UNINITIALIZED),
        (["--stats"], Head.HEAD_AT_CPU),
        (["--stats", "--json"], Head.HEAD_AT_CPU),
    ],
)
def test_weights_are_read_for_statistics_only(run, small_model, monkeypatch, flags, head):
    opened = []
    real = syncblob.open_model

    def open_model(path):
        opened.append(real(path))
        return opened[-1]

    monkeypatch.setattr(syncblob, "open_model", open_model)
    assert run("inspect", small_model, *flags).status == 0
    (seen,) = opened
    assert [blob.head for layer in seen.layers for blob in layer.blobs] == [head] * 4


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
