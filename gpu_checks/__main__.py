"""Check syncblob on a machine with an NVIDIA GPU: ``.ci/gpu --out FOLDER``."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpu_checks.packing import PackError, carried_suite, pack, unpack
from gpu_checks.running import ROOT, Record, kill_all, run_jobs
from gpu_checks.steps import LIMIT, STEPS, Context, chosen, make_jobs, process_environment

WARNING = (
    "A MODEL OF CUDA, AND NO GPU: what passes here is proved about our use of streams, and nothing "
    "about CUDA or CuPy; no figure is a measurement, and none may be published"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 if everything passed, 1 if not, 2 for wrong arguments."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        if options.pack is not None:
            return _pack(options)
        if options.out is None:
            parser.error("expected --out FOLDER, or --pack FOLDER")
        return _run(parser, options)
    except PackError as error:
        print(f"gpu: {error}", file=sys.stderr)
        return 2


def _path(text: str) -> Path:
    # The steps run in the checkout, so relative paths must be resolved here.
    return Path(text).resolve()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=".ci/gpu",
        description=(__doc__ or "").partition(":")[0] + ".",
        epilog=f"The steps, in their order: {', '.join(STEPS)}. A probe is probes/test_forks.",
    )
    add = parser.add_argument
    add("--out", type=_path, metavar="FOLDER", help="where summary.json and the other results go")
    add(
        "--steps",
        default="",
        metavar="LIST",
        help="steps, jobs of them, or patterns: probes,regions",
    )
    add("--limit", type=float, default=LIMIT, metavar="SECONDS", help="for everything together")
    add("--carried", type=_path, metavar="FOLDER", help="what --pack made")
    add("--processes", type=int, default=min(8, os.cpu_count() or 1), metavar="N")
    add(
        "--model",
        nargs="?",
        const="lazy",
        choices=("lazy", "eager"),
        help="try the command without a GPU, on the model of CUDA",
    )
    add("--pack", type=_path, metavar="FOLDER", help="make the folder to carry; needs a network")
    add("--suite", type=_path, metavar="FOLDER", help="the conformance suite to use or to pack")
    return parser


def _pack(options: argparse.Namespace) -> int:
    from conformance.suite import SuiteError, provide_suite

    try:
        print(*pack(options.pack, provide_suite(options.suite)), sep="\n")
    except SuiteError as error:
        print(f"gpu: {error}", file=sys.stderr)
        return 2
    return 0


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, _stop)
    about: dict[str, Any] = {
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [".ci/gpu", *sys.argv[1:]],
        "limit": options.limit,
        "model": options.model,
    }
    if options.model:
        about["warning"] = WARNING
        _shout()
    site = None
    if options.carried is not None:
        site, names = unpack(options.carried)
        sys.path.insert(0, str(site))
        about["carried"] = names
        print(f"carried, and used: {', '.join(names) or 'nothing'}")
    if options.model:
        # For modules that the steps import in this process.
        sys.path.append(str(ROOT / "tests" / "support"))
    suite = options.suite or carried_suite(options.carried)
    context = Context(options.out, suite, options.model, options.processes)
    try:
        jobs = chosen(options.steps, make_jobs(context))
    except ValueError as error:
        parser.error(str(error))
    good = run_jobs(
        jobs,
        Record(options.out, about, jobs),
        process_environment(site, options.model),
        limit=options.limit,
        together={"probes": options.processes},
    )
    print(f"\nwritten: {options.out / 'summary.json'}, the output of each job beside it")
    if options.model:
        _shout()
    return 0 if good else 1


def _stop(number: int, _: object) -> None:
    """Kill all processes and exit. The results so far have been written already."""
    kill_all()
    os._exit(128 + number)


def _shout() -> None:
    edge = "!" * 100
    print(f"{edge}\n{WARNING}\n{edge}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
