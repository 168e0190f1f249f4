"""The machine and the versions of a measurement."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import syncblob

__all__ = ["cuda_device", "describe_machine", "kind_of_machine", "versions"]

PACKAGES = (
    "syncblob",
    "numpy",
    "protobuf",
    "torch",
    "array-api-compat",
    "array-api-strict",
    "cupy-cuda12x",
    "cupy-cuda13x",
)


def cuda_device() -> str | None:
    """Return the name of the CUDA device to measure; None if there is none."""
    return "cuda:0" if "cuda:0" in syncblob.available_devices() else None


def kind_of_machine() -> str:
    """Return the kind of machine, which is in the names of the files of results."""
    return "cpu" if cuda_device() is None else "cuda"


def describe_machine() -> dict[str, Any]:
    """Return processor, cores, memory, operating system and, if there is one, the GPU."""
    machine: dict[str, Any] = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
    }
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        machine["memory"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if cuda_device() is not None:
        machine |= _gpu()
    return machine


def versions() -> dict[str, str]:
    """Return the versions of Python and of the compared packages."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    """Return the processor's name from the system. `platform` has it on some systems only."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _gpu() -> dict[str, Any]:
    import cupy  # there is a CUDA device, so CuPy is there

    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(0)
    # The tests' model of CUDA may replace CuPy. Its figures are no measurements.
    marked = {"model": True} if getattr(cupy, "is_model", False) else {}
    return marked | {
        "gpu": properties["name"].decode(),
        "gpu_memory": properties["totalGlobalMem"],
        "cuda_driver": runtime.driverGetVersion(),
        "cuda_runtime": runtime.runtimeGetVersion(),
        "gpu_driver": _driver_release(),
    }


def _driver_release() -> str:
    """Return the release of NVIDIA's driver from its kernel module."""
    release = Path("/sys/module/nvidia/version")
    return release.read_text(encoding="ascii").strip() if release.exists() else "unknown"
