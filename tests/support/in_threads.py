"""Work of several threads at once, which fails the test if it fails or hangs."""

import threading
from concurrent.futures import Future


def in_threads(*works, seconds=60):
    """Call functions at the same moment, each in a thread of its own, and return their results.

    Raises the first of their exceptions, and TimeoutError if one takes longer than that.
    """
    start = threading.Barrier(len(works))
    futures = [Future() for _ in works]

    def run(work, future):
        try:
            start.wait(seconds)
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  # the test gets any error
            future.set_exception(error)

    threads = [
        threading.Thread(target=run, args=pair, daemon=True)
        for pair in zip(works, futures, strict=True)
    ]
    for thread in threads:
        thread.start()
    results = [future.result(seconds) for future in futures]
    for thread in threads:
        thread.join(seconds)
    return results
