"""Interrupts: an interrupted operation was done completely or not at all, and holds no lock.

Each scenario of the fault campaign runs once to find the places where CPython could deliver an
interrupt. Then it runs again for each of them, or for some of them, and is interrupted there.
Afterwards,

- everything has the contents from before or those at the end, and bytes that both sides hold are
  equal;
- writes into an array that is still writable are seen on both sides;
- another thread can use the Blobs, and nothing waits for the call that has ended;
- repeating the operation gives the same result as without an interrupt.
"""

import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import tiers
from fault_points import BACKEND
from fault_scenarios import ONE_ACCESS, SEVERAL, made
from fault_states import Scenario, contents, plain
from in_threads import in_threads
from interrupt_points import Interrupt, interrupted_at, points_of
from program_devices import Shared

from syncblob import Blob, set_memory_limit, simulated
from syncblob.devices.base import WRITERS
from syncblob.memory.operations import line, running

try:
    from fault_scenarios_torch import OF_TORCH_AND_DASK
except ImportError:
    OF_TORCH_AND_DASK = {}

# These scenarios use no files.
NO_FOLDER = Path("nowhere")
SCENARIOS = {**ONE_ACCESS, **SEVERAL, **OF_TORCH_AND_DASK}


def campaign(name, scenario, most):
    """Interrupt a scenario at `most` places, or at all places if it is 0; return the number."""
    # Run it once first, so that objects that are made once in a process exist.
    plain(scenario.act(scenario.make(NO_FOLDER)))
    state = scenario.make(NO_FOLDER)
    with points_of() as points:
        result = scenario.act(state)
    BACKEND.synchronize()
    good = plain(result), [contents(state)]
    del state, result
    if name.partition("_")[0] == "mutable":
        # The scenario writes into the array that the accessor has returned.
        state = scenario.make(NO_FOLDER)
        getattr(state["a"], name.partition(",")[0].partition(" ")[0])()
        good[1].append(contents(state))
    arbitrary = name.startswith("overwrite_")
    if most and len(points) > most:
        points = random.Random(name).sample(points, most)  # noqa: S311  # the same in each run
    for point in points:
        try:
            interrupt_once(scenario, point, good, arbitrary=arbitrary)
        except BaseException as error:
            error.add_note(f"interrupted at {point}")
            raise
    return len(points)


def interrupt_once(scenario, point, good, *, arbitrary):
    expected, ends = good
    state = scenario.make(NO_FOLDER)
    before = contents(state)
    raised = None
    try:
        with interrupted_at(point):
            scenario.act(state)
    except BaseException as error:  # noqa: BLE001  # checked below
        raised = error
    assert raised is None or isinstance(raised, Interrupt), f"got {raised!r}"
    # Its traceback keeps objects alive.
    raised = None
    assert [*WRITERS, *running, *line] == []
    BACKEND.synchronize()
    after = contents(state)
    # After an overwrite, the contents are arbitrary until the caller has written them.
    assert arbitrary or after == before or after in ends
    blobs = [value for value in state.values() if isinstance(value, Blob)]
    for blob in blobs:
        is_free(blob)
    if after == before:
        assert plain(scenario.act(state)) == expected
        assert contents(state) == ends[0]
    for array in state.values():
        if isinstance(array, np.ndarray) and array.flags.writeable and blobs:
            array[...] = 77
            assert np.count_nonzero(blobs[0].cpu_data() == 77) == array.size
            assert np.count_nonzero(blobs[0].gpu_data() == 77) == array.size


def is_free(blob):
    """Check that another thread can use a Blob."""

    def use():
        with blob.memory.lock:
            pass

    in_threads(use)


# Python reports and ignores an interrupt in a finaliser.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@tiers.amount("most", 1, 8, variable="SYNCBLOB_INTERRUPTS")
@pytest.mark.parametrize("name", SCENARIOS)
def test_an_interrupt_leaves_everything_before_or_after(name, most):
    try:
        campaign(name, SCENARIOS[name], most)
    finally:
        # An interrupted block may have left it.
        set_memory_limit(BACKEND.device, None)


def test_the_campaign_finds_what_is_half_done():
    """The campaign would detect an operation in two steps."""

    def act(state):
        state["a"][0] = 9
        state["a"][1] = 9

    with pytest.raises(AssertionError) as caught:
        campaign("", Scenario(lambda _: {"a": made("host")}, act), most=0)
    assert caught.value.__notes__


def interrupt_everywhere(make, act, check):
    """Act on a new state with an interrupt at each place, and check it each time."""

    def run(point):
        state = make()
        with suppress(Interrupt), interrupted_at(point) if point else points_of() as points:
            act(state)
        check(state, point)
        return points

    # Objects that are made once in a process exist after the first run.
    run(None)
    for point in run(None):
        run(point)


@pytest.mark.parametrize("way", ["cpu", "simulated:0"])
def test_no_copy_of_an_interrupted_prefetch_overwrites_a_later_write(way):
    side = "cpu" if way == "cpu" else "gpu"

    def make():
        blob = Blob(3, device="simulated:0")
        for each in ("gpu", "cpu") if side == "gpu" else ("cpu", "gpu"):
            getattr(blob, f"mutable_{each}_data")()[...] = 1
        return blob

    def check(blob, point):
        getattr(blob, f"overwrite_{side}_data")()[...] = 2
        BACKEND.synchronize()
        assert getattr(blob, f"{side}_data")().tolist() == [2] * 3, point

    BACKEND.delay = 0.001
    try:
        interrupt_everywhere(make, lambda blob: blob.prefetch(way), check)
    finally:
        BACKEND.delay = 0.0


def test_what_a_computation_in_shared_memory_writes_late_is_waited_for_after_an_interrupt():
    device = simulated(18, shared=True)
    device.delay = 0.001

    def make():
        blob = Blob(3, device="simulated:18")
        blob[...] = 1
        return blob

    def check(blob, point):
        assert set(blob.cpu_data().tolist()) in ({1}, {2})
        blob.overwrite_cpu_data()[...] = 3
        device.synchronize()
        assert blob.cpu_data().tolist() == [3] * 3, point

    interrupt_everywhere(make, lambda blob: blob.__iadd__(1), check)


def test_an_interrupt_of_set_gpu_data_keeps_what_the_device_shares_with_the_host():
    def make(_):
        blob = Blob(3, device=Shared.name)
        blob.mutable_cpu_data()[...] = 0
        blob += 7
        return {"a": blob}

    def act(state):
        state["a"].set_gpu_data(np.float32([1, 2, 3]))

    assert campaign("", Scenario(make, act), most=0)
