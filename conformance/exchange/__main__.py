"""Measure what other libraries do with a Blob: ``python -m conformance.exchange [--help]``.

Each group of libraries is installed into an environment of its own. Each library is measured in a
process of its own, which is started again behind the cell that has ended it. The results are
written to `results`, and the page is written anew. With ``--compare``, nothing is written: what
has changed is shown, and the exit status is 1 if something has.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

from conformance.exchange import page
from conformance.exchange.results import Cell, Found, results_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ADAPTERS = HERE / "adapters"
# Seconds for one cell, and how often a library is started again.
_PATIENCE, _STARTS = 120, 100


class NotMeasuredError(Exception):
    """A library was not measured."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    options = _parser().parse_args(argv)
    groups: dict[str, list[str]] = defaultdict(list)
    for name in options.library or page.libraries():
        groups[page.about(name)["GROUP"]].append(name)
    if options.newest:
        # The lowest release is always the same.
        groups.pop("lowest", None)
    changed = False
    for group, names in groups.items() if not options.render else ():
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(options.environments or temporary) / f"exchange-{group}"
            for name in names:
                try:
                    python = _environment(folder, names, newest=options.newest)
                    text = page.as_json(measured(name, python))
                except NotMeasuredError as error:
                    print(f"{name}: not measured: {error}", flush=True)
                    changed = True
                    continue
                changed |= _compared(name, text)
                if not options.compare:
                    page.RESULTS.joinpath(f"{name}.json").write_text(text, "utf-8")
    if options.compare:
        return int(changed)
    page.write()
    return 0


def _compared(name: str, text: str) -> bool:
    """Show how the results of a library differ from those that are published; tell if they do."""
    path = page.RESULTS / f"{name}.json"
    before = path.read_text("utf-8") if path.exists() else ""
    lines = before.splitlines(), text.splitlines()
    difference = [*unified_diff(*lines, f"{name}, as published", "now", n=0, lineterm="")]
    print(*difference or [f"{name}: unchanged"], sep="\n", flush=True)
    return bool(difference)


def measured(name: str, python: Path) -> dict[str, Any]:
    """Measure a library with the interpreter of its environment, and return its results.

    NotMeasuredError: if no cell could be measured.
    """
    cells: dict[Cell, Found] = {}
    ended: set[str] = set()
    skipped: list[tuple[str, str, int]] = []
    head: dict[str, Any] = {}
    done = 0
    for _ in range(_STARTS):
        cell: Cell = ()
        halves = 0
        complete = False
        for line in _lines(name, python, done, skipped):
            match line:
                case {"cells": _}:
                    head = line
                case {"begins": index, "cell": [*axes]}:
                    cell, halves, done = tuple(axes), 0, index + 1
                case {"found": found}:
                    cells[cell] = found
                    halves += 1
                case {"ends": _}:
                    complete = True
        if complete:
            break
        if not cell:
            raise NotMeasuredError("its process has ended before the first cell")
        # The next one with an ndarray alone is not worth another start, nor is one like this.
        skipped.append((cell[1], cell[3], min(halves, 1)))
        if not halves:
            ended.add(cell[1])
    else:
        raise NotMeasuredError(f"its process has ended {_STARTS} times")
    about = {"library": page.about(name)["NAME"], "versions": head["versions"]}
    return results_of(cells, ended, about)


def _lines(
    name: str, python: Path, done: int, skipped: list[tuple[str, str, int]]
) -> Iterator[dict[str, Any]]:
    """Yield what the process of a library reports; end it if it reports nothing for long."""
    command = [python, "-m", "conformance.exchange.measure", name, str(done)]
    command.append(json.dumps(skipped))
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    variables = {
        **os.environ,
        "PYTHONPATH": path,
        "CUDA_VISIBLE_DEVICES": "",
        "JAX_PLATFORMS": "cpu",
        "OCL_ICD_FILENAMES": str(python.parent.parent / "lib" / "libintelocl.so"),
    }
    with subprocess.Popen(  # noqa: S603  # our own interpreter
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=variables, text=True
    ) as process:
        timer = threading.Timer(_PATIENCE, process.kill)
        timer.start()
        for line in process.stdout or ():
            timer.cancel()
            yield json.loads(line)
            timer = threading.Timer(_PATIENCE, process.kill)
            timer.start()
        timer.cancel()


def _environment(folder: Path, names: Sequence[str], *, newest: bool) -> Path:
    """Make an environment with what some libraries require; return its interpreter.

    NotMeasuredError: if Python is not found, or pip fails.
    """
    python, installed = folder / "bin" / "python", folder / "installed"
    about = [page.about(name) for name in names]
    release = next((x["PYTHON"] for x in about if "PYTHON" in x), sys.executable)
    required = list(dict.fromkeys(part for x in about for part in x["REQUIRES"]))
    if newest:
        required = [part.partition("==")[0] for part in required]
    if installed.exists() and {*required} <= {*installed.read_text("utf-8").splitlines()}:
        return python
    try:
        subprocess.run([release, "-m", "venv", folder], check=True)  # noqa: S603  # as above
        install = [python, "-m", "pip", "install", "-q", "ml-dtypes", *required, "-e", ROOT]
        subprocess.run(install, check=True)  # noqa: S603  # as above
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotMeasuredError(f"its environment cannot be made: {error}") from error
    installed.write_text("\n".join(required), "utf-8")
    return python


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m conformance.exchange", description=__doc__.partition("\n")[0]
    )
    add = parser.add_argument
    add("library", nargs="*", choices=[*page.libraries(), []], help="adapters (default: all)")
    add("--render", action="store_true", help="measure nothing, and write the page anew")
    add("--compare", action="store_true", help="write nothing, and show what has changed")
    add("--newest", action="store_true", help="install the newest releases, not those measured")
    add("--environments", help="folder in which environments are kept, and found again")
    return parser


if __name__ == "__main__":
    sys.exit(main())
