"""Guards: transfers that are forbidden or limited."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from syncblob import (
    Blob,
    Head,
    TransferGuardError,
    max_transfers,
    no_transfers,
    record_transfers,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


def at_cpu() -> Blob:
    blob = Blob(4, device="simulated")
    blob.mutable_cpu_data()[...] = 1
    return blob


def test_a_forbidden_transfer_is_not_made_and_names_its_line() -> None:
    blob = at_cpu()
    borrow = blob.mutable_cpu_data()
    with record_transfers() as log, no_transfers(), pytest.raises(TransferGuardError) as caught:
        blob.gpu_data()
    assert len(log) == 0
    assert blob.head is Head.HEAD_AT_CPU
    assert borrow.flags.writeable
    message = str(caught.value)
    assert message.startswith("no transfers allowed here, and gpu_data needs an upload of 16")
    assert f"{__file__}:" in message
    assert "blob.gpu_data()" in message
    assert blob.gpu_data().tolist() == [1] * 4


def test_what_needs_no_transfer_is_allowed() -> None:
    blob = at_cpu()
    with no_transfers():
        np.asarray(blob)
        blob.mutable_cpu_data()
        blob.overwrite_gpu_data()[...] = 1


@pytest.mark.parametrize("forbidden", [lambda blob: blob.async_gpu_push(), np.asarray])
def test_asynchronous_uploads_and_downloads_are_transfers(forbidden: object) -> None:
    blob = at_cpu()
    if forbidden is np.asarray:
        blob.mutable_gpu_data()
    head = blob.head
    with no_transfers(), pytest.raises(TransferGuardError):
        forbidden(blob)  # type: ignore[operator]  # parametrised functions
    assert blob.head is head


def test_a_number_of_transfers_is_allowed() -> None:
    blob = at_cpu()
    with max_transfers(count=2) as guard:
        blob.mutable_gpu_data()
        blob.mutable_cpu_data()
        with pytest.raises(TransferGuardError, match=r"at most 2 transfers .* after 2 of 32 bytes"):
            blob.gpu_data()
    assert (guard.count, guard.nbytes) == (2, 32)


def test_a_number_of_bytes_is_allowed() -> None:
    blob = at_cpu()
    with max_transfers(bytes=20) as guard:
        blob.mutable_gpu_data()
        with pytest.raises(TransferGuardError, match="at most 20 bytes"):
            blob.cpu_data()
    assert (guard.count, guard.nbytes) == (1, 16)


def test_guards_nest_and_all_of_them_count() -> None:
    blob = at_cpu()
    with max_transfers(count=1) as outer, max_transfers(count=5) as inner:
        blob.mutable_gpu_data()
        with pytest.raises(TransferGuardError, match="at most 1 transfer"):
            blob.cpu_data()
    assert (outer.count, inner.count) == (1, 1)
    blob.cpu_data()


def test_a_guard_is_for_its_own_context() -> None:
    blob = at_cpu()
    with no_transfers():
        thread = threading.Thread(target=blob.gpu_data)
        thread.start()
        thread.join()
    assert blob.head is Head.SYNCED


def test_a_limit_needs_a_number() -> None:
    with pytest.raises(TypeError, match="count"):
        max_transfers()


def test_a_failed_transfer_does_not_count(simulated: object) -> None:
    blob = at_cpu()
    with max_transfers(count=1) as guard:
        with simulated.failing(transfer=1), pytest.raises(RuntimeError):  # type: ignore[attr-defined]  # the fixture's backend
            blob.gpu_data()
        blob.gpu_data()
    assert guard.count == 1


# --- again, nested, and by several at once -------------------------------------------------------


def go_there(blob: Blob, times: int = 1) -> None:
    """Transfer 16 bytes up, a number of times."""
    for _ in range(times):
        blob.mutable_cpu_data()
        blob.gpu_data()


def test_a_guard_can_be_used_again_and_each_block_counts_from_zero() -> None:
    blob = at_cpu()
    guard = max_transfers(count=3)
    counts = []
    for times in (1, 2, 1):
        blob.cpu_data()
        with guard as entered:
            assert entered is guard
            assert (guard.count, guard.nbytes) == (0, 0)
            go_there(blob, times)
        counts.append((guard.count, guard.nbytes))
    assert counts == [(1, 16), (2, 32), (1, 16)]
    go_there(blob, 5)
    assert guard.count == 1


def test_a_guard_inside_itself_counts_for_each_block() -> None:
    blob = at_cpu()
    guard = max_transfers(count=3)
    with guard:
        go_there(blob)
        with guard:
            assert guard.count == 0
            go_there(blob)
            assert guard.count == 1
        assert guard.count == 2
        with guard:
            go_there(blob)
            # Of the block around it, not of its own.
            with pytest.raises(TransferGuardError, match=r"at most 3 transfers .* after 3 of 48"):
                go_there(blob)
            assert guard.count == 1
        assert guard.count == 3
    assert guard.count == 3


def test_after_an_error_a_guard_can_be_used_again() -> None:
    blob = at_cpu()
    guard = no_transfers()
    for _ in range(2):
        with pytest.raises(TransferGuardError, match=r"^no transfers allowed here, "), guard:
            blob.gpu_data()
    blob.gpu_data()


def test_threads_use_one_guard_at_once() -> None:
    guard = max_transfers(count=5)
    together = threading.Barrier(4)

    def work(times: int) -> int:
        blob = at_cpu()
        with guard:
            together.wait()
            go_there(blob, times)
            together.wait()
            return guard.count

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, (1, 2, 3, 5))) == [1, 2, 3, 5]


def test_tasks_use_one_guard_at_once() -> None:
    guard = max_transfers(count=3)

    async def work(times: int) -> int:
        blob = at_cpu()
        with guard:
            for _ in range(times):
                go_there(blob)
                await asyncio.sleep(0)
            return guard.count

    async def main() -> list[int | BaseException]:
        return await asyncio.gather(*(work(times) for times in (1, 3, 4)), return_exceptions=True)

    first, second, third = asyncio.run(main())
    assert (first, second) == (1, 3)
    assert isinstance(third, TransferGuardError)


def test_a_block_guards_the_tasks_that_it_starts_until_it_ends() -> None:
    blob = at_cpu()

    async def main() -> None:
        ended = asyncio.Event()

        async def inside() -> None:
            with pytest.raises(TransferGuardError):
                blob.gpu_data()
            await ended.wait()
            blob.gpu_data()
            with guard:
                assert guard.count == 0

        guard = no_transfers()
        with guard:
            task = asyncio.create_task(inside())
            await asyncio.sleep(0)
        ended.set()
        await task

    asyncio.run(main())
    assert blob.head is Head.SYNCED


def test_a_block_guards_threads_that_its_context_goes_to() -> None:
    async def main() -> int:
        with max_transfers(count=1) as guard:
            await asyncio.to_thread(go_there, at_cpu())
            with pytest.raises(TransferGuardError):
                await asyncio.to_thread(go_there, at_cpu())
            return guard.count

    assert asyncio.run(main()) == 1


def test_a_block_may_end_in_another_context() -> None:
    blob = at_cpu()
    guard = no_transfers()
    context = contextvars.copy_context()
    context.run(guard.__enter__)
    with pytest.raises(TransferGuardError):
        context.run(blob.gpu_data)
    guard.__exit__()
    context.run(blob.gpu_data)
    guard.__exit__()
    assert blob.head is Head.SYNCED


# --- decorators ----------------------------------------------------------------------------------


def test_a_decorated_function_is_a_block_at_each_call() -> None:
    guard = max_transfers(count=2)

    @guard
    def work(blob: Blob, *, times: int = 1) -> int:
        """Go there."""
        go_there(blob, times)
        return guard.count

    blob = at_cpu()
    assert [work(blob, times=times) for times in (2, 1, 2)] == [2, 1, 2]
    with pytest.raises(TransferGuardError):
        work(blob, times=3)
    assert work(blob) == 1
    assert (work.__name__, work.__doc__) == ("work", "Go there.")
    assert list(inspect.signature(work).parameters) == ["blob", "times"]
    go_there(blob, 3)


def test_a_decorated_function_may_call_itself() -> None:
    blob = at_cpu()
    guard = max_transfers(count=2)

    @guard
    def work(depth: int) -> list[int]:
        go_there(blob)
        deeper = work(depth - 1) if depth else []
        return [guard.count, *deeper]

    assert work(1) == [2, 1]
    with pytest.raises(TransferGuardError):
        work(2)


def test_methods_can_be_decorated() -> None:
    class Net:
        def __init__(self) -> None:
            self.blob = at_cpu()

        @no_transfers()
        def step(self) -> None:
            go_there(self.blob)

        @staticmethod
        @no_transfers()
        def read(blob: Blob) -> Any:
            return blob.cpu_data()

    with pytest.raises(TransferGuardError, match=r"go_there|blob\.gpu_data"):
        Net().step()
    assert Net.read(at_cpu()).tolist() == [1] * 4


def test_coroutine_functions_can_be_decorated() -> None:
    guard = max_transfers(count=2)

    @guard
    async def work(times: int) -> int:
        """Go there."""
        blob = at_cpu()
        for _ in range(times):
            await asyncio.sleep(0)
            go_there(blob)
        return guard.count

    async def main() -> list[int | BaseException]:
        unguarded = at_cpu()
        waiting = asyncio.gather(work(1), work(2), work(3), return_exceptions=True)
        await asyncio.sleep(0)
        go_there(unguarded, 5)
        return await waiting

    first, second, third = asyncio.run(main())
    assert (first, second) == (1, 2)
    assert isinstance(third, TransferGuardError)
    assert inspect.iscoroutinefunction(work)
    assert (work.__name__, work.__doc__) == ("work", "Go there.")


def test_objects_with_a_coroutine_for_a_call_can_be_decorated() -> None:
    class Work:
        async def __call__(self, blob: Blob) -> None:
            await asyncio.sleep(0)
            blob.gpu_data()

    for work in (Work(), functools.partial(Work.__call__, Work())):
        with pytest.raises(TransferGuardError):
            asyncio.run(no_transfers()(work)(at_cpu()))


def steps() -> Iterator[int]:
    yield 1


async def asynchronous_steps() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("function", [steps, asynchronous_steps, functools.partial(steps)])
def test_generator_functions_cannot_be_decorated(function: Any) -> None:
    with pytest.raises(TypeError, match=r"got the generator function .*steps.*; guard the loop"):
        no_transfers()(function)


@pytest.mark.parametrize("thing", [Blob, 3, None])
def test_only_functions_can_be_decorated(thing: Any) -> None:
    with pytest.raises(TypeError, match="expected a function to guard"):
        no_transfers()(thing)
