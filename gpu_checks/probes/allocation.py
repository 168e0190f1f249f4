"""Probes of memory: page-locked, failures of page-locking, and CuPy's other allocators."""

from __future__ import annotations

import gc
import resource
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_checks.device import cupy_of_this_machine, is_model, warm_up
from gpu_checks.probes.report import probe
from syncblob import Blob
from syncblob.devices import accelerator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_checks.probes.report import Report

__all__ = ["allocators", "page_locked", "pinning_fails"]

# CUDA's number for "no memory".
_OUT_OF_MEMORY = 2


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  # read often
        return int(file.read().split()[1]) * resource.getpagesize()


def _backend() -> Any:
    return accelerator("cuda:0")


@probe("is host memory page-locked, and is it given back?")
def page_locked(report: Report) -> None:
    """Make and drop host buffers of several sizes, and check the pool and the process."""
    cupy = cupy_of_this_machine()
    backend = _backend()
    warm_up()
    for nbytes in (1, 4096, 1 << 16, (1 << 16) + 1, 1 << 20):
        buffer = backend.allocate_host(nbytes)
        report.check(f"{nbytes} bytes are page-locked", backend.is_page_locked(buffer))
        del buffer
    ordinary = np.empty(4096, np.uint8)
    report.check("an ordinary array is not", not backend.is_page_locked(ordinary))
    report.check("a part of a buffer is", backend.is_page_locked(backend.allocate_host(4096)[100:]))
    blob = Blob(1 << 10, device="cuda:0")
    host = blob.overwrite_cpu_data()
    report.check("a Blob's host side is", backend.is_page_locked(host.view(np.uint8)))
    del blob, host
    if is_model():
        return
    pool = cupy.get_default_pinned_memory_pool()
    gc.collect()
    free, resident = pool.n_free_blocks(), _resident()
    size, number = 10_000_000, 20
    blobs = [Blob(size, "uint8", device="cuda:0") for _ in range(number)]
    for each in blobs:
        each.overwrite_cpu_data().fill(1)
    grown = _resident() - resident
    report.notes["bytes a byte of page-locked memory"] = round(grown / (size * number), 3)
    report.check("no more than is asked for", grown < 1.2 * size * number, f"{grown} bytes")
    del blobs, each
    gc.collect()
    kept = _resident() - resident
    report.check("large buffers are given back", kept < size, f"{kept} bytes are kept")
    small = [backend.allocate_host(4096) for _ in range(100)]
    del small
    gc.collect()
    report.notes["free blocks of the pool, before and after 100 small buffers"] = (
        free,
        pool.n_free_blocks(),
    )


@contextmanager
def _nothing_can_be_locked(report: Report) -> Iterator[None]:
    """Make page-locking fail with CUDA's error."""
    cupy = cupy_of_this_machine()
    if is_model():
        from cupy_model import _machine

        _machine.can_pin = False
        yield
        _machine.can_pin = True
        return

    def fails(size: int) -> Any:
        del size
        raise cupy.cuda.runtime.CUDARuntimeError(_OUT_OF_MEMORY)

    # Only the pool's allocator can be replaced, which serves small buffers.
    report.notes["provoked by"] = "an allocator of CuPy's that fails, for small buffers"
    cupy.cuda.set_pinned_memory_allocator(fails)
    try:
        yield
    finally:
        cupy.cuda.set_pinned_memory_allocator(cupy.get_default_pinned_memory_pool().malloc)


@probe("is ordinary memory used where none can be page-locked?")
def pinning_fails(report: Report) -> None:
    """Provoke a failure, request more than can exist, and lower the limit of locked memory."""
    backend = _backend()
    warm_up()
    with _nothing_can_be_locked(report):
        for start in ("gpu_data", "async_gpu_push"):
            blob = Blob(100, device="cuda:0")
            blob.overwrite_cpu_data().fill(2)
            page_locked = backend.is_page_locked(blob.cpu_data().view(np.uint8))
            report.check(f"{start}: the memory is ordinary", not page_locked)
            report.attempt(start, getattr(blob, start))
            array = blob.mutable_gpu_data()
            array += 1
            report.equal(f"{start}: contents", set(blob.tolist()), {3.0})
    if is_model():
        return
    # More than any machine has, so that CUDA itself must fail.
    try:
        huge = backend._pinned(1 << 46)  # noqa: SLF001  # what allocate_host asks first
        report.check("64 TiB are not page-locked", huge is None)
    except Exception as error:  # noqa: BLE001  # the error is the answer
        report.fault("64 TiB are not page-locked", repr(error))
    with suppress(ValueError, OSError):
        resource.setrlimit(
            resource.RLIMIT_MEMLOCK, (0, resource.getrlimit(resource.RLIMIT_MEMLOCK)[1])
        )
        blob = Blob(1 << 20, device="cuda:0")
        report.attempt("`ulimit -l 0`: allocation", lambda: blob.overwrite_cpu_data().fill(4))
        report.notes["`ulimit -l 0`: page-locked all the same"] = backend.is_page_locked(
            blob.cpu_data().view(np.uint8)
        )
        report.equal("`ulimit -l 0`: contents", float(blob.gpu_data().max()), 4.0)


@probe("does __dlpack_device__ tell of managed memory, and does every allocator serve?")
def allocators(report: Report) -> None:
    """Make Blobs with CuPy's other allocators, lend them, and compute on them."""
    cupy = cupy_of_this_machine()
    warm_up()
    before = cupy.cuda.get_allocator()
    kinds = {
        "managed": (cupy.cuda.malloc_managed, (13, 0)),
        "a pool of managed": (cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc, (13, 0)),
        "asynchronous": (cupy.cuda.malloc_async, (2, 0)),
        "none": (None, (2, 0)),
    }
    for name, (allocator, device) in kinds.items():
        cupy.cuda.set_allocator(allocator)
        try:
            _use(report, cupy, name, device)
        except Exception as error:  # noqa: BLE001  # go on with the other allocators
            report.fault(name, repr(error))
        finally:
            cupy.cuda.set_allocator(before)


def _use(report: Report, cupy: Any, name: str, device: tuple[int, int]) -> None:
    blob = Blob(1 << 12, device="cuda:0")
    blob.overwrite_cpu_data().fill(1)
    array = blob.mutable_gpu_data()
    array += 1
    found = tuple(map(int, blob.__dlpack_device__()))
    report.equal(f"{name}: __dlpack_device__", found, device)
    # Before there is a buffer, the allocator's kind of memory is unknown.
    untouched = Blob(3, device="cuda:0").__dlpack_device__()
    report.notes[f"{name}: __dlpack_device__ of an untouched Blob"] = tuple(map(int, untouched))
    report.equal(f"{name}: contents", set(blob.tolist()), {2.0})
    taken = report.attempt(f"{name}: cupy.from_dlpack", lambda: cupy.from_dlpack(blob))
    if taken is not None:
        report.equal(f"{name}: the same memory", taken.data.ptr, blob.gpu_data().data.ptr)
    adopted = report.attempt(f"{name}: adopted", lambda: Blob.asarray(cupy.ones(5, "float32")))
    if adopted is not None:
        report.equal(f"{name}: adopted on", adopted.device, "cuda:0")
        report.equal(f"{name}: adopted contents", set(adopted.tolist()), {1.0})
    del taken
    blob.mutable_cpu_data().fill(3)
    blob.async_gpu_push()
    report.equal(f"{name}: pushed", float(blob.gpu_data().max()), 3.0)
    if not is_model():
        _torch_takes(report, name, blob)


def _torch_takes(report: Report, name: str, blob: Blob) -> None:
    try:
        import torch
    except ImportError:
        return
    if torch.cuda.is_available():
        try:
            tensor = torch.from_dlpack(blob)
            report.equal(f"{name}: torch.from_dlpack", float(tensor.max()), 3.0)
            del tensor
        except Exception as error:  # noqa: BLE001  # PyTorch need not take managed memory
            report.notes[f"{name}: torch.from_dlpack"] = repr(error)
