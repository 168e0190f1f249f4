"""torch.distributed on Blobs: gradients summed over two processes give what one process gives."""

from __future__ import annotations

import warnings
from multiprocessing import get_context

import numpy as np
import pytest

import syncblob
from syncblob import Blob

torch = pytest.importorskip("torch")
collectives = pytest.importorskip("torch.distributed")

if not collectives.is_available() or not collectives.is_gloo_available():
    pytest.skip("this build of torch has no gloo", allow_module_level=True)

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
    """Sum without an alias: gloo's threads let go of a tensor a moment after they are done."""
    total = diff.to_torch(copy=True)
    collectives.all_reduce(total)
    diff[...] = total


def work(rank, device, address, channel):
    """Train in one of two processes; send the weights, or what went wrong."""
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            collectives.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
            blobs = weights(device)
            # Where all is done on the host, an alias of the host is in nobody's way.
            reduce = collectives.all_reduce if device == "cpu" else all_reduce_a_copy
            train(blobs, slice(12 * rank, 12 * (rank + 1)), reduce)
            channel.send([blob.tolist() for blob in blobs])
            total = syncblob.asarray(np.full(3, rank + 1.0), device=device)
            collectives.broadcast(total, src=1)
            channel.send(total.tolist())
            collectives.destroy_process_group()
    except Exception as error:  # noqa: BLE001  # it is raised where the test is
        channel.send(error)


@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
def test_two_processes_learn_what_one_learns(tmp_path, device):
    single = weights(device)
    train(single, slice(None), lambda _: None)
    start = [np.asarray(blob) for blob in weights("cpu")]
    assert not any(np.allclose(np.asarray(a), b) for a, b in zip(single, start, strict=True))

    context = get_context("spawn")
    address = (tmp_path / "meeting").as_uri()
    channels, processes = [], []
    for rank in range(2):
        here, there = context.Pipe()
        channels.append(here)
        processes.append(context.Process(target=work, args=(rank, device, address, there)))
    for process in processes:
        process.start()
    try:
        for channel in channels:
            found = []
            for _ in range(2):
                assert channel.poll(120), "a process does not answer"
                found.append(channel.recv())
                if isinstance(found[-1], Exception):
                    raise found[-1]
            for theirs, blob in zip(found[0], single, strict=True):
                np.testing.assert_allclose(theirs, np.asarray(blob), rtol=1e-10)
            assert found[1] == [2.0, 2.0, 2.0]
        for process in processes:
            process.join(60)
            assert process.exitcode == 0
    finally:
        for process in processes:
            process.kill()
