"""Random programs: running them, and the devices that they run on, simulated or CUDA.

Programs count copies, make copies and allocations fail, and read arrays on the device. A simulated
device can do this itself. For a CUDA device, real or the model, this module wraps its backend.
"""

import operator
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from devices import SHARED
from hypothesis import reject

from syncblob._layout import Layout
from syncblob.devices import Accelerator, Device, SimulatedBackend, accelerator, simulated


def run_programs(make, numbers):
    """Make programs from numbers and run them; print the number and the steps of a failing one."""
    for number in numbers:
        program = None
        try:
            program = make(number)
            program.run()
        except BaseException:
            trace = [] if program is None else program.trace
            print(f"program {number}:", *trace, sep="\n  ")  # noqa: T201  # for the report
            raise


class Simulated:
    """The simulated device, with NumPy arrays."""

    name = "simulated:0"
    # Whether the arrays that it lends can lose their write permission.
    revocable = True
    # Whether an asynchronous upload that fails raises when it is started.
    fails_at_once = False
    # Whether its arrays have operators.
    computes = True

    def __init__(self):
        self.accelerator = self.controls = simulated(0)
        self.controls.synchronize()
        self.controls.reset_counts()

    def array(self, values):
        """Return an array on the device."""
        return values

    def host_array(self, values):
        """Return an array on the host that the device can share, if it shares memory."""
        return values

    def seen(self, array):
        """Return an array as programs can look at it."""
        return array

    @staticmethod
    def alias(side):
        """Return an alias of a side on the device, as programs can look at it and write it."""
        return np.asarray(side)

    @staticmethod
    def copy(side):
        """Return a private copy of a side on the device, as programs can look at it."""
        return np.array(side, copy=True)

    def consumer(self, how):
        """Return how an alias on the device is made, in place of one on the host."""
        return how

    def count_all(self):
        """Wait until all started copies are counted."""
        self.controls.synchronize()

    def close(self):
        """Restore the device."""
        self.controls.delay = 0.0


class Shared(Simulated):
    """The simulated device that shares the memory of the host. Its work is late."""

    name = SHARED

    def __init__(self):
        self.accelerator = self.controls = simulated(Device(SHARED).index, shared=True)
        self.controls.synchronize()
        self.controls.reset_counts()
        self.controls.delay = 1.0

    def close(self):
        self.controls.synchronize()
        super().close()

    def seen(self, array):
        return Late(self.controls, array) if isinstance(array, np.ndarray) else array


class Cuda:
    """A CUDA device, with CuPy arrays, which are always writable; its methods: see `Simulated`."""

    name = "cuda:0"
    revocable = False
    fails_at_once = True

    def __init__(self):
        import cupy  # or the model of it

        self._library = cupy
        # The model's arrays only support copies and fills.
        self.computes = hasattr(cupy.ndarray, "__add__")
        self.accelerator = accelerator(self.name)
        # A failure that is injected must raise, and not evict another Blob of the program.
        self.accelerator.bounded = False
        self.controls = _Controls(self.accelerator)

    def array(self, values):
        return self._library.asarray(values)

    def host_array(self, values):
        return values

    def seen(self, array):
        return Lent(array) if isinstance(array, self._library.ndarray) else array

    def alias(self, side):
        return self.seen(self._library.asarray(side))

    def copy(self, side):
        return self.seen(self._library.asarray(side.const).copy())

    def from_dlpack(self, side):
        """Return an alias of a side on the device that is made by DLPack."""
        return self.seen(self._library.from_dlpack(side))

    def consumer(self, how):
        del how
        return f"{self._library.__name__}.from_dlpack({{}})"

    def count_all(self):
        """No-op: copies are counted when they are started."""

    def close(self):
        self.accelerator.bounded = True
        self.controls.close()


class SharedCuda(Cuda):
    """A CUDA device that shares its memory with the host."""

    def _array(self, values, side):
        # Not by the method that counts.
        device = type(self.accelerator).allocate(self.accelerator, values.nbytes)
        # The pool gives out memory that work on the current stream still uses.
        self.accelerator.finish(device)
        host = self.accelerator.share(device)
        np.ndarray(values.shape, values.dtype, host)[...] = values
        if side == "cpu":
            return np.ndarray(values.shape, values.dtype, host)
        return self.accelerator.view(device, Layout(values.shape, values.dtype), writable=True)

    def array(self, values):
        return self._array(values, "gpu")

    def host_array(self, values):
        return self._array(values, "cpu")


class Sycl(Cuda):
    """A SYCL device, with dpnp's arrays."""

    name = "sycl:0"
    # dpnp broadcasts no result into an `out` of more axes, and NumPy cannot read its arrays.
    computes = False

    def __init__(self):
        import dpnp

        self._library = dpnp
        self.accelerator = accelerator(self.name)
        self.controls = _Controls(self.accelerator)

    def array(self, values):
        kind = "shared" if self.accelerator.shared else "device"
        return self._library.asarray(values, usm_type=kind)

    def host_array(self, values):
        # Not by the method that counts.
        buffer = type(self.accelerator).allocate_host(self.accelerator, values.nbytes)
        array = np.ndarray(values.shape, values.dtype, buffer)
        array[...] = values
        return array

    def seen(self, array):
        if isinstance(array, self._library.ndarray):
            # dpnp takes an array of no axes for read-only, if it comes by DLPack.
            array.flags.writable = True
        return super().seen(array)

    def alias(self, side):
        try:
            # dpnp.asarray copies what is not dpnp's.
            return self.seen(self._library.asarray(self._library.tensor.asarray(side)))
        except BufferError:
            # Its protocol has no negative strides.
            reject()

    def copy(self, side):
        return self.alias(side.const)


class Lent:
    """An array of CuPy or dpnp that can be read and written like a NumPy array.

    Each read is a copy. Each write is on the current stream, without a wait.
    """

    flags: Any = SimpleNamespace(writeable=True)
    # Whether programs have written by work of their own since they have waited for the device.
    wrote = False

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.array(self._on_host(), dtype)

    def __getitem__(self, key):
        return Lent(self.array[key])

    def __setitem__(self, key, value):
        values = np.asarray(value, np.int32)
        if hasattr(self.array, "get"):
            import cupy  # or the model of it

            values = cupy.asarray(values)
        self.array[key] = values
        Lent.wrote = True

    def __len__(self):
        return len(self.array)

    def __int__(self):
        return int(self._on_host())

    def _on_host(self):
        return self.array.get() if hasattr(self.array, "get") else self.array.asnumpy()


class Late(Lent):
    """An array of a simulated device that programs write by the device's work."""

    def __init__(self, backend, array):
        super().__init__(array)
        self.backend = backend

    @property
    def flags(self):
        return self.array.flags

    def __getitem__(self, key):
        return Late(self.backend, self.array[key])

    def __setitem__(self, key, value):
        self.backend.compute(operator.setitem, self.array, key, value)
        Lent.wrote = True

    def _on_host(self):
        self.backend.finish(None)
        return self.array.copy()


class _Controls(SimulatedBackend):
    """The counters and failures of a simulated device, around another backend."""

    # What counts for each method: the kind of its failures, and the counters.
    _METHODS: ClassVar = {
        "upload": ("transfer", "uploads", "uploaded_bytes"),
        "push": ("transfer", "uploads", "uploaded_bytes"),
        "download": ("transfer", "downloads", "downloaded_bytes"),
        "pull": ("transfer", "downloads", "downloaded_bytes"),
        "allocate": ("allocation", "allocations"),
        "allocate_host": ("host_allocation", "host_allocations"),
    }

    def __init__(self, backend):
        super().__init__(0)
        self._backend = backend
        # The base class has some that call others.
        own, common = type(backend), Accelerator
        self._names = [x for x in self._METHODS if getattr(own, x) is not getattr(common, x)]
        for name in self._names:
            setattr(backend, name, self._watched(name))

    def close(self):
        for name in self._names:
            delattr(self._backend, name)

    def synchronize(self):
        self._backend.synchronize()

    def _watched(self, name):
        real = getattr(self._backend, name)
        kind, counter, *of_bytes = self._METHODS[name]

        def watched(*args, **keywords):
            # Both buffers of a copy have the same length.
            nbytes = getattr(args[0], "nbytes", 0)
            with self._lock.held:
                self._count_down(kind)
                for each, amount in {counter: 1, **dict.fromkeys(of_bytes, nbytes)}.items():
                    setattr(self, each, getattr(self, each) + amount)
            return real(*args, **keywords)

        return watched
