"""Ways to run a pipeline: on Blobs, with explicit copies, in managed memory, on the host only."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

import syncblob
from benchmarks.transfers import copy_async, pinned_array
from syncblob import Blob

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.pipeline.dataflow import Buffer, Copy, Pipeline, Use

__all__ = [
    "Copies",
    "CupyCopies",
    "NumpyCopies",
    "PageLockedCopies",
    "bytes_moved",
    "run_by_plan",
    "run_managed",
    "run_naively",
    "run_on_blobs",
    "run_on_host",
]

Results = dict[str, np.ndarray]


def run_on_host(pipeline: Pipeline) -> Results:
    """Run everything with NumPy on one set of arrays, for the expected results."""
    arrays = _host_arrays(pipeline)
    for step in pipeline.steps:
        step.compute(np, *(use.of(arrays[use.name]) for use in step.uses))
    return {name: arrays[name] for name in pipeline.results}


# --- Blobs ----------------------------------------------------------------------------------------


def run_on_blobs(pipeline: Pipeline, device: str) -> Results:
    """Run on Blobs. A step only accesses its buffers; there are no explicit copies."""
    blobs: dict[str, Blob] = {
        name: Blob(buffer.shape, buffer.dtype, device=device)
        for name, buffer in pipeline.buffers.items()
        if not name.endswith(".diff")
    }
    blobs |= {
        name: blobs[name.removesuffix(".diff")].diff
        for name in pipeline.buffers
        if name.endswith(".diff")
    }
    libraries = {"host": np, "device": _library(device)}
    for step in pipeline.steps:
        arrays = (_ask(use.of(blobs[use.name]), step.side, use) for use in step.uses)
        step.compute(libraries[step.side], *arrays)
    return {name: np.asarray(blobs[name]) for name in pipeline.results}


def _ask(blob: Blob, side: str, use: Use) -> Any:
    if side == "host":
        if use.intent == "read":
            return np.asarray(blob)
        return blob.mutable_cpu_data() if use.intent == "update" else blob.overwrite_cpu_data()
    if use.intent == "read":
        return blob.gpu_data()
    return blob.mutable_gpu_data() if use.intent == "update" else blob.overwrite_gpu_data()


def _library(device: str) -> Any:
    if not device.startswith("cuda"):
        return np
    import cupy  # there is a CUDA device, so CuPy is there

    return cupy


# --- explicit copies ------------------------------------------------------------------------------


class Copies(ABC):
    """Arrays on a device and explicit copies, which are counted.

    Attributes
    ----------
    namespace
        The array library of the device.
    nbytes
        The bytes copied so far, in both directions.
    """

    namespace: Any

    def __init__(self) -> None:
        self.nbytes = 0

    def upload(self, host: np.ndarray, device: Any) -> None:
        """Copy from host to device, between arrays of the same shape."""
        self.nbytes += host.nbytes
        self._upload(host, device)

    def download(self, device: Any, host: np.ndarray) -> None:
        """Copy from device to host, between arrays of the same shape."""
        self.nbytes += host.nbytes
        self._download(device, host)

    def host_arrays(self, pipeline: Pipeline) -> Results:
        """Return the arrays of the host, filled with zeros."""
        return _host_arrays(pipeline)

    def before_the_host(self) -> None:  # noqa: B027  # most copies are over when they return
        """Wait for copies that still read host arrays."""

    @abstractmethod
    def _upload(self, host: np.ndarray, device: Any) -> None: ...

    @abstractmethod
    def _download(self, device: Any, host: np.ndarray) -> None: ...


class NumpyCopies(Copies):
    """NumPy arrays in place of those of a device. The number of bytes is the same."""

    namespace = np

    def _upload(self, host: np.ndarray, device: Any) -> None:
        np.copyto(device, host)

    def _download(self, device: Any, host: np.ndarray) -> None:
        np.copyto(host, device)


class CupyCopies(Copies):
    """CuPy arrays."""

    def __init__(self) -> None:
        super().__init__()
        self.namespace = _library("cuda")

    def _upload(self, host: np.ndarray, device: Any) -> None:
        device.set(host)

    def _download(self, device: Any, host: np.ndarray) -> None:
        device.get(out=host)


class PageLockedCopies(CupyCopies):
    """CuPy arrays, and page-locked memory on the host from CuPy's pool.

    Waits for uploads only before the host computes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._uploading = False

    def host_arrays(self, pipeline: Pipeline) -> Results:
        """Return arrays in page-locked memory."""
        arrays = {}
        for name, buffer in pipeline.buffers.items():
            raw = pinned_array(self.namespace, buffer.nbytes)
            arrays[name] = raw.view(buffer.dtype).reshape(buffer.shape)
            arrays[name].fill(0)
        return arrays

    def before_the_host(self) -> None:
        """Wait for uploads, because the host may write what they read."""
        if self._uploading:
            self.namespace.cuda.get_current_stream().synchronize()
            self._uploading = False

    def _upload(self, host: np.ndarray, device: Any) -> None:
        stream = self.namespace.cuda.get_current_stream()
        copy_async(self.namespace, host, device, stream, up=True)
        self._uploading = True

    def _download(self, device: Any, host: np.ndarray) -> None:
        stream = self.namespace.cuda.get_current_stream()
        copy_async(self.namespace, host, device, stream, up=False)
        stream.synchronize()


def run_naively(pipeline: Pipeline, copies: Copies) -> Results:
    """Run with naive copies: each step on the device takes and returns ndarrays.

    Every time, its inputs are uploaded, and its outputs are downloaded.
    """
    arrays = copies.host_arrays(pipeline)
    for step in pipeline.steps:
        hosts = [use.of(arrays[use.name]) for use in step.uses]
        if step.side == "host":
            copies.before_the_host()
            step.compute(np, *hosts)
            continue
        devices = [copies.namespace.empty(host.shape, host.dtype) for host in hosts]
        for use, host, device in zip(step.uses, hosts, devices, strict=True):
            if use.intent != "write":
                copies.upload(host, device)
        step.compute(copies.namespace, *devices)
        for use, host, device in zip(step.uses, hosts, devices, strict=True):
            if use.intent != "read":
                copies.download(device, host)
    return {name: arrays[name] for name in pipeline.results}


def run_by_plan(pipeline: Pipeline, copies: Copies, planned: list[list[Copy]]) -> Results:
    """Run with the minimum of copies, as written with knowledge of the whole pipeline.

    Both sides have all arrays, and `dataflow.plan` gives the copies before each step.
    """
    hosts = copies.host_arrays(pipeline)
    devices = {
        name: copies.namespace.zeros(buffer.shape, buffer.dtype)
        for name, buffer in pipeline.buffers.items()
    }
    *before_steps, at_the_end = planned

    def make(needed: list[Copy]) -> None:
        for copy in needed:
            host, device = copy.use.of(hosts[copy.use.name]), copy.use.of(devices[copy.use.name])
            if copy.to == "host":
                copies.download(device, host)
            else:
                copies.upload(host, device)

    for step, needed in zip(pipeline.steps, before_steps, strict=True):
        make(needed)
        on_host = step.side == "host"
        if on_host:
            copies.before_the_host()
        arrays = hosts if on_host else devices
        library = np if on_host else copies.namespace
        step.compute(library, *(use.of(arrays[use.name]) for use in step.uses))
    make(at_the_end)
    copies.before_the_host()
    return {name: hosts[name] for name in pipeline.results}


# --- managed memory -------------------------------------------------------------------------------


def run_managed(pipeline: Pipeline, *, pooled: bool = False) -> Results:
    """Run in CUDA's managed memory: one address for both sides, whose pages the driver moves.

    The host waits for the device before it accesses the memory.

    Parameters
    ----------
    pipeline
        The pipeline.
    pooled
        Take the memory from a pool that is kept between runs, rather than from CUDA each time.
    """
    cupy = _library("cuda")
    allocate = _managed_pool().malloc if pooled else cupy.cuda.malloc_managed
    devices, hosts = {}, {}
    for name, buffer in pipeline.buffers.items():
        devices[name], hosts[name] = _managed(cupy, buffer, allocate)
    side = "host"
    for step in pipeline.steps:
        if step.side == "host" and side == "device":
            cupy.cuda.Device().synchronize()
        side = step.side
        arrays, library = (hosts, np) if side == "host" else (devices, cupy)
        step.compute(library, *(use.of(arrays[use.name]) for use in step.uses))
    cupy.cuda.Device().synchronize()
    # Copy, because the memory is freed with the arrays of the device.
    return {name: hosts[name].copy() for name in pipeline.results}


@cache
def _managed_pool() -> Any:
    cupy = _library("cuda")
    return cupy.cuda.MemoryPool(cupy.cuda.malloc_managed)


def _managed(cupy: Any, buffer: Buffer, allocate: Callable[[int], Any]) -> tuple[Any, np.ndarray]:
    """Return a CuPy and a NumPy array over the same managed memory."""
    pointer = allocate(buffer.nbytes)
    device = cupy.ndarray(buffer.shape, buffer.dtype, pointer)
    device[...] = 0
    cupy.cuda.Device().synchronize()
    memory = (ctypes.c_uint8 * buffer.nbytes).from_address(pointer.ptr)
    return device, np.frombuffer(memory, buffer.dtype).reshape(buffer.shape)


def _host_arrays(pipeline: Pipeline) -> dict[str, np.ndarray]:
    return {name: np.zeros(*buffer) for name, buffer in pipeline.buffers.items()}


def bytes_moved(pipeline: Pipeline, device: str) -> tuple[int, Results]:
    """Run on Blobs, and return the bytes moved according to the journal, and the results."""
    with syncblob.record_transfers() as log:
        results = run_on_blobs(pipeline, device)
    return log.nbytes, results
