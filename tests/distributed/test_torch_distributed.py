"""torch.distributed on Blobs: gradients summed over two processes equal those of one process."""

from importlib.metadata import version
from multiprocessing import get_context

import numpy as np
import pytest
from packaging.version import Version

collectives = pytest.importorskip("torch.distributed")

if not collectives.is_available() or not collectives.is_gloo_available():
    pytest.skip("this build of torch has no gloo", allow_module_level=True)

if Version(version("torch")) < Version("2.12"):
    pytest.skip("torch.distributed takes Blobs since PyTorch 2.12", allow_module_level=True)

from learning_processes import train, weights, work  # noqa: E402  # it needs torch

DEVICES = ["cpu", "simulated:0"]


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """Return what each of two processes learned on each device."""
    context = get_context("spawn")
    address = (tmp_path_factory.mktemp("distributed") / "meeting").as_uri()
    channels, processes = [], []
    for rank in range(2):
        here, there = context.Pipe()
        channels.append(here)
        processes.append(context.Process(target=work, args=(rank, DEVICES, address, there)))
    for process in processes:
        process.start()
    found = {device: [] for device in DEVICES}
    try:
        for channel in channels:
            for device in DEVICES:
                assert channel.poll(120), "a process does not answer"
                found[device].append(channel.recv())
                if isinstance(found[device][-1], Exception):
                    raise found[device][-1]
        for process in processes:
            process.join(60)
            assert process.exitcode == 0
    finally:
        for process in processes:
            process.kill()
    return found


@pytest.mark.long
@pytest.mark.parametrize("device", DEVICES)
def test_two_processes_learn_what_one_learns(learned, device):
    single = weights(device)
    train(single, slice(None), lambda _: None)
    start = [np.asarray(blob) for blob in weights("cpu")]
    assert not any(np.allclose(np.asarray(a), b) for a, b in zip(single, start, strict=True))
    for theirs, broadcast, (tensor, direct, by_copy), gradients, shards in learned[device]:
        for one, blob in zip(theirs, single, strict=True):
            np.testing.assert_allclose(one, np.asarray(blob), rtol=1e-10)
        assert broadcast == [2.0, 2.0, 2.0]
        assert direct == tensor  # gloo ignores the strides of both
        used, unused = [[[1.5, 1.5]], [[1.5, 1.5]]], [[[1.5, 1.5]], [[1, 1]]]
        assert gradients == [[used] * 3] * 4 + [[unused] * 3] * 2
        assert shards == ([[1, 1], [1, 1]], [[2, 2]])
        assert by_copy == [[0, 2, 2], [3, 8, 5], [6, 14, 8]]
