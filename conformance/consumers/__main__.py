"""Try the consumers and compare with the record: ``python -m conformance.consumers``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from conformance.consumers import record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.consumers.record import Record

# The modules of the tables, by the name of the package.
TABLES = {
    "array-api-extra": "array_api_extra_calls",
    "einops": "einops_calls",
    "scikit-learn": "sklearn_calls",
    "scipy": "scipy_calls",
    "xarray": "xarray_calls",
}
DEVICES = ("cpu", "simulated")


def try_consumers(packages: Sequence[str]) -> Record:
    """Make the calls of the packages on each device, and return the outcomes."""
    # SciPy reads this once, when it is imported, and scikit-learn requires it for dispatching.
    os.environ["SCIPY_ARRAY_API"] = "1"
    from conformance.consumers.running import run

    found = record.Record()
    for package in packages:
        found.versions[package] = version(package)
        table = importlib.import_module(f"conformance.consumers.{TABLES[package]}")
        for device in DEVICES:
            for name, outcome in run(table.CALLS, device):
                found.add(package, name, device, str(outcome))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status: 1 if an outcome got worse."""
    parser = argparse.ArgumentParser(prog="python -m conformance.consumers", description=__doc__)
    parser.add_argument(
        "packages", nargs="*", metavar="PACKAGE", help=f"any of {', '.join(TABLES)}; default: all"
    )
    parser.add_argument("--update", action="store_true", help="write the record anew")
    parser.add_argument("--quiet", action="store_true", help="print differences and totals only")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.packages if name not in TABLES]
    if unknown:
        parser.error(f"expected packages among {', '.join(TABLES)}, got {', '.join(unknown)}")
    packages = []
    for package in options.packages or TABLES:
        try:
            version(package)
        except PackageNotFoundError:
            print(f"{package} is not installed: left out")
        else:
            packages.append(package)
    found = try_consumers(packages)
    if not options.quiet:
        print(found.table())
    print(found.totals())
    recorded = record.load()
    changes = record.compare(recorded, found)
    for change in changes:
        print(change)
    if options.update:
        record.save(recorded.updated(found))
        return 0
    if changes:
        print("python -m conformance.consumers --update writes this down")
    return int(any(change.worse for change in changes))


if __name__ == "__main__":
    sys.exit(main())
