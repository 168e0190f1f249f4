"""The fault campaign: each operation of a scenario that can fail is made to fail once.

Each scenario runs once to count its allocations, transfers and uses of files. Then it runs again
for each of them, with that one failing. After a failure,

- the exception is the injected one, or was caused by it;
- everything has the contents from before, or those at the end if the last step was done: no Blob,
  array or file is half-written, and bytes that both sides hold are equal;
- no file stays open;
- repeating the operation gives the same result as without a failure.
"""

import gc
import itertools
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fault_points import counting, failing, was_injected
from fault_scenarios import ONE_ACCESS, SEVERAL
from fault_scenarios_files import OF_FILES
from fault_states import Scenario, contents, heads, plain

try:
    from fault_scenarios_torch import OF_TORCH_AND_DASK
except ImportError:
    OF_TORCH_AND_DASK = {}

_DESCRIPTORS = Path("/proc/self/fd")


def open_files():
    """Return the number of open files of this process; 0 if it is unknown."""
    return len(os.listdir(_DESCRIPTORS)) if _DESCRIPTORS.is_dir() else 0  # noqa: PTH208  # a count


def campaign(scenario, *, keeps_heads):
    """Run a scenario once for each operation in it that can fail; return their number."""
    with tempfile.TemporaryDirectory() as folder:
        state = scenario.make(Path(folder))
        with counting() as counts:
            result = scenario.act(state)
        expected, at_the_end = plain(result), contents(state)
        del state, result
    failures = [(kind, number) for kind, count in counts.items() for number in range(1, count + 1)]
    for kind, number in failures:
        with tempfile.TemporaryDirectory() as folder:
            try:
                fail_once(
                    scenario, Path(folder), (kind, number), (expected, at_the_end), keeps_heads
                )
            except BaseException as error:
                error.add_note(f"{kind} number {number} of {counts[kind]} failed")
                raise
    return len(failures)


def fail_once(scenario, folder, failure, good, keeps_heads):
    expected, at_the_end = good
    state = scenario.make(folder)
    before, heads_before, files_before = contents(state), heads(state), open_files()
    raised = None
    try:
        with failing(*failure):
            result = scenario.act(state)
    except Exception as error:  # noqa: BLE001  # checked below
        raised = error
    if raised is None:
        assert scenario.tolerant
        assert plain(result) == expected
        return
    assert was_injected(raised), f"got {raised!r}"
    # Its traceback keeps objects alive.
    raised = None
    after = contents(state)
    assert after in (before, at_the_end)
    if keeps_heads:
        assert heads(state) == heads_before
    if open_files() > files_before:
        gc.collect()
        assert open_files() <= files_before
    if after == before:
        assert plain(scenario.act(state)) == expected
        assert contents(state) == at_the_end


@pytest.mark.parametrize("name", ONE_ACCESS)
def test_an_access_that_fails_changes_nothing(name):
    campaign(ONE_ACCESS[name], keeps_heads=True)


@pytest.mark.parametrize("name", SEVERAL)
def test_an_operation_that_fails_loses_nothing(name):
    campaign(SEVERAL[name], keeps_heads=False)


def test_an_operation_that_fails_beside_an_idle_thread_is_not_tried_again():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        campaign(SEVERAL["__iadd__ across sides"], keeps_heads=False)


# One format of each library is enough.
AGAIN = {"convert to .h5", "convert to .pt", "convert to .caffemodel.h5", "convert to .npz"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long) if name in AGAIN else name for name in OF_FILES],
)
def test_files_are_whole_whatever_fails(name):
    assert campaign(OF_FILES[name], keeps_heads=False) > 0


@pytest.mark.parametrize("name", OF_TORCH_AND_DASK)
def test_an_operation_of_torch_or_dask_that_fails_loses_nothing(name):
    campaign(OF_TORCH_AND_DASK[name], keeps_heads=False)


def test_the_campaign_finds_what_is_half_written():
    """The campaign would detect a scenario that writes in two steps and fails between them."""

    def act(state):
        state["a"].mutable_cpu_data()[...] = 0
        values = state["b"].cpu_data()
        state["a"].mutable_cpu_data()[...] = values

    both = SEVERAL["a + b, host and device"].make
    with pytest.raises(AssertionError) as caught:
        campaign(Scenario(both, act), keeps_heads=False)
    assert caught.value.__notes__ == ["host_allocation number 1 of 1 failed"]


def test_there_is_enough_that_can_fail():
    """Each kind of failure occurs in several scenarios."""
    reached = set()
    for scenario in itertools.chain(
        itertools.islice(ONE_ACCESS.values(), 60), SEVERAL.values(), OF_FILES.values()
    ):
        with tempfile.TemporaryDirectory() as folder, counting() as counts:
            scenario.act(scenario.make(Path(folder)))
        reached.update(kind for kind, count in counts.items() if count)
    kinds = {"allocation", "host_allocation", "transfer", "host buffer", "opening", "flush"}
    kinds |= {"rename", "writing", "mapping", "reading", "permissions"}
    assert kinds <= reached
