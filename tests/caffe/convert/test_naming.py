"""The naming convention, in both directions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncblob import Layer, ModelFile
from syncblob.caffe.convert import from_tensors, to_tensors


def names_of(*layers):
    """Return the names of the tensors of layers, each given by name, type and number of blobs."""
    made = [Layer(name, kind, blobs=[np.ones(1)] * count) for name, kind, count in layers]
    return list(to_tensors(ModelFile(layers=made)))


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
    assert names_of(("x", kind, count)) == names


def test_layers_of_one_name_get_numbers():
    layers = [("x", "", 1), ("x", "", 0), ("x", "", 1), ("x", "LSTM", 3), ("x#2", "", 1)]
    expected = ["x.weight", "x#2.weight", "x.0", "x.1", "x.2", "x#2#2.weight"]
    assert names_of(*layers) == expected


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
    model = from_tensors({name: np.full(1, number) for number, name in enumerate(names)})
    found = [
        (layer.name, layer.type, [names[int(blob[0])] for blob in layer.blobs])
        for layer in model.layers
    ]
    assert found == layers


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
    made = [
        Layer(name, kind, blobs=[np.full(1, number)] * count)
        for number, (name, kind, count) in enumerate(layers)
    ]
    tensors = to_tensors(ModelFile(layers=made))
    assert len(tensors) == sum(count for _, _, count in layers)
    found = [{int(blob[0]) for blob in layer.blobs} for layer in from_tensors(tensors).layers]
    for number, (_, _, count) in enumerate(layers):
        assert sum(number in group for group in found) == (count > 0)


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


def test_a_scale_of_two_bottoms_only_has_a_bias():
    layer = Layer("s", "Scale", ["x", "factors"], ["y"], blobs=[np.ones(3)])
    layer.proto.scale_param.bias_term = True
    other = Layer("t", "Scale", ["x"], ["y"], blobs=[np.ones(3)])
    assert list(to_tensors(ModelFile("n", [layer, other]))) == ["s.bias", "t.weight"]
