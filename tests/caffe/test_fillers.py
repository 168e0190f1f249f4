"""Fillers: the distributions of weights, shared weights, and weights that are kept."""

import json
import re

import numpy as np
import pytest
from google.protobuf import text_format

from syncblob.caffe import ModelFile, NetParameter
from syncblob.memory import Head

DEFINITION = """
input: "data" input_shape {{ dim: 1 dim: 30 dim: 9 dim: 9 }}
layer {{ name: "x" type: "{kind}" bottom: "data" top: "x" {settings} }}
"""


def weights(filler, kind="Convolution", *, more="", rng=0):
    """Fill a layer of 40 outputs, 30 inputs and kernels of 5 x 5, and return its weights."""
    field, of_kind = {
        "Convolution": ("convolution_param", "kernel_size: 5"),
        "InnerProduct": ("inner_product_param", ""),
    }[kind]
    settings = f"{field} {{ num_output: 40 weight_filler {{ {filler} }} {of_kind} {more} }}"
    return np.asarray(filled(kind, settings, rng=rng)["x"].blobs[0])


def filled(kind, settings, *, rng=0):
    text = DEFINITION.format(kind=kind, settings=settings)
    model = ModelFile.from_net(text_format.Parse(text, NetParameter()))
    model.fill(rng=rng)
    return model


FAN_IN, FAN_OUT = 30 * 25, 40 * 25


@pytest.mark.parametrize(
    ("filler", "low", "high", "std"),
    [
        ('type: "uniform" min: -2 max: 4', -2, 4, 6 / 12**0.5),
        ('type: "uniform"', 0, 1, 1 / 12**0.5),
        ('type: "xavier"', -((3 / FAN_IN) ** 0.5), (3 / FAN_IN) ** 0.5, FAN_IN**-0.5),
        (
            'type: "xavier" variance_norm: FAN_OUT',
            *(-((3 / FAN_OUT) ** 0.5), (3 / FAN_OUT) ** 0.5, FAN_OUT**-0.5),
        ),
        (
            'type: "xavier" variance_norm: AVERAGE',
            *(-((3 / 875) ** 0.5), (3 / 875) ** 0.5, 875**-0.5),
        ),
    ],
)
def test_uniform_values(filler, low, high, std):
    values = weights(filler)
    width = high - low
    assert low <= values.min() < low + width / 1000
    assert high >= values.max() > high - width / 1000
    assert values.mean() == pytest.approx((low + high) / 2, abs=width / 100)
    assert values.std() == pytest.approx(std, rel=0.01)


@pytest.mark.parametrize(
    ("filler", "mean", "std"),
    [
        ('type: "gaussian"', 0, 1),
        ('type: "gaussian" mean: 3 std: 0.5', 3, 0.5),
        ('type: "msra"', 0, (2 / FAN_IN) ** 0.5),
        ('type: "msra" variance_norm: FAN_OUT', 0, (2 / FAN_OUT) ** 0.5),
        ('type: "msra" variance_norm: AVERAGE', 0, (2 / 875) ** 0.5),
    ],
)
def test_normal_values(filler, mean, std):
    values = (weights(filler) - mean) / std
    # The moments of 30,000 values from a standard normal distribution.
    assert values.mean() == pytest.approx(0, abs=0.03)
    assert values.std() == pytest.approx(1, rel=0.02)
    assert (values**4).mean() == pytest.approx(3, rel=0.1)


def test_sparse_values():
    values = weights('type: "gaussian" mean: 1 std: 0.01 sparse: 10')
    assert (values != 0).mean() == pytest.approx(10 / 40, abs=0.01)
    assert values[values != 0].mean() == pytest.approx(1, rel=0.01)
    assert not weights('type: "gaussian" sparse: 0').any()


def test_positive_unitball():
    values = weights('type: "positive_unitball"')
    assert values.min() >= 0
    assert values.sum(axis=(1, 2, 3)) == pytest.approx(1, rel=1e-5)
    # Each value comes from [0, 1) and is divided by the sum of 750 of them.
    assert values.max() == pytest.approx(2 / FAN_IN, rel=0.1)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_bilinear(size):
    settings = (
        f"convolution_param {{ num_output: 30 group: 30 kernel_size: {size} "
        'weight_filler { type: "bilinear" } bias_term: false }'
    )
    (blob,) = filled("Deconvolution", settings)["x"].blobs
    factor = -(-size // 2)
    centre = factor - 1 if size % 2 else factor - 0.5
    sides = 1 - np.abs(np.arange(size) - centre) / factor
    assert np.allclose(blob, np.broadcast_to(np.outer(sides, sides), (30, 1, size, size)))


def test_transposed_weights_have_the_fans_of_their_first_axes():
    values = weights('type: "xavier"', "InnerProduct", more="transpose: true")
    assert values.shape == (30 * 81, 40)
    assert np.abs(values).max() == pytest.approx((3 / 40) ** 0.5, rel=0.01)
    values = weights('type: "xavier" variance_norm: FAN_OUT', "InnerProduct")
    assert np.abs(values).max() == pytest.approx((3 / 40) ** 0.5, rel=0.01)


# The type, the value of each blob, and the settings.
CONSTANTS = """
Convolution [0, 0] convolution_param { num_output: 2 kernel_size: 3 }
InnerProduct [3, 4] inner_product_param { num_output: 2 weight_filler { value: 3 }
  bias_filler { value: 4 } }
BatchNorm [0, 0, 0]
Scale [1, 0] scale_param { bias_term: true }
Scale [0] scale_param { filler { } }
Scale [5, 6] scale_param { filler { value: 5 } bias_term: true
  bias_filler { type: "constant" value: 6 } }
Bias [7] bias_param { filler { value: 7 } }
PReLU [0.25]
PReLU [8] prelu_param { filler { value: 8 } channel_shared: true }
Embed [1] embed_param { num_output: 2 input_dim: 3 bias_term: false weight_filler { value: 1 } }
Embed [0, 2] embed_param { num_output: 2 input_dim: 3 bias_filler { value: 2 } }
"""


@pytest.mark.parametrize("row", CONSTANTS.strip().replace("\n  ", " ").split("\n"))
def test_constants(row):
    kind, values, settings = re.fullmatch(r"(\w+) (\[.*?\]) ?(.*)", row).groups()
    values = json.loads(values)
    blobs = filled(kind, settings)["x"].blobs
    assert [blob.dtype for blob in blobs] == [np.float32] * len(values)
    for blob, value in zip(blobs, values, strict=True):
        # Zeros take no memory until they are used.
        assert blob.head is (Head.HEAD_AT_CPU if value else Head.UNINITIALIZED)
        assert np.all(np.asarray(blob) == np.float32(value))


def test_recurrent_layers_fill_each_kind_of_weights():
    text = """
        layer { name: "x" type: "RNN" bottom: "a" bottom: "b" bottom: "c" top: "x"
          recurrent_param { num_output: 5
            weight_filler { value: 1 } bias_filler { value: 2 } } }
    """
    model = ModelFile.from_net(text_format.Parse(text, NetParameter()))
    model.fill({"a": (2, 3, 4), "b": (2, 3), "c": (3, 6)})
    assert [np.unique(blob).tolist() for blob in model["x"].blobs] == [[1], [2], [1], [1], [1], [2]]


@pytest.mark.parametrize(
    ("filler", "more", "words"),
    [
        ("odd", "", "one of the fillers bilinear, constant, .*, got 'odd'"),
        ("bilinear", "kernel_size: 3", r"square kernels, .*, got \(40, 30, 5, 3\)"),
    ],
)
def test_fillers_that_do_not_fit(filler, more, words):
    with pytest.raises(ValueError, match=rf"^layer 'x' \(Convolution\): .*{words}"):
        weights(f"type: '{filler}'", more=more)


def test_fillers_of_blobs_without_elements():
    with pytest.raises(ValueError, match=r"blob 0: expected a blob with an axis, and elements"):
        filled("Embed", "embed_param { num_output: 2 weight_filler { type: 'xavier' } }")


SHARING = """
input: "data" input_shape {{ dim: 1 dim: 4 }}
layer {{ name: "a" type: "InnerProduct" bottom: "data" top: "a" param {{ name: "w" }}
  inner_product_param {{ num_output: 4 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "b" type: "InnerProduct" bottom: "a" top: "b" param {{ name: "w" {mode} }}
  inner_product_param {{ num_output: {outputs} }} }}
"""


def sharing(outputs=4, mode=""):
    text = SHARING.format(outputs=outputs, mode=mode)
    return ModelFile.from_net(text_format.Parse(text, NetParameter()))


def test_parameters_of_one_name_and_another_shape():
    model = sharing(2)
    for call in (model.infer_shapes, model.fill):
        with pytest.raises(ValueError, match=r"'b' .*blob 0 has shape \(2, 4\) and shares .*'w'"):
            call()
    assert not model.params
    # The same count in another shape: a view of the same memory.
    model = sharing(4, "share_mode: PERMISSIVE")
    model["a"].proto.inner_product_param.num_output = 2
    assert model.infer_shapes().params == {"a": ((2, 4), (2,)), "b": ((4, 2), (4,))}
    model.fill(rng=0)
    a, b = model["a"].blobs[0], model["b"].blobs[0]
    assert (a.shape, b.shape) == ((2, 4), (4, 2))
    assert a.memory is b.memory
