"""Putting the parameters of existing modules over Blobs in place, and taking them back."""

import numpy as np
import pytest

import syncblob
from syncblob import Blob

torch = pytest.importorskip("torch")

from syncblob.integrations.torch import parameters_to_blobs, parameters_to_tensors  # noqa: E402  # torch

nn = torch.nn
INPUTS = torch.linspace(-1, 1, 20).reshape(5, 4)


def made():
    """Make a net with tied weights, a frozen bias and buffers."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    net[2].weight = net[0].weight
    net[2].bias.requires_grad_(requires_grad=False)
    return net


def learn(net, optimizer, steps=1, inputs=INPUTS):
    for _ in range(steps):
        optimizer.zero_grad()
        net(inputs).pow(2).sum().backward()
        optimizer.step()


def same(blobs, net):
    for name, parameter in net.named_parameters():
        np.testing.assert_array_equal(blobs[name], parameter.detach())
        if parameter.requires_grad:
            np.testing.assert_array_equal(blobs[name].diff, parameter.grad)


@pytest.mark.parametrize("device", [None, "simulated"])
def test_a_module_goes_on_learning_before_and_after_as_if_nothing_had_happened(device):
    net, ordinary = made(), made()
    parameters = list(net.parameters())
    optimizers = [torch.optim.AdamW(each.parameters(), lr=0.1) for each in (net, ordinary)]
    for each, optimizer in zip((net, ordinary), optimizers, strict=True):
        learn(each, optimizer)
    blobs = parameters_to_blobs(net, device)
    assert list(blobs) == ["0.weight", "0.bias", "1.weight", "1.bias", "2.bias"]
    assert [blob.name for blob in blobs.values()] == list(blobs)
    assert {str(blob.device) for blob in blobs.values()} == {
        "simulated:0" if device == "simulated" else "cpu"
    }
    same(blobs, ordinary)
    for each, optimizer in zip((net, ordinary), optimizers, strict=True):
        learn(each, optimizer, 2)
    assert all(a is b for a, b in zip(parameters, net.parameters(), strict=True))
    assert net[2].weight is net[0].weight
    same(blobs, ordinary)
    parameters_to_tensors(net)
    assert {type(parameter) for parameter in net.parameters()} == {nn.Parameter}
    optimizers[0].zero_grad()
    assert net[0].bias.grad is None
    for each, optimizer in zip((net, ordinary), optimizers, strict=True):
        learn(each, optimizer, 2)
    for mine, other in zip(net.state_dict().values(), ordinary.state_dict().values(), strict=True):
        assert torch.equal(mine, other)
    # The parameters are still tensors over the Blobs, so the Blobs have the new values.
    np.testing.assert_array_equal(blobs["0.weight"], ordinary[0].weight.detach())


def test_nothing_is_copied_and_a_second_call_changes_nothing():
    net = made().to(memory_format=torch.channels_last)
    net.append(nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last))
    addresses = [parameter.data_ptr() for parameter in net.parameters()]
    with syncblob.no_transfers():
        blobs = parameters_to_blobs(net)
    assert [parameter.data_ptr() for parameter in net.parameters()] == addresses
    assert blobs["3.weight"].strides == tuple(4 * step for step in net[3].weight.stride())
    again = parameters_to_blobs(net)
    assert all(again[name] is blob for name, blob in blobs.items())
    assert net[0].bias.blob is blobs["0.bias"]
    blobs["0.bias"][...] = 7
    assert net[0].bias.tolist() == [7] * 4


@pytest.mark.parametrize("device", [None, "simulated"])
def test_parameters_of_any_strides_and_kind(device):
    """No Blob has gaps or repeated elements like these. Such parameters get their own memory."""
    net = nn.ParameterList(
        [
            torch.randn(4, 6)[:, ::2],
            torch.ones(1).expand(4),
            torch.randn(3, 4).T,
            torch.tensor(3.0),
            torch.zeros(0, 3),
            torch.randn(3, dtype=torch.complex64),
            torch.randn(3).half(),
        ]
    )
    blobs = parameters_to_blobs(net, device)
    sum(parameter.abs().pow(2).sum() for parameter in net).backward()
    torch.optim.SGD(net.parameters(), lr=0.1).step()
    for name, parameter in net.named_parameters():
        assert blobs[name].shape == parameter.shape
        np.testing.assert_array_equal(blobs[name], parameter.detach())
        np.testing.assert_array_equal(blobs[name].diff, parameter.grad)


def test_a_frozen_parameter_is_left_alone_until_it_learns():
    net = made()
    before = net[2].bias.tolist()
    blobs = parameters_to_blobs(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.5)
    learn(net, optimizer)
    assert (net[2].bias.grad, blobs["2.bias"].tolist()) == (None, before)
    net[2].bias.requires_grad_()
    learn(net, optimizer)
    assert blobs["2.bias"].tolist() == net[2].bias.tolist() != before
    assert blobs["2.bias"].diff.tolist() == net[2].bias.grad.tolist() != [0] * 4


@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")
def test_hooks_stay_and_find_the_gradient_in_diff():
    net = nn.Linear(4, 4)
    seen = []
    handle = net.weight.register_post_accumulate_grad_hook(
        lambda parameter: seen.append(parameter.grad.data_ptr())
    )
    net.register_forward_hook(lambda *_: seen.append("forward"))
    diff = parameters_to_blobs(net)["weight"].diff
    net(INPUTS).sum().backward()
    assert seen == ["forward", diff.cpu_data().ctypes.data]
    net.zero_grad()
    # With a graph, torch accumulates into a new tensor.
    net(INPUTS).sum().backward(create_graph=True)
    assert seen[2:] == seen[:2]
    handle.remove()
    net(INPUTS).sum().backward()
    assert len(seen) == 5


def test_a_change_of_dtype_parts_them_and_another_call_makes_new_blobs():
    net = made()
    blobs = parameters_to_blobs(net)
    net.to("cpu").float()
    assert net[0].weight.blob is blobs["0.weight"]
    net.bfloat16()
    assert net[0].weight.blob is None
    halves = parameters_to_blobs(net)
    assert {blob.dtype.name for blob in halves.values()} == {"bfloat16"}
    assert (halves["0.bias"].tolist(), net[1].running_mean.dtype) == (
        net[0].bias.tolist(),
        torch.bfloat16,
    )
    assert blobs["0.weight"].dtype == np.float32


@pytest.mark.filterwarnings("ignore:grad and param do not obey:UserWarning")  # about speed
@pytest.mark.parametrize("zeroed", [True, False])
def test_a_memory_format_changes_nothing_after_the_next_gradient(zeroed):
    net = nn.Conv2d(2, 3, 3)
    blobs = parameters_to_blobs(net)
    net(torch.ones(1, 2, 3, 3)).sum().backward()
    before = blobs["weight"].tolist()
    net.to(memory_format=torch.channels_last)
    assert (net.weight.blob, blobs["weight"].tolist()) == (blobs["weight"], before)
    if zeroed:
        net.zero_grad()
    net(torch.ones(1, 2, 3, 3)).sum().backward()
    assert blobs["weight"].diff.tolist() == net.weight.grad.tolist()
    assert np.unique(blobs["weight"].diff).tolist() == [1 if zeroed else 2]
    assert net.weight.grad.data_ptr() == blobs["weight"].diff.cpu_data().ctypes.data


def test_another_call_makes_new_blobs_for_those_that_were_given_other_memory():
    net = nn.Linear(4, 4)
    old = parameters_to_blobs(net)
    weight = net.weight.tolist()
    with pytest.warns(syncblob.StaleAliasWarning):
        old["weight"].set_cpu_data(np.zeros((4, 4), np.float32))
    new = parameters_to_blobs(net)
    assert new["bias"] is old["bias"]
    assert new["weight"].tolist() == weight
    new["weight"][...] = 5
    assert net.weight.tolist() == [[5] * 4] * 4


def frozen_integers():
    net = nn.Linear(2, 2)
    net.table = nn.Parameter(torch.ones(2, dtype=torch.int8), requires_grad=False)
    return net


class _Other(nn.Parameter):
    """A subclass of torch's parameters."""


def with_another_class():
    net = nn.Linear(2, 2)
    net.other = _Other(torch.ones(2))
    return net


def test_what_is_no_module_is_refused():
    with pytest.raises(TypeError, match=r"torch\.nn\.Module.* Blob.*as_parameter"):
        parameters_to_blobs(Blob(3))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: nn.Sequential(nn.Linear(2, 2), nn.LazyLinear(3)),
            r"1\.weight: .* UninitializedParameter of .*; call lazy",
        ),
        (frozen_integers, "table: .* torch.int8"),
        (with_another_class, "other: .* a _Other"),
        (lambda: nn.Linear(2, 2, device="meta"), "weight: .* on meta"),
        (lambda: nn.Linear(2, 2).to(torch.float8_e4m3fn), "float8"),
    ],
)
def test_what_is_refused_changes_nothing(make, said):
    net = make()
    kinds = [type(parameter) for parameter in net.parameters()]
    with pytest.raises(TypeError, match=said):
        parameters_to_blobs(net)
    assert [type(parameter) for parameter in net.parameters()] == kinds


def test_a_device_that_is_not_there_changes_nothing():
    net = nn.Linear(2, 2)
    with pytest.raises(syncblob.NoDeviceError):
        parameters_to_blobs(net, "cuda:77")
    assert type(net.weight) is nn.Parameter


def test_a_failure_on_the_way_changes_nothing():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    before = [parameter.data_ptr() for parameter in net.parameters()]
    with (
        syncblob.simulated().failing(transfer=3),
        pytest.raises(RuntimeError, match="injected failure"),
    ):
        parameters_to_blobs(net, "simulated")
    assert [parameter.data_ptr() for parameter in net.parameters()] == before
    assert {type(parameter) for parameter in net.parameters()} == {nn.Parameter}
