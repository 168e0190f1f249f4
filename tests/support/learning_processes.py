"""Fitting two layers with gradients that are summed over two processes, by torch.distributed.

Spawned processes import `work` from here.
"""

import warnings

import numpy as np
import torch
from torch import distributed as collectives
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import syncblob
from syncblob import Blob
from syncblob.integrations.torch import parameters_to_blobs

STEPS, RATE = 10, 0.05
SAMPLES = np.random.default_rng(0).normal(size=(24, 5))
ANSWERS = np.tanh(SAMPLES @ np.random.default_rng(1).normal(size=(5, 2)))
SHAPES = [(5, 8), (8,), (8, 2)]


def weights(device):
    random = np.random.default_rng(2)
    blobs = [Blob(shape, "float64", device=device) for shape in SHAPES]
    for blob in blobs:
        blob[...] = random.normal(size=blob.shape)
    return blobs


def train(blobs, share, reduce):
    """Fit two layers to a share of the samples; `reduce` is called with each diff in each step."""
    samples, answers = torch.from_numpy(SAMPLES[share]), torch.from_numpy(ANSWERS[share])
    for _ in range(STEPS):
        parameters = [blob.as_parameter() for blob in blobs]
        hidden = torch.tanh(samples @ parameters[0] + parameters[1])
        loss = torch.sum((hidden @ parameters[2] - answers) ** 2) / len(SAMPLES)
        loss.backward()
        del parameters, hidden, loss
        for blob in blobs:
            reduce(blob.diff)
            blob.scale_diff(RATE)
            blob.update()
            blob.diff[...] = 0


def all_reduce_a_copy(diff):
    """Sum a copy, which is no alias: gloo's threads release a tensor shortly after the sum."""
    total = diff.to_torch(copy=True)
    collectives.all_reduce(total)
    diff[...] = total


def columns(device):
    """Sum the middle column of a tensor, of a Blob, and of a Blob as the documentation says."""
    start = np.arange(9.0).reshape(3, 3)
    tensor = torch.tensor(start)
    blob, other = (Blob.asarray(start, device=device, copy=True) for _ in range(2))
    collectives.all_reduce(tensor[:, 1])
    collectives.all_reduce(blob[:, 1])
    all_reduce_a_copy(other[:, 1])
    return tensor.tolist(), blob.tolist(), other.tolist()


class Sum(torch.nn.Module):
    """Two layers, of which the second may be unused."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (torch.nn.Linear(2, 1, bias=False) for _ in range(2))

    def forward(self, x, both):
        return self.first(x) + self.second(x) if both else self.first(x)


def mean_gradients(rank, device, **options):
    """Return diff of both layers after each of three steps of DistributedDataParallel."""
    module = Sum()
    blobs = parameters_to_blobs(module, device)
    parallel = torch.nn.parallel.DistributedDataParallel(module, **options)
    both = rank == 1 or "find_unused_parameters" not in options
    found = []
    for zeroed in (False, True, True):
        if zeroed:
            parallel.zero_grad()
        parallel(torch.full((1, 2), rank + 1.0), both).sum().backward()
        if not both:
            _ = module.second.weight.grad  # as an optimizer does
        found.append([blob.diff.tolist() for blob in blobs.values()])
    for parameter, blob in zip(module.parameters(), blobs.values(), strict=True):
        assert parameter.blob is blob
        assert parameter.grad.data_ptr() == blob.diff.to_torch().data_ptr()
    return found


def shards(device):
    """Shard a module over Blobs; return them, and the shard that a Blob over it has changed."""
    module = torch.nn.Linear(2, 2, bias=False)
    blob = parameters_to_blobs(module, device)["weight"]
    blob[...] = 1
    fully_shard(module, mesh=init_device_mesh("cpu", (2,)))
    shard = syncblob.asarray(module.weight.to_local().detach())
    shard *= 2
    return blob.tolist(), module.weight.to_local().tolist()


def work(rank, devices, address, channel):
    """Train in one of two processes, on each device.

    For each, send the weights, the broadcast values, what became of a column, the gradients of
    DistributedDataParallel, and the shards; or the error.
    """
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings(action="error"):
            collectives.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
            for device in devices:
                blobs = weights(device)
                # If everything runs on the host, aliases of the host cause no conflict.
                reduce = collectives.all_reduce if device == "cpu" else all_reduce_a_copy
                train(blobs, slice(12 * rank, 12 * (rank + 1)), reduce)
                total = syncblob.asarray(np.full(3, rank + 1.0), device=device)
                collectives.broadcast(total, src=1)
                gradients = [
                    mean_gradients(rank, device, gradient_as_bucket_view=view, **others)
                    for others in ({}, {"static_graph": True}, {"find_unused_parameters": True})
                    for view in (False, True)
                ]
                found = [blob.tolist() for blob in blobs], total.tolist(), columns(device)
                channel.send((*found, gradients, shards(device)))
            collectives.destroy_process_group()
    except Exception as error:  # noqa: BLE001  # the test raises it
        channel.send(error)
