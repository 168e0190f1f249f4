"""CuPy arrays over the memory of other libraries' CUDA arrays."""

from __future__ import annotations

from typing import Any

from syncblob.arrays import dlpack_capsules
from syncblob.devices import accelerator
from syncblob.devices.cuda import CudaBackend, device_count

# DLPack's numbers of the legacy default stream, and of the default stream of a thread.
_LEGACY, _PER_THREAD = 1, 2


def import_array(x: Any, *, copy: bool | None = None) -> Any:
    """Return a CuPy array over the memory of a CUDA array of any library.

    DLPack is used if the object has it: PyTorch's tensors have version 2 of the CUDA array
    interface, which has no stream, and the interface cannot describe bfloat16.

    If it is read-only, the array is a copy, because CuPy arrays are always writable, unless `copy`
    is True, which leaves that to the caller.

    Raises
    ------
    NoDeviceError
        If CuPy cannot use a CUDA device here.
    ValueError
        If `copy` is False and `x` is read-only.
    """
    if not device_count():
        accelerator("cuda:0")
    import cupy  # only called with CUDA arrays

    if isinstance(x, cupy.ndarray):
        return x
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        producer = _Producer(x)
        array = cupy.from_dlpack(producer)
        read_only = producer.read_only
    else:
        address, read_only = x.__cuda_array_interface__["data"]
        runtime = cupy.cuda.runtime
        # CuPy copies memory that is not on the current device.
        index = runtime.pointerGetAttributes(address).device if address else runtime.getDevice()
        with cupy.cuda.Device(index):
            array = cupy.asarray(x)
    if read_only and copy is False:
        raise ValueError(
            "copy=False was asked for, but the array is read-only, and a Blob's memory is written "
            "by transfers"
        )
    if not read_only or copy:
        return array
    backend = accelerator(CudaBackend.device_of(array))
    return backend.compute(backend.copy, array)


class _Producer(dlpack_capsules.Producer):
    """A producer that records whether its capsule is read-only, which CuPy ignores."""

    read_only: bool = False

    def __dlpack__(self, **keywords: Any) -> Any:
        if keywords.get("stream") == _PER_THREAD:
            # PyTorch refuses it. The legacy stream is ordered with it.
            keywords["stream"] = _LEGACY
        capsule = super().__dlpack__(**keywords)
        dlpack_capsules.supported_type(capsule, self._producer)
        self.read_only = dlpack_capsules.is_read_only(capsule)
        return capsule
