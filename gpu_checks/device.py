"""Work on a CUDA device, or on the model of one, for the probes and the random programs."""

import sys
from functools import cache
from typing import Any

# The length of a delay in ticks of the multiprocessors' clock: about 250 ms.
TICKS = 400_000_000

_SPIN = r"""
extern "C" __global__ void spin(long long ticks) {
    long long start = clock64();
    while (clock64() - start < ticks) {}
}
"""


def cupy_of_this_machine() -> Any:
    """Return CuPy or the model; exit with a message if there is neither."""
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount():
            return cupy
    except Exception as error:  # noqa: BLE001  # it says what is missing
        sys.exit(f"no CUDA device: {error}")
    sys.exit("no CUDA device")


def is_model() -> bool:
    """Tell whether CuPy is the model."""
    return bool(getattr(cupy_of_this_machine(), "is_model", False))


@cache
def _spin() -> Any:
    return cupy_of_this_machine().RawKernel(_SPIN, "spin")


def delay(stream: Any, ticks: int = TICKS) -> None:
    """Delay a stream: later work on it starts after the delay.

    On the model this does nothing: its streams only run when they are waited for.
    """
    if is_model():
        return
    with stream:
        _spin()((1,), (1,), (ticks,))


def warm_up(*dtypes: Any) -> None:
    """Load the kernels used below, because loading one later may wait for the device."""
    cupy = cupy_of_this_machine()
    if not is_model():
        _spin()((1,), (1,), (1,))
    for dtype in dtypes or ("uint8", "int32", "float32"):
        array = cupy.zeros(8, dtype)
        array[...] = array.copy()
        array[::2] = array[1::2]
        array.fill(3)
        array += 1
        array.get()
    cupy.cuda.Device().synchronize()


def side_stream() -> Any:
    """Return a stream that is not ordered with any other."""
    return cupy_of_this_machine().cuda.Stream(non_blocking=True)
