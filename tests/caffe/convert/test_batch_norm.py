"""PyTorch's batch normalisation as two layers of Caffe."""

import pytest

from syncblob import Blob, open_model, save_model
from syncblob.caffe.convert import from_tensors

torch = pytest.importorskip("torch")


@pytest.fixture
def module():
    """Two modules with statistics that differ from the initial ones. The second has no factors."""
    norms = torch.nn.Sequential(torch.nn.BatchNorm2d(3), torch.nn.BatchNorm2d(2, affine=False))
    for number, tensor in enumerate(norms.state_dict().values()):
        tensor.add_(number)
    return norms


def check(model):
    """Compare the layers with PyTorch's values: the initial 1 or 0, plus the added number."""
    assert [(layer.name, layer.type) for layer in model.layers] == [
        ("0", "BatchNorm"),
        ("0_scale", "Scale"),
        ("1", "BatchNorm"),
    ]
    values = [[blob.cpu_data().tolist() for blob in layer.blobs] for layer in model.layers]
    assert values == [[[2] * 3, [4] * 3, [1]], [[1] * 3, [1] * 3], [[5] * 2, [7] * 2, [1]]]


@pytest.mark.parametrize("counted", [False, True])
def test_a_state_dict(module, counted, tmp_path):
    state = module.state_dict()
    model = from_tensors(
        {name: value for name, value in state.items() if counted or "num_batches" not in name}
    )
    check(model)
    assert model["0_scale"].proto.scale_param.bias_term
    save_model(model, tmp_path / "x.caffemodel")
    check(open_model(tmp_path / "x.caffemodel"))


def names(*parts):
    return {f"a.{part}": Blob(2) for part in parts}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("running_mean", "running_var", "weight"), {"a": 3, "a_scale": 1}),
        (("running_mean", "running_var", "bias"), {"a": 3}),
        (("running_mean", "running_var", "other"), {"a": 3}),
        (("running_mean", "weight", "bias"), {"a": 3}),
    ],
)
def test_which_parts_it_needs(parts, expected):
    model = from_tensors(names(*parts))
    assert {name: len(layer.blobs) for name, layer in model.items()} == expected
    assert model["a"].type == ("BatchNorm" if "a_scale" in expected else "")


def test_a_name_that_is_taken():
    tensors = names("running_mean", "running_var", "weight", "bias")
    model = from_tensors({**tensors, "a_scale.weight": Blob(3)})
    assert list(model) == ["a", "a_scale_", "a_scale"]
    assert model["a_scale_"].type == "Scale"
