"""Nested dictionaries of tensors: layers, nets, and what PyTorch's checkpoints have beside them."""

import numpy as np
import pytest

from syncblob import ModelFileError
from syncblob.caffe.convert import checkpoint, convert, from_tensors, open_weights, plan_conversion
from syncblob.caffe.convert.checkpoint import choose_net, flatten

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
        ({"a": {"weight": TWO}, "s": ONE, "epoch": 3}, ["a.weight"], ["the tensor 's'"]),
        ({"a.weight": TWO, "b": {"c.weight": TWO}}, ["a.weight", "b.c.weight"], []),
        ({"a": {}, "b": {"weight": TWO}}, ["b.weight"], []),
        ({}, [], []),
        # Nets.
        (NET, [*NET], []),
        ({"model": NET, "optimizer": OPTIMIZER, "epoch": 3}, [*NET], []),
        ({"model": NET, "rng": ONE}, [*NET], ["the tensor 'rng'"]),
        ({"state_dict": {"weight": TWO}, "epoch": 3}, ["weight"], []),
        ({"state_dict": NET, "ema": AVERAGE}, [*NET], ["the net 'ema'"]),
        ({"model": NET, "ema": {"decay": 0.9, "shadow": AVERAGE}}, [*NET], []),
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


@pytest.mark.parametrize(
    ("contents", "keys"),
    [
        ({"generator": NET, "discriminator": AVERAGE}, "'generator', 'discriminator'"),
        ({"model": NET, "ema": AVERAGE, "epoch": 3}, "'model', 'ema'"),
        ({"backbone": NET, "head": {"weight": TWO}}, "'backbone', 'head'"),
    ],
)
def test_several_nets_are_a_choice(save, contents, keys):
    path = save(contents)
    first = keys.split("'")[1]
    with pytest.raises(ModelFileError, match=keys) as caught:
        open_weights(path)
    assert f"key='{first}'" in str(caught.value)
    with open_weights(path, key=first) as weights:
        assert list(weights.tensors) == [*NET]
    with open_weights(path, key="") as weights:
        assert list(weights.tensors)[:2] == [f"{first}.conv1.weight", f"{first}.conv1.bias"]
        assert weights.layers[0].layer.name == f"{first}.conv1"
        assert len(weights.layers) == 2


def test_the_chosen_net_is_converted(save, tmp_path):
    path = save({"model": NET, "ema": {"decay": 0.9, "shadow": AVERAGE}})
    convert(path, tmp_path / "x.npz", key="ema.shadow")
    with open_weights(tmp_path / "x.npz") as weights:
        assert weights.tensors["conv1.weight"].shape == (3,)
    with plan_conversion(path, tmp_path / "x.npz", key="model") as planned:
        assert planned.result.tensors["conv1.weight"].shape == (2,)


@pytest.mark.parametrize("key", ["other", "ema.x", "epoch", "ema.decay"])
def test_a_key_that_the_checkpoint_lacks(save, key):
    path = save({"model": NET, "ema": {"decay": 0.9, "shadow": AVERAGE}, "epoch": 3})
    with pytest.raises(ModelFileError, match=f"no dictionary '{key}'; .* 'model', 'ema', 'epoch'"):
        open_weights(path, key=key)


def test_a_key_of_another_format(tmp_path):
    np.savez(tmp_path / "x.npz", **NET)
    with pytest.raises(ModelFileError, match=r"in which the key 'ema' chooses a net, got .* npz"):
        open_weights(tmp_path / "x.npz", key="ema")


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


def test_a_dictionary_in_itself():
    inner = {"a": ONE}
    inner["itself"] = inner
    with pytest.raises(ValueError, match="nested more than 32 deep"):
        flatten(inner, is_tensor)


def test_dictionaries_that_look_endless(monkeypatch):
    """All parts of a file have one limit."""
    monkeypatch.setattr(checkpoint, "_MOST_ENTRIES", 1000)
    level = {"a": ONE}
    for _ in range(30):
        level = {"a": level, "b": level}
    visited = []
    with pytest.raises(ValueError, match="more than 1000 entries"):
        choose_net(dict.fromkeys(map(str, range(50)), level), None, lambda _: not visited.append(1))
    assert len(visited) < 3000


# --- dictionaries without a file -----------------------------------------------------------------


def test_nested_dictionaries_as_a_model():
    nested = {"conv1": {"weight": TWO, "bias": ONE}, "block": {"ip": {"weight": TWO}}}
    model = from_tensors(nested | {"conv1._extra_state": {"n": 3}})
    assert {name: len(layer.blobs) for name, layer in model.items()} == {"conv1": 2, "block.ip": 1}


@pytest.mark.parametrize("value", ["text", None, object()])
def test_an_entry_that_is_no_array_is_named(value):
    with pytest.raises(TypeError, match=r"tensor 'a\.b': a Blob holds numbers"):
        from_tensors({"a": {"b": value}})
