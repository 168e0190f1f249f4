"""The naming convention, in both directions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncblob import Layer, ModelFile, open_model
from syncblob.caffe.convert import from_tensors, to_tensors
from syncblob.caffe.convert.naming import group_names, name_tensors


@pytest.mark.parametrize(
    ("kind", "count", "names"),
    [
        ("Convolution", 1, ["x.weight"]),
        ("Convolution", 2, ["x.weight", "x.bias"]),
        ("", 2, ["x.weight", "x.bias"]),
        ("LSTM", 3, ["x.0", "x.1", "x.2"]),
        ("BatchNorm", 3, ["x.mean", "x.variance", "x.scale_factor"]),
        ("BatchNorm", 5, ["x.0", "x.1", "x.2", "x.3", "x.4"]),
        ("Bias", 1, ["x.bias"]),
        ("ReLU", 0, []),
    ],
)
def test_names_of_the_blobs_of_a_layer(kind, count, names):
    assert name_tensors([("x", kind, count)]) == [names]


def test_layers_of_one_name_get_numbers():
    layers = [("x", "", 1), ("x", "", 0), ("x", "", 1), ("x", "LSTM", 3), ("x#2", "", 1)]
    assert name_tensors(layers) == [
        ["x.weight"],
        [],
        ["x#2.weight"],
        ["x.0", "x.1", "x.2"],
        ["x#2#2.weight"],
    ]


@pytest.mark.parametrize(
    ("names", "layers"),
    [
        (["a.bias", "a.weight"], [("a", "", ["a.weight", "a.bias"])]),
        (["a.x", "a.0", "a.bias", "a.weight"], [("a", "", ["a.weight", "a.bias", "a.0", "a.x"])]),
        (["a.x", "a.9999999"], [("a", "", ["a.9999999", "a.x"])]),
        (["a.10", "a.9"], [("a", "", ["a.9", "a.10"])]),
        (["a.b.weight", "a.c"], [("a.b", "", ["a.b.weight"]), ("a", "", ["a.c"])]),
        (["alone"], [("alone", "", ["alone"])]),
        (["a.x", "a.weight", "a"], [("a", "", ["a", "a.weight", "a.x"])]),
        (["b.weight", "a.weight"], [("b", "", ["b.weight"]), ("a", "", ["a.weight"])]),
        (
            ["n.scale_factor", "n.variance", "n.mean"],
            [("n", "BatchNorm", ["n.mean", "n.variance", "n.scale_factor"])],
        ),
        ([".weight"], [("", "", [".weight"])]),
    ],
)
def test_layers_that_names_tell(names, layers):
    assert group_names(names) == layers


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "a.b", "a#2", ""]),
            st.sampled_from(["", "BatchNorm", "Bias", "LSTM"]),
            st.integers(0, 12),
        )
    )
)
def test_no_two_tensors_have_one_name_and_layers_are_found_again(layers):
    named = name_tensors(layers)
    assert [len(names) for names in named] == [count for _, _, count in layers]
    flat = [name for names in named for name in names]
    assert len(set(flat)) == len(flat)
    groups = {name: layer for layer, _, names in group_names(flat) for name in names}
    for names in named:
        assert len({groups[name] for name in names}) <= 1
        assert [name for name in flat if name in names] == names


def test_a_model_as_a_dictionary_and_back():
    weights, bias = np.ones((2, 3), np.float32), np.zeros(2, np.float32)
    model = ModelFile("n", [Layer("ip", "InnerProduct", blobs=[weights, bias]), Layer("relu")])
    tensors = to_tensors(model)
    assert list(tensors) == ["ip.weight", "ip.bias"]
    assert tensors["ip.weight"] is model["ip"].blobs[0], "nothing is copied"
    back = from_tensors(dict(reversed(tensors.items())), name="n")
    assert list(back) == ["ip"]
    assert [blob.shape for blob in back["ip"].blobs] == [(2, 3), (2,)]


def test_axes_of_the_older_formats_are_left_out_on_demand():
    layers = [
        Layer("conv", "Convolution", blobs=[np.ones((1, 1, 1, 1)), np.ones((1, 1, 1, 2))]),
        Layer("ip", "InnerProduct", blobs=[np.ones((1, 1, 2, 3)), np.ones((1, 1, 1, 2))]),
        Layer("other", "Mystery", blobs=[np.ones((1, 1, 1, 2))]),
        Layer("odd", "InnerProduct", blobs=[np.ones((1, 2, 2, 3)), np.ones(2)]),
    ]
    model = ModelFile("n", layers)
    squeezed = to_tensors(model, squeeze=True)
    assert [blob.shape for blob in squeezed.values()] == [
        (1, 1, 1, 1),
        (2,),
        (2, 3),
        (2,),
        (1, 1, 1, 2),
        (1, 2, 2, 3),
        (2,),
    ]
    assert [blob.ndim for blob in to_tensors(model).values()] == [4, 4, 4, 4, 4, 4, 1]
    squeezed["ip.weight"][0, 0] = 5
    assert model["ip"].blobs[0].data_at(0, 0, 0, 0) == 5
    assert squeezed["other.weight"] is model["other"].blobs[0]


def test_a_real_file_of_the_older_format_in_modules(real_files):
    torch = pytest.importorskip("torch")
    model = open_model(real_files / "cifar10_quick_v1.caffemodel")
    state = {name: blob.to_torch() for name, blob in to_tensors(model, squeeze=True).items()}
    weights = state["ip1.weight"]
    module = torch.nn.Sequential()
    module.ip1 = torch.nn.Linear(weights.shape[1], weights.shape[0])
    module.conv1 = torch.nn.Conv2d(3, 32, 5)
    module.load_state_dict({name: state[name] for name in module.state_dict()})


def test_a_scale_of_two_bottoms_only_has_a_bias():
    layer = Layer("s", "Scale", ["x", "factors"], ["y"], blobs=[np.ones(3)])
    layer.proto.scale_param.bias_term = True
    other = Layer("t", "Scale", ["x"], ["y"], blobs=[np.ones(3)])
    assert list(to_tensors(ModelFile("n", [layer, other]))) == ["s.bias", "t.weight"]
