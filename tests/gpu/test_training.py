"""PyTorch modules on a CUDA device, with parameters over Blobs and batches of Blobs."""

import copy

import numpy as np
import pytest

import syncblob
from syncblob import Blob, Device, Head

torch = pytest.importorskip("torch")

from syncblob.integrations.torch import parameters_to_blobs, parameters_to_tensors  # noqa: E402  # torch
from syncblob.integrations.torch_data import BlobLoader  # noqa: E402  # torch

pytestmark = pytest.mark.gpu


def learn(net, batches):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for batch in batches:
        optimizer.zero_grad()
        net(batch).pow(2).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("start", ["cpu", "cuda"])
def test_a_module_learns_in_blobs_of_the_device(start):
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).to(start)
    ordinary = copy.deepcopy(net).cuda()
    blobs = parameters_to_blobs(net, None if start == "cuda" else "cuda")
    assert {str(blob.device) for blob in blobs.values()} == {"cuda:0"}
    assert net[1].running_mean.is_cuda
    batches = list(torch.arange(32.0).reshape(2, 4, 4) / 16)
    learn(ordinary, [batch.cuda() for batch in batches])
    with syncblob.record_transfers() as log:
        learn(net, BlobLoader(batches, "cuda"))
    assert {(t.direction, t.asynchronous) for t in log} == {("upload", True)}
    assert len(log) == len(batches)
    for name, parameter in ordinary.named_parameters():
        assert blobs[name].head is Head.HEAD_AT_GPU
        np.testing.assert_allclose(blobs[name], parameter.detach().cpu(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(blobs[name].diff, parameter.grad.cpu(), rtol=1e-4, atol=1e-5)
    parameters_to_tensors(net)
    assert net[0].weight.is_cuda


def test_a_device_is_torchs():
    blob = Blob(3, device="cuda:0")
    tensor = torch.ones(3, device=blob.device.torch)
    assert Device(tensor.device) == blob.device == Device(torch.device("cuda"))
    with syncblob.no_transfers():
        assert syncblob.asarray(tensor + blob).device == "cuda:0"
