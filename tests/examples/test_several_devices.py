"""examples/several_devices.py: the same bits on one device and on several, by peer copies."""

import numpy as np
import pytest
import several_devices as example

import syncblob
from syncblob import record_transfers

STEPS = 4


@pytest.mark.parametrize("count", [2, 3])
def test_training_on_several_devices_moves_weights_and_gradients_between_them(count):
    devices = [f"simulated:{index}" for index in range(count)]
    rng = np.random.default_rng(1)
    examples = rng.standard_normal((24 * STEPS, 5), "float32")
    arrays = examples, (examples[:, 0] > 0).astype("float32")

    def train(names):
        blobs = [syncblob.asarray(each, copy=True, device="cpu") for each in arrays]
        return example.train(names, *blobs, steps=STEPS, parts=count)

    alone = train(devices[:1])
    with record_transfers() as log:
        together = train(devices)
    # The weights go to all but the first, and the gradients come back, in each step.
    assert (log.peer_copies, log.peer_bytes) == (
        2 * (count - 1) * STEPS,
        2 * (count - 1) * STEPS * 20,
    )
    assert (log.uploaded_bytes, log.downloads) == (sum(each.nbytes for each in arrays), 0)
    assert together.device == "simulated:0"
    assert np.array_equal(alone.tolist(), together.tolist())
    assert together.tolist()[0] == max(together.tolist())


@pytest.mark.parametrize("count", [1, 2, 3])
def test_heat_exchanges_one_row_each_way(count):
    devices = [f"simulated:{index}" for index in range(count)]
    grid = np.random.default_rng(2).random((20, 8))
    expected = grid.copy()
    for _ in range(STEPS):
        old, inner = expected.copy(), (slice(1, -1), slice(1, -1))
        around = old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
        expected[inner] = old[inner] + 0.1 * (around - 4 * old[inner])
    with record_transfers() as log:
        found = example.diffuse(devices, grid, STEPS)
    assert np.array_equal(found, expected)
    # One row each way. The fixed numbers at its ends need not be copied again.
    rows = 2 * (count - 1) * STEPS
    assert log.peer_copies == rows
    assert (rows * grid[0].nbytes) * 0.8 <= log.peer_bytes <= rows * grid[0].nbytes


def test_the_program_compares_both(capsys):
    example.run(["simulated:0", "simulated:1"])
    assert capsys.readouterr().out.count("the same bits") == 2
