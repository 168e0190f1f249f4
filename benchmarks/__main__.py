"""Run the benchmarks: ``python -m benchmarks [GROUP ...]``."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import PackageNotFoundError, version

from benchmarks import aliases, array_api, files, import_time, interop

GROUPS = {
    "aliases": aliases.main,
    "array_api": array_api.main,
    "files": files.main,
    "import_time": import_time.main,
    "interop": interop.main,
}
PACKAGES = ("syncblob", "numpy", "protobuf", "torch", "array-api-strict", "cupy-cuda13x")


def describe_machine() -> str:
    """Say what was measured on, and with which versions."""
    versions = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return f"{platform.system()} {platform.machine()}; {', '.join(versions)}"


def main() -> None:
    """Run the groups named on the command line, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"any of {', '.join(GROUPS)}")
    names = parser.parse_args().groups or list(GROUPS)
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        parser.error(f"expected groups among {', '.join(GROUPS)}, got {', '.join(unknown)}")
    print(describe_machine())
    for name in names:
        GROUPS[name]()


if __name__ == "__main__":
    main()
