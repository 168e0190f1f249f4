"""The hardware and the software of the machine: ``python -m gpu_checks.environment FILE``.

Each query is independent: a failure is recorded and does not affect the others.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_checks.device import warm_up
from gpu_checks.packing import CARRIED, THERE

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["compute_sanitizer", "main"]

_QUERY = "name,driver_version,memory.total,memory.used,clocks.max.sm,utilization.gpu"


def compute_sanitizer() -> str | None:
    """Return the path of compute-sanitizer; None if it is not installed."""
    found = shutil.which("compute-sanitizer")
    if found:
        return found
    folders = [*Path("/usr/local").glob("cuda*/bin"), *Path("/opt/cuda").glob("bin")]
    return next((str(path) for f in folders if (path := f / "compute-sanitizer").is_file()), None)


def _nvidia_smi() -> Any:
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)  # noqa: S603  # fixed
    values = [line.split(", ") for line in done.stdout.splitlines()]
    return [dict(zip(_QUERY.split(","), each, strict=False)) for each in values] or done.stderr


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in (*THERE, *CARRIED, "syncblob", "cupy-cuda12x", "cupy-cuda13x", "numba-cuda"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _missing() -> list[str]:
    there = _versions()
    cupy = {name for name in there if name.startswith("cupy-cuda")}
    return [name for name in (*THERE, *CARRIED) if name not in {*there, *(cupy and {"cupy"})}]


def _cupy() -> dict[str, Any]:
    import cupy

    runtime = cupy.cuda.runtime
    found: dict[str, Any] = {"version": cupy.__version__, "devices": runtime.getDeviceCount()}
    if getattr(cupy, "is_model", False):
        return found | {"model": True}
    found |= {"runtime": runtime.runtimeGetVersion(), "driver": runtime.driverGetVersion()}
    return found | runtime.getDeviceProperties(0)


def _computes() -> dict[str, Any]:
    """Try parts of CuPy that compile kernels or load CUDA libraries."""
    import cupy

    tries: dict[str, Callable[[], Any]] = {
        "add": lambda: float((cupy.ones(3) + 1).sum()),
        "multiply": lambda: float((cupy.ones((4, 4)) @ cupy.ones((4, 4))).sum()),
        "transform": lambda: float(abs(cupy.fft.fft(cupy.ones(4)))[0]),
        "solve": lambda: float(cupy.linalg.solve(cupy.eye(2), cupy.ones(2)).sum()),
        # CuPy caches compiled kernels, so that the probes need not compile them.
        "kernels of the probes": warm_up,
    }
    return {name: _asked(ask) for name, ask in tries.items()}


def _torch() -> dict[str, Any]:
    import torch

    found: dict[str, Any] = {"version": torch.__version__, "cuda": torch.version.cuda}
    if torch.cuda.is_available():
        found["device"] = torch.cuda.get_device_name(0)
        found["computes"] = float((torch.ones(3, device="cuda") + 1).sum())
    return found


def _syncblob() -> dict[str, Any]:
    import syncblob

    return {
        "version": syncblob.__version__,
        "file": syncblob.__file__,
        "devices": [str(device) for device in syncblob.available_devices()],
    }


_QUESTIONS: dict[str, Callable[[], Any]] = {
    "nvidia-smi": _nvidia_smi,
    "versions": _versions,
    "missing": _missing,
    "syncblob": _syncblob,
    "cupy": _cupy,
    "machine": lambda: import_module("benchmarks.machine").describe_machine(),
    "computes": _computes,
    "torch": _torch,
}


def _asked(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception as error:  # noqa: BLE001  # any error is the answer
        return f"cannot be told: {type(error).__name__}: {error}"


def main(path: Path) -> int:
    """Write each answer as soon as it is known; return 1 if CUDA cannot be used."""
    found: dict[str, Any] = {}
    for name, ask in _QUESTIONS.items():
        found[name] = _asked(ask)
        print(f"{name}: {found[name]}", flush=True)
        cuda = isinstance(found.get("cupy"), dict) and found["cupy"]["devices"]
        found["line"] = f"{_gpu(found)}; missing: {', '.join(found.get('missing') or ['nothing'])}"
        path.write_text(json.dumps(found, indent=1, default=str), encoding="utf-8")
    return 0 if cuda else 1


def _gpu(found: dict[str, Any]) -> str:
    cupy = found.get("cupy")
    if not isinstance(cupy, dict):
        return f"no CuPy: {cupy}"
    if cupy.get("model"):
        return "a model of CUDA, and no GPU"
    driver = found["nvidia-smi"]
    driver = driver[0].get("driver_version", "?") if isinstance(driver, list) else "?"
    return (
        f"{cupy['devices']} x {cupy.get('name')}, driver {driver}, CUDA {cupy.get('runtime')}, "
        f"CuPy {cupy['version']}"
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
