"""``syncblob inspect`` of definitions, with and without shapes."""

import pytest

NET = """
name: "small"
layer { name: "data" type: "HDF5Data" top: "data" top: "label" include { phase: TRAIN } }
layer { name: "in" type: "Input" top: "data" include { phase: TEST }
  input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "cut" type: "Slice" bottom: "conv" top: "a" top: "b" }
layer { name: "quiet" type: "Silence" bottom: "a" bottom: "b" }
"""


@pytest.fixture
def definition(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    return path


def test_a_net_with_shapes(run, definition, inspect_json):
    done = run("inspect", definition, "--phase", "test")
    assert (done.status, done.err) == (0, "")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert "format prototxt, the definition of a net" in lines
    assert "layer type tops blob dtype size" in lines
    assert "conv Convolution (2, 4, 6, 6) (4, 3, 3, 3) float32 432 B" in lines
    assert "conv Convolution (2, 4, 6, 6) (4,) float32 16 B" in lines
    assert "cut Slice (2, 2, 6, 6), (2, 2, 6, 6) - - -" in lines
    assert "quiet Silence - - - -" in lines
    assert lines[-1] == "5 layers, 2 blobs, 112 parameters, 448 B of weights"
    found = inspect_json(definition, "--phase", "TEST")
    assert found["shapes"]["a"] == [2, 2, 6, 6]
    assert found["layers"][1]["blobs"][0]["shape"] == [4, 3, 3, 3]


def test_layers_of_one_name_have_blobs_of_their_own(inspect_json, tmp_path):
    path = tmp_path / "net.prototxt"
    one = 'layer {{ name: "ip" type: "InnerProduct" bottom: "{}" top: "{}"'
    two = " inner_product_param {{ num_output: {} bias_term: false }} }}\n"
    path.write_text(
        'input: "data" input_dim: [1, 4, 1, 1]\n'
        + (one + two).format("data", "a", 2)
        + 'layer { name: "ip" type: "ReLU" bottom: "a" top: "a" }\n'
        + (one + two).format("a", "b", 30)
    )
    found = inspect_json(path)
    layers = [layer for layer in found["layers"] if layer["name"] == "ip"]
    assert [[blob["shape"] for blob in layer["blobs"]] for layer in layers] == [
        [[2, 4]],
        [],
        [[30, 2]],
    ]
    assert found["totals"]["parameters"] == 68


def test_shapes_that_are_given(inspect_json, definition):
    shapes = ["--shape", "data=5,3,4,4", "--shape", "label=5"]
    found = inspect_json(definition, "--phase", "TRAIN", *shapes)
    assert found["shapes"]["conv"] == [5, 4, 2, 2]


def test_a_net_without_shapes(run, inspect_json, definition):
    done = run("inspect", definition, "--phase", "TRAIN")
    assert done.status == 0
    assert "the shape of its top is in the data; give it: --shape data=..." in done.out
    assert "parameters" not in done.out
    assert inspect_json(definition)["shapes"] is None  # the layers of two phases
    found = inspect_json(definition, "--phase", "TRAIN")
    assert (found["shapes"], list(found["missing"])) == ({}, ["data", "label"])
    assert run("inspect", definition, "--prototxt").out.startswith('name: "small"')


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--stats"], "--stats: for weights, which a definition lacks"),
        (["--shape", "data=1"], "that of an earlier layer too"),
        (["--phase", "TEST", "--shape", "date=1"], "no blob 'date' in the net"),
        (
            ["--phase", "TEST", "--shape", "data=1"],
            "layer 'conv' (Convolution): axis 1 is out of range",
        ),
    ],
)
def test_what_a_definition_has_not(run, definition, arguments, words):
    done = run("inspect", definition, *arguments)
    assert (done.status, done.out) == (1, "")
    assert words in done.err


def test_options_of_definitions_for_weights_and_shapes_that_are_none(run, small_model):
    done = run("inspect", small_model, "--phase", "TEST")
    assert (done.status, "--phase: for definitions only" in done.err) == (1, True)
    done = run("inspect", small_model, "--shape", "data=1,x")
    assert (done.status, "expected a name and dimensions, as data=1,3" in done.err) == (2, True)


FORK = """
layer { name: "in" type: "Input" top: "data" input_param { shape { dim: [1, 4, 5, 5] } } }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"
  pooling_param { kernel_size: 2 stride: 2 ceil_mode: false } }
layer { name: "odd" type: "Odd" bottom: "pool" top: "odd_out" odd_param { } }
layer { name: "fc" type: "InnerProduct" bottom: "odd_out" top: "fc"
  inner_product_param { num_output: 2 } }
"""


def test_what_is_left_out_is_listed(run, inspect_json, tmp_path):
    path = tmp_path / "fork.prototxt"
    path.write_text(FORK)
    done = run("inspect", path)
    assert (done.status, done.err) == (0, "")
    assert "(1, 4, 3, 3)" in done.out
    first = 'line 4, column 44: Message type "PoolingParameter" has no field named "ceil_mode"'
    assert f"Left out is what Caffe does not have, first in {first}. --forks knows" in done.out
    assert inspect_json(path)["ignored"] == first
    done = run("inspect", path, "--prototxt")
    assert first in done.err

    done = run("inspect", path, "--forks")
    assert "(1, 4, 2, 2)" in done.out
    assert 'has no field named "odd_param"' in done.out


def test_shapes_beside_an_unknown_layer(run, inspect_json, tmp_path):
    path = tmp_path / "fork.prototxt"
    path.write_text(FORK)
    done = run("inspect", path)
    rows = [line.split() for line in done.out.splitlines()]
    assert ["odd", "Odd", "?", "-", "-", "-"] in rows
    assert "its type is not one of Caffe's; give the shape of its top: --shape odd_out=" in done.out
    assert list(inspect_json(path)["missing"]) == ["odd_out"]
    found = inspect_json(path, "--shape", "odd_out=1,3")
    assert (found["shapes"]["odd_out"], found["missing"]) == ([1, 3], {})
    assert found["layers"][3]["blobs"][0]["shape"] == [2, 3]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello\n", "line 2, column 1"),
        ("hello: 1", "x.prototxt: expected a NetParameter, got none of its fields\n"),
        ("net: 'a.prototxt'", "definition of a solver, not of a net; that of its net is a.proto"),
        ("base_lr: 1 odd: 2", "this is the definition of a solver, not of a net\n"),
        ("# VOC\nitem { name: 'a' label: 0 }", "this is a map of labels, not the definition of"),
        ('layer { name: "x" include { } exclude { } }', "rules of both kinds"),
    ],
)
def test_texts_that_are_no_definitions(run, tmp_path, text, words):
    (tmp_path / "x.prototxt").write_text(text)
    done = run("inspect", tmp_path / "x.prototxt", "--phase", "TEST")
    assert (done.status, done.out) == (1, "")
    assert words in done.err


def test_a_text_of_another_name_is_no_definition(run, tmp_path):
    (tmp_path / "README.md").write_text("# A project\n\nWhat it is.\n" * 200)
    done = run("inspect", tmp_path / "README.md")
    assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
    assert "expected a file of weights, got a text" in done.err


@pytest.mark.parametrize("dims", ["dim: -1", "dim: 4611686018427387904 dim: 4"])
def test_weights_that_no_memory_can_hold(run, tmp_path, dims):
    path = tmp_path / "x.prototxt"
    path.write_text(
        f'layer {{ name: "p" type: "Parameter" top: "p" parameter_param {{ shape {{ {dims} }} }} }}'
    )
    done = run("inspect", path)
    assert (done.status, done.err) == (0, "")
    assert "No shapes: " in done.out
