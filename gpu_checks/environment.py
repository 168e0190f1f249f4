"""The hardware and the software of the machine: ``python -m gpu_checks.environment FILE``.

Each query is independent: a failure is recorded and does not affect the others.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine, installed
from gpu_checks.device import warm_up
from gpu_checks.packing import CARRIED, THERE


def compute_sanitizer() -> str | None:
    """Return the path of compute-sanitizer; None if it is not installed."""
    found = shutil.which("compute-sanitizer")
    if found:
        return found
    folders = [*Path("/usr/local").glob("cuda*/bin"), *Path("/opt/cuda").glob("bin")]
    return next((str(path) for f in folders if (path := f / "compute-sanitizer").is_file()), None)


def _missing() -> list[str]:
    # CuPy's distributions are named after the release of CUDA.
    there = {"cupy" if name.startswith("cupy-cuda") else name for name in installed()}
    return [name for name in (*THERE, *CARRIED) if name not in there]


def _cupy() -> dict[str, Any]:
    """Try parts of CuPy that compile kernels or load CUDA libraries."""
    import cupy

    tries: dict[str, Callable[[], Any]] = {
        "devices": cupy.cuda.runtime.getDeviceCount,
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


_QUESTIONS: dict[str, Callable[[], Any]] = {
    "nvidia-smi": lambda: (
        subprocess.run(
            ["nvidia-smi"],  # noqa: S607  # wherever it is installed
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        ).stdout
    ),
    "versions": installed,
    "missing": _missing,
    "machine": describe_machine,
    "cupy": _cupy,
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
    gpu = "no GPU"
    for name, ask in _QUESTIONS.items():
        found[name] = _asked(ask)
        print(f"{name}: {found[name]}", flush=True)
        if name == "machine" and isinstance(found[name], dict):
            gpu = f"{found[name].get('gpu', gpu)}, driver {found[name].get('gpu_driver')}"
        found["line"] = f"{gpu}; missing: {', '.join(found.get('missing', ()) or ['nothing'])}"
        path.write_text(json.dumps(found, indent=1, default=str), encoding="utf-8")
    cupy = found["cupy"]
    return 0 if isinstance(cupy, dict) and isinstance(cupy["devices"], int) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
