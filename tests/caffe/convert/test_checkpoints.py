"""Nested dictionaries of tensors: layers, nets, and what PyTorch's checkpoints have beside them."""

import numpy as np
import pytest

from syncblob import ModelFileError
from syncblob.caffe.convert import convert, from_tensors, open_weights

ONE, TWO, THREE = (np.ones(count, np.float32) for count in (1, 2, 3))
NET = {"conv1.weight": TWO, "conv1.bias": ONE}
AVERAGE = {"conv1.weight": THREE, "conv1.bias": ONE}
OPTIMIZER = {"state": {0: {"exp_avg": TWO}}, "param_groups": [{"lr": 0.1}]}


def is_tensor(value):
    return isinstance(value, np.ndarray)


@pytest.fixture
def save(tmp_path):
    """Save a nested dictionary as torch does, with tensors for arrays."""
    torch = pytest.importorskip("torch")

    def as_torch(value):
        if isinstance(value, dict):
            return {key: as_torch(inner) for key, inner in value.items()}
        return torch.from_numpy(value) if is_tensor(value) else value

    def save(contents, name="x.pt"):
        torch.save(as_torch(contents), tmp_path / name)
        return tmp_path / name

    return save


@pytest.mark.parametrize(
    ("contents", "names", "others"),
    [
        # Layers.
        ({"conv1": {"weight": TWO, "bias": ONE}}, ["conv1.weight", "conv1.bias"], []),
        ({"a": {"b": {"c": {"weight": TWO}}}}, ["a.b.c.weight"], []),
        ({"a": {"weight": TWO}, "b": {"weight": TWO}}, ["a.weight", "b.weight"], []),
        ({"a": {"weight": TWO}, "scale": ONE}, ["a.weight", "scale"], []),
        ({"a": {"weight": TWO}, "epoch": 3}, ["a.weight"], []),
        ({"a": {"weight": TWO}, "s": ONE, "epoch": 3}, ["a.weight", "s"], []),
        ({"a.weight": TWO, "b": {"c.weight": TWO}}, ["a.weight", "b.c.weight"], []),
        ({"a": {}, "b": {"weight": TWO}}, ["b.weight"], []),
        ({}, [], []),
        # Nets.
        (NET, [*NET], []),
        ({"model": NET, "optimizer": OPTIMIZER, "epoch": 3}, [*NET], []),
        ({"model": NET, "rng": ONE}, [*NET], ["the tensor 'rng'"]),
        ({"state_dict": {"weight": TWO}, "epoch": 3}, ["weight"], []),
        ({"state_dict": NET, "ema": AVERAGE}, [*NET], ["the net 'ema'"]),
        ({"state_dict": NET, "ema": {**AVERAGE, "decay": 0.9}}, [*NET], []),
        ({"model": NET, "ema": {"decay": 0.9, "shadow": AVERAGE}}, [*NET], []),
        ({"a": NET, "b": AVERAGE, "epoch": 3}, [f"{n}.{k}" for n in "ab" for k in NET], []),
        ({"body": NET, "head": {"weight": TWO}}, [*(f"body.{k}" for k in NET), "head.weight"], []),
        # What modules keep beside their tensors.
        (NET | {"a._extra_state": {"n": 3}}, [*NET], ["the extra state 'a._extra_state'"]),
        (NET | {"_extra_state": None}, [*NET], ["the extra state '_extra_state'"]),
        (NET | {"a._extra_state": ONE}, [*NET], ["the extra state 'a._extra_state'"]),
    ],
)
def test_what_is_opened_and_what_is_left_out(save, contents, names, others):
    with open_weights(save(contents)) as weights:
        assert list(weights.tensors) == names
        assert list(weights.others) == others


def test_one_of_several_nets_is_converted(save, tmp_path):
    path = save({"model": NET, "ema": AVERAGE})
    convert(path, tmp_path / "x.npz", layers="ema.*")
    with open_weights(tmp_path / "x.npz") as weights:
        assert {name: blob.shape for name, blob in weights.tensors.items()} == {
            "ema.conv1.weight": (3,),
            "ema.conv1.bias": (1,),
        }


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        (NET | {"epoch": 3}, "entry 'epoch' is of type int, not a tensor"),
        (NET | {"a": {"b": "text"}}, "entry 'a.b' is of type str, not a tensor"),
        ({"a": None}, "entry 'a' is of type NoneType, not a tensor"),
        ([1], "expected a state_dict, .*, got list"),
        (3, "expected a state_dict, .*, got int"),
        ({0: ONE}, "the name 0 of an entry is of type int"),
        ({"a.b": ONE, "a": {"b": TWO}}, "two of its tensors are called 'a.b'"),
    ],
)
def test_an_entry_that_is_no_tensor_is_named(save, contents, words):
    with pytest.raises(ModelFileError, match=words):
        open_weights(save(contents))


def test_dictionaries_that_look_endless():
    inner = {"a": ONE}
    inner["itself"] = inner
    with pytest.raises(ValueError, match="nested more than 32 deep"):
        from_tensors(inner)
    level = {"a": ONE}
    for _ in range(30):
        level = {"a": level, "b": level}
    with pytest.raises(ValueError, match=r"more than \d+ entries"):
        from_tensors(level)


# --- dictionaries without a file -----------------------------------------------------------------


@pytest.mark.parametrize("value", ["text", None, object()])
def test_an_entry_that_is_no_array_is_named(value):
    with pytest.raises(
        TypeError, match=r"tensor 'a\.b': a Blob (holds|is made of an array,) numbers"
    ):
        from_tensors({"a": {"b": value}})
