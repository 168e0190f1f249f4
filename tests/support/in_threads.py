"""Work of several threads at once, which fails the test if it fails or hangs."""

import threading
from concurrent.futures import Future
from contextlib import contextmanager


def in_threads(*works, seconds=60):
    """Call functions at the same moment, each in a thread of its own, and return their results.

    Raises the first of their exceptions, and TimeoutError if one takes longer than that.
    """
    start = threading.Barrier(len(works))
    started = [_started(lambda work=work: (start.wait(seconds), work())[1]) for work in works]
    results = [future.result(seconds) for _, future in started]
    for thread, _ in started:
        thread.join(seconds)
    return results


@contextmanager
def in_the_middle_of(work, seconds=60):
    """Keep another thread in the middle of some work until the block ends, and wait for its end.

    `work`: gets a function to call in the middle, which returns when the block ends.
    """
    arrived, go_on = threading.Event(), threading.Event()

    def wait(*_):
        arrived.set()
        assert go_on.wait(seconds), "the block waits for the other thread"

    thread, future = _started(lambda: work(wait))
    assert arrived.wait(seconds)
    try:
        yield
    finally:
        go_on.set()
        thread.join(seconds)
    future.result(seconds)


def _started(work):
    """Start a thread, and return it and the future result of its work."""
    future = Future()

    def run():
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  # the test gets any error
            future.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, future
