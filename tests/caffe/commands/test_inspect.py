"""``syncblob inspect``: its output, its reads, and unusual files."""

import re

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


def test_the_column_of_non_finite_values_comes_only_where_it_is_needed(run, write_model):
    lines = run("inspect", write_model(("conv1", "", [[1.0]])), "--stats").out.splitlines()
    assert lines[-5] == "layer  blob  min  mean  max  std"
    assert lines[-1] == "1 layer, 1 blob, 1 parameter, 8 B of weights"


def test_a_net_without_layers(run, write_model):
    done = run("inspect", write_model(), "--stats")
    assert done.status == 0
    assert not any(heading in done.out for heading in ("Layers", "Statistics"))
    assert "0 layers, 0 blobs, 0 parameters, 0 B of weights" in done.out


# --- long names and many layers ------------------------------------------------------------------

_LONG = "inception_resnet_v2_block{}_unit_bottleneck_residual_branch2a_3x3_reduce_and_relu/conv"


@pytest.fixture
def large_model(write_model):
    random = np.random.default_rng(0)
    return write_model(
        *(
            (_LONG.format(i), "Convolution", random.normal(size=(2, 16, 3, 3, 3)).astype("f4"))
            for i in range(150)
        )
    )


@pytest.mark.parametrize("columns", [80, 120])
def test_long_names_fold_on_a_terminal(terminal, large_model, columns):
    done = terminal("inspect", large_model, "--stats", columns=columns, NO_COLOR="1")
    assert done.status == 0
    lines = done.out.splitlines()
    start = lines.index("Layers") + 3
    table = lines[start : lines.index("", start)]
    assert max(map(len, lines[start:])) <= columns
    # Nothing is lost: the joined lines of the first column contain every full name.
    column = len(re.match(r"\S+\s+(?=Convolution)", table[0])[0])
    names = "".join(line[:column].strip() for line in table)
    assert names == "".join(_LONG.format(i) for i in range(150))
    sizes = "(16, 3, 3, 3)  float32  1.7 KiB"
    assert {line[column:].strip() for line in table} == {"", f"Convolution  {sizes}", sizes}
    # Numbers are not folded.
    statistics = [line.split() for line in lines[lines.index("Statistics") + 3 :]]
    assert {len(row) for row in statistics if len(row) > 1} >= {6, 5}


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
