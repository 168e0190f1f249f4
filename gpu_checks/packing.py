"""The folder to copy to a machine without a network: wheels, and the conformance suite.

``.ci/gpu --pack FOLDER`` makes the folder on a machine with a network. On the other machine, wheels
of missing packages are unpacked into a separate folder. Nothing is installed.
"""

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Packages that such a machine has.
THERE = ("numpy", "cupy", "torch", "pytest", "hypothesis", "protobuf")
# Packages to carry, with all their dependencies.
CARRIED = """
    array-api-compat array-api-strict array-api-extra pytest-timeout pytest-xdist execnet
    pytest-json-report pytest-metadata ndindex sybil ml-dtypes rich markdown-it-py mdurl pygments
    myst-parser mdit-py-plugins docutils pyyaml jinja2 markupsafe einops safetensors h5py
    typing-extensions scipy
""".split()  # noqa: SIM905  # reads best as words

PYTHON = "3.12"
PLATFORMS = tuple(
    f"manylinux{name}_x86_64" for name in ("_2_28", "_2_27", "_2_24", "_2_17", "2014", "1", "2010")
)

_SUITE = "suite"
_WHEELS = "wheels"
_SITE = "site"


class PackError(Exception):
    """The folder cannot be made, or was not made by this command."""


def pack(folder: Path, suite: Path) -> list[str]:
    """Make the folder to carry; return lines that describe its contents.

    `folder`: a new or empty folder.
    `suite`: a checkout of the pinned conformance suite, with the specification in it.
    PackError: if the folder has files, or a wheel is not available.
    conformance.suite.SuiteError: if the suite is not the pinned one.
    """
    from conformance.suite import SPECIFICATION_FOLDER, check_suite, write_commits

    if folder.exists() and any(folder.iterdir()):
        raise PackError(f"expected a new or an empty folder, got {folder}, with files in it")
    commits = check_suite(suite)
    wheels, copy = folder / _WHEELS, folder / _SUITE
    wheels.mkdir(parents=True)
    download(wheels)
    unused = shutil.ignore_patterns(".git", ".github", "__pycache__", "*.pyc", ".hypothesis")
    shutil.copytree(suite, copy, ignore=unused)
    # The suite reads only the signatures, in src, and the list of them, in spec.
    for path in (copy / SPECIFICATION_FOLDER).iterdir():
        if path.is_dir() and path.name not in ("spec", "src"):
            shutil.rmtree(path)
    write_commits(copy, commits)
    return [
        f"{len([*wheels.iterdir()])} wheels, {_size(wheels) / 2**20:.1f} MiB",
        f"the suite at {commits.suite}, {_size(copy) / 2**20:.1f} MiB",
    ]


def download(wheels: Path) -> None:
    """Build the wheel of this checkout, whose history gives the version, and get the others."""
    options = ("--no-deps", "--only-binary=:all:", "--python-version", PYTHON)
    platforms = [part for name in PLATFORMS for part in ("--platform", name)]
    _pip("wheel", "--no-deps", "--wheel-dir", str(wheels), str(ROOT))
    _pip("download", *options, "--implementation=cp", *platforms, "--dest", str(wheels), *CARRIED)


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own interpreter
    if done.returncode:
        raise PackError(f"pip {arguments[0]} failed: {done.stderr.strip()[-1500:]}")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def unpack(folder: Path) -> tuple[Path, list[str]]:
    """Unpack the wheels of missing packages; return the folder for the path, and their names.

    They are unpacked into the carried folder. What another Python may have unpacked there before is
    replaced: it has other packages missing. PackError: if `folder` was not made by `pack`.
    """
    wheels = [path for path in sorted((folder / _WHEELS).glob("*.whl")) if _is_missing(path.name)]
    if not wheels:
        raise PackError(f"expected a folder that `.ci/gpu --pack` made, got {folder}")
    site = folder / _SITE
    shutil.rmtree(site, ignore_errors=True)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    return site, [wheel.name for wheel in wheels]


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
