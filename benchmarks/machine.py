"""The machine and the versions of a measurement."""

import os
import platform
import re
from collections.abc import Collection
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import syncblob

PACKAGES = ("syncblob", "numpy", "protobuf", "torch", "array-api-compat", "array-api-strict")


def cuda_device() -> str | None:
    """Return the name of the CUDA device to measure; None if there is none."""
    return "cuda:0" if "cuda:0" in syncblob.available_devices() else None


def kind_of_machine() -> str:
    """Return the kind of machine, which is in the names of the files of results."""
    return "cpu" if cuda_device() is None else "cuda"


def describe_machine() -> dict[str, Any]:
    """Return processor, cores, memory, operating system and, if there is one, the GPU."""
    information, release = Path("/proc/cpuinfo"), Path("/sys/module/nvidia/version")
    # `platform` has the processor on some systems only.
    text = information.read_text("ascii", "replace") if information.exists() else ""
    model = re.search(r"model name\s*: (.*)", text)
    machine: dict[str, Any] = {
        "processor": model[1].strip() if model else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
    }
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        machine["memory"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if cuda_device() is None:
        return machine
    import cupy  # there is a CUDA device, so CuPy is there

    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(0)
    # The tests' model of CUDA may replace CuPy. Its figures are no measurements.
    marked = {"model": True} if getattr(cupy, "is_model", False) else {}
    return machine | {
        **marked,
        "gpu": properties["name"].decode(),
        "gpu_memory": properties["totalGlobalMem"],
        "cuda_driver": runtime.driverGetVersion(),
        "cuda_runtime": runtime.runtimeGetVersion(),
        "gpu_driver": release.read_text("ascii").strip() if release.exists() else "unknown",
    }


def installed() -> dict[str, str]:
    """Return the versions of all packages, by their normalized names."""
    return {re.sub("[-_.]+", "-", one.name).lower(): one.version for one in distributions()}


def versions(packages: Collection[str] = PACKAGES) -> dict[str, str]:
    """Return the versions of Python, of those packages that are installed, and of CuPy."""
    found = installed()
    names = [*packages, *sorted(name for name in found if name.startswith("cupy-cuda"))]
    return {"python": platform.python_version()} | {x: found[x] for x in names if x in found}
