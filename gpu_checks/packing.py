"""The folder to copy to a machine without a network: wheels, and the conformance suite.

``.ci/gpu --pack FOLDER`` makes the folder on a machine with a network. On the other machine, wheels
of missing packages are unpacked into a separate folder. Nothing is installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from conformance.suite import Commits

__all__ = ["CARRIED", "THERE", "PackError", "carried_suite", "pack", "unpack"]

ROOT = Path(__file__).resolve().parents[1]

# Packages that such a machine has.
THERE = ("numpy", "cupy", "torch", "pytest", "hypothesis", "protobuf")
# Packages to carry, with all their dependencies.
CARRIED = (
    "array-api-compat",
    "array-api-strict",
    "pytest-timeout",
    "pytest-xdist",
    "execnet",
    "pytest-json-report",
    "pytest-metadata",
    "ndindex",
    "sybil",
    "ml-dtypes",
    "rich",
    "markdown-it-py",
    "mdurl",
    "pygments",
    "myst-parser",
    "mdit-py-plugins",
    "docutils",
    "pyyaml",
    "jinja2",
    "markupsafe",
    "array-api-extra",
    "einops",
    "safetensors",
    "h5py",
    "typing-extensions",
    "scipy",
)

PYTHON = "3.12"
PLATFORMS = tuple(
    f"manylinux{name}_x86_64" for name in ("_2_28", "_2_27", "_2_24", "_2_17", "2014", "1", "2010")
)
MOST = 60 << 20

_SUITE = "suite"
_WHEELS = "wheels"
_MANIFEST = "manifest.json"


class PackError(Exception):
    """The folder cannot be made, or was not made by this command."""


# --- where there is a network ---------------------------------------------------------------------


def pack(
    folder: Path, suite: Path, *, any_commit: bool = False, most: int = MOST, root: Path = ROOT
) -> list[str]:
    """Make the folder to carry; return lines that describe its contents.

    Parameters
    ----------
    folder
        A new or empty folder.
    suite
        A checkout of the conformance suite, with the specification in it.
    any_commit
        Take another suite than the pinned one. The machine then has to accept it, too.
    most
        The maximum of bytes for the folder and the checkout together.
    root
        The checkout.

    Raises
    ------
    PackError
        If a wheel is not available, or the folder becomes too large.
    conformance.suite.SuiteError
        If the suite is not the pinned one.
    """
    if folder.exists() and any(folder.iterdir()):
        raise PackError(f"expected a new or an empty folder, got {folder}, with files in it")
    from conformance.suite import check_suite

    commits = check_suite(suite, any_commit=any_commit)
    wheels = folder / _WHEELS
    wheels.mkdir(parents=True)
    _build(root, wheels)
    _download(CARRIED, wheels)
    pack_suite(suite, folder / _SUITE, commits)
    taken = _size_of_checkout(root)
    total = taken + _size(folder)
    if total > most:
        raise PackError(f"expected at most {most >> 20} MiB, got {total / 2**20:.1f} MiB")
    names = sorted(path.name for path in wheels.iterdir())
    manifest = {"wheels": names, "suite": commits._asdict()}
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return [
        f"{len(names)} wheels, {_size(wheels) / 2**20:.1f} MiB",
        f"the suite at {commits.suite}, {_size(folder / _SUITE) / 2**20:.1f} MiB",
        f"with the checkout {total / 2**20:.1f} MiB of {most >> 20} MiB",
    ]


def pack_suite(suite: Path, target: Path, commits: Commits) -> None:
    """Copy the files of a suite without its history, and record their commits."""
    from conformance.suite import SPECIFICATION_FOLDER, write_commits

    unused = shutil.ignore_patterns(".git", ".github", "__pycache__", "*.pyc", ".hypothesis")
    shutil.copytree(suite, target, ignore=unused)
    # The suite reads only the signatures, in src, and the list of them, in spec.
    for path in (target / SPECIFICATION_FOLDER).iterdir():
        if path.is_dir() and path.name not in ("spec", "src"):
            shutil.rmtree(path)
    write_commits(target, commits)


def _build(root: Path, wheels: Path) -> None:
    """Build the wheel of this checkout, whose history gives the version."""
    _pip("wheel", "--no-deps", "--wheel-dir", str(wheels), str(root))


def _download(names: Iterable[str], wheels: Path) -> None:
    options = ("--no-deps", "--only-binary=:all:", "--python-version", PYTHON)
    implementation = ("--implementation", "cp")
    platforms = [part for name in PLATFORMS for part in ("--platform", name)]
    _pip("download", *options, *implementation, *platforms, "--dest", str(wheels), *names)


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own interpreter
    if done.returncode:
        raise PackError(f"pip {arguments[0]} failed: {done.stderr.strip()[-1500:]}")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _size_of_checkout(root: Path) -> int:
    command = [shutil.which("git") or "git", "-C", str(root), "ls-files", "-z"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  # git, with fixed arguments
    except (OSError, subprocess.CalledProcessError):
        raise PackError(
            "expected git, and a checkout with its history: the wheel's version comes from there"
        ) from None
    paths = [root / name for name in done.stdout.split("\0") if name]
    return sum(path.stat().st_size for path in paths if path.is_file())


# --- on the machine -------------------------------------------------------------------------------


def unpack(folder: Path, target: Path | None = None) -> tuple[Path, list[str]]:
    """Unpack the wheels of missing packages; return the folder for the path, and the names.

    Parameters
    ----------
    folder
        A folder made by `pack`.
    target
        The target folder. The default is a temporary folder named after the wheels. Packages that
        it already has are used.

    Raises
    ------
    PackError
        If `folder` was not made by `pack`.
    """
    wheels = sorted((folder / _WHEELS).glob("*.whl"))
    if not (folder / _MANIFEST).is_file() or not wheels:
        raise PackError(f"expected a folder that `.ci/gpu --pack` made, got {folder}")
    wanted = [wheel for wheel in wheels if _is_missing(wheel.name)]
    digest = hashlib.sha256(repr([(w.name, w.stat().st_size) for w in wanted]).encode())
    if target is None:
        name = f"syncblob-gpu-{os.getuid()}-{digest.hexdigest()[:12]}"
        target = Path(tempfile.gettempdir()) / name
    names = [wheel.name for wheel in wanted]
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
            new = Path(temporary) / "new"
            new.mkdir()
            for wheel in wanted:
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(new)
            new.rename(target)
    return target, names


def _is_missing(wheel: str) -> bool:
    """Tell whether a wheel works here and is not installed. syncblob's own always counts."""
    name, *_, interpreter, interface, _platform = wheel.split("-")
    here = f"cp{sys.version_info.major}{sys.version_info.minor}"
    if interpreter.startswith("cp") and interface != "abi3" and interpreter != here:
        # Compiled for another Python, as in a trial on another machine.
        return False
    if name == "syncblob":
        return True
    try:
        version(re.sub(r"[-_.]+", "-", name))
    except PackageNotFoundError:
        return True
    return False


def carried_suite(folder: Path | None) -> Path | None:
    """Return the folder of the suite in a carried folder; None if there is none."""
    suite = None if folder is None else folder / _SUITE
    return suite if suite is not None and suite.is_dir() else None
