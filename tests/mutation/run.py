"""Mutation testing, with mutmut.

Each mutant is one small change of the source that should make a test fail; those that survive are
listed. By default, all mutants of the files that keep the two sides in step are tried, and with
``--sample`` a random sample of those of other folders. What mypy rejects does not survive.

``pyproject.toml`` sets what is mutated by default and which tests run. This works in a temporary
copy of the project. The tests are collected once. A process is forked for each mutant, and first
tries the tests that killed other mutants of the same function, then the fast ones. With
``--seconds`` it stops then: few of the mutants that survive a quarter of a minute are killed later.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import libcst
import mutmut.__main__
import pytest
from mutmut.__main__ import cli, collect_source_file_mutation_data
from mutmut.configuration import config
from mutmut.core import MutmutCallStack
from mutmut.mutation import mutators
from mutmut.mutation.data import MutantLineSpans
from mutmut.mutation.diff_apply import generated_function_names, get_diff_for_mutant
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import change_cwd
from mutmut.utils.format_utils import mangled_name_from_mutant_name
from mutmut.workers.isolation import ForkServerRunner

PROJECT = Path(__file__).resolve().parents[2]
DEAD = {"killed", "timeout", "segfault"}
# pytest's exit codes if all tests passed, and if some failed; mutmut's of a mutant not run.
SURVIVED, KILLED, SKIPPED = 0, 1, 34
# The tests of samples: of NumPy's and PyTorch's functions, protocols, and what these share.
SAMPLE_TESTS = """
    tests/numpy_functions tests/torch_functions tests/interop tests/test_guards.py
    tests/test_transfers.py tests/aliases/test_adoption.py tests/aliases/test_attacks.py
    tests/aliases/test_conflicts.py tests/aliases/test_kept_arrays.py
    tests/aliases/test_leases.py tests/devices/test_cuda.py tests/distributed/test_shared_parts.py
    """.split()


def without_its_call(statement: libcst.Expr) -> Iterator[libcst.Expr]:
    """Replace a call by a statement that does nothing. mutmut has no such mutation."""
    if isinstance(statement.value, libcst.Call):
        yield statement.with_changes(value=libcst.Ellipsis())


class CollectedTests(PytestRunner):
    """The tests of a running pytest session. The process of each mutant runs its own."""

    def __init__(self, session: pytest.Session, killers: Path, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.items = {item.nodeid: item for item in session.items}
        self.killers = killers

    def warm_up(self) -> None:
        """Keep the file that mutmut opens here: the next test would fail if it was unclosed."""
        self.muted = sys.stdout

    def run_tests(self, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        """Run tests until one fails: those that killed mutants of the function, then the fast."""
        function = mangled_name_from_mutant_name(mutant_name)
        lines = Counter(self.killers.read_text("utf-8").splitlines())
        kills = {test: lines[f"{function} {test}"] for test in tests}
        duration = state().duration_by_test
        chosen = sorted(tests, key=lambda test: (-kills[test], duration[test], test))
        items = [self.items[test] for test in chosen]
        end = time.monotonic() + self.seconds
        for item, following in zip(items, [*items[1:], None], strict=True):
            if time.monotonic() > end:
                break
            failed = item.session.testsfailed
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if item.session.testsfailed > failed:
                with self.killers.open("a", encoding="utf-8") as file:
                    file.write(f"{function} {item.nodeid}\n")
                return KILLED
        return SURVIVED


class CollectingServer(ForkServerRunner):
    """mutmut's fork server in a pytest session: collecting takes longer than most mutants."""

    seconds = math.inf

    def _forkserver_main(self, work_fd: int, result_fd: int) -> None:
        serve, killers = super()._forkserver_main, Path("killers").absolute()
        killers.touch()

        class Serve:
            @staticmethod
            @pytest.hookimpl(tryfirst=True)
            def pytest_runtestloop(session: pytest.Session) -> bool:
                self.test_runner_class = CollectedTests
                self.test_runner_args = {
                    "session": session,
                    "killers": killers,
                    "seconds": self.seconds,
                }
                serve(work_fd, result_fd)
                return True

        runner = PytestRunner()
        with change_cwd("mutants"):
            runner.execute_pytest(
                ["-q", "-s", *runner._pytest_add_cli_args_test_selection], plugins=[Serve()]
            )


def run_mutmut(options: argparse.Namespace) -> None:
    for name in ("pyproject.toml", "src", "tests", "benchmarks"):
        whole = PROJECT / name
        if whole.is_dir():
            shutil.copytree(whole, name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(whole, name)
    # mutmut has read pyproject.toml when it was imported.
    settings = config()
    if options.long:
        arguments = settings.pytest_add_cli_args
        settings.pytest_add_cli_args = ["" if x == "not long" else x for x in arguments]
    if options.sample:
        settings.only_mutate = [f"src/syncblob/{folder}/*" for folder in options.folders]
        settings.pytest_add_cli_args_test_selection = SAMPLE_TESTS
    mutators.mutation_operators.append((libcst.Expr, without_its_call))

    def chosen(*, mutant_names: Sequence[str]) -> Any:
        """Return all mutants as mutmut finds them, with the exit code of those not to run."""
        mutants, by_path = collect_source_file_mutation_data(mutant_names=mutant_names)
        left_out = not_to_run(mutants, options)
        found = []
        for data, mutant, code in mutants:
            if code is None and mutant in left_out:
                data.exit_code_by_key[mutant] = SKIPPED
            found.append((data, mutant, data.exit_code_by_key[mutant]))
        return found, by_path

    # Who calls whom is not needed, and CPython 3.11 crashes in a context variable that is set while
    # the tests of finalisers collect garbage at every step.
    MutmutCallStack.set = MutmutCallStack.reset = staticmethod(lambda _: None)

    mutmut.__main__.collect_source_file_mutation_data = chosen
    CollectingServer.seconds = options.seconds
    mutmut.__main__.get_mutant_runner = lambda workers: CollectingServer(workers, PytestRunner, {})
    # One at a time: tests with threads and delays would kill mutants by being slow.
    cli(["run", "--max-children", "1"], standalone_mode=False)


def not_to_run(mutants: Sequence[Any], options: argparse.Namespace) -> set[str]:
    """Return the mutants that are not run."""
    names = sorted(mutant for _, mutant, _ in mutants)
    count = min(options.sample or len(names), len(names))
    return {*names} - {*random.Random(0).sample(names, count)}  # noqa: S311  # no secret


def is_rejected(mutant: str, path: Path) -> bool:
    """Tell whether mypy, which finds no error in the source, finds one with a mutant."""
    source, names = path.read_text("utf-8"), generated_function_names(mutant)
    functions = MutantLineSpans.load(path).read_function_sources([*names])
    # From the name on.
    before, after = (x.partition(name)[2] for x, name in zip(functions, names, strict=True))
    try:
        path.write_text(source.replace(before, after), "utf-8")
        return subprocess.run(["mypy"], capture_output=True, check=False).returncode != 0
    finally:
        path.write_text(source, "utf-8")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Mutation testing with mutmut.")
    add = parser.add_argument
    add("--long", action="store_true", help="run the tests of both tiers, not only the short one")
    add("--seconds", type=float, default=math.inf, help="how long to try the tests of a mutant")
    add("--sample", type=int, metavar="COUNT", help="run a random sample of mutants of folders")
    add("folders", nargs="*", help="the folders of the sample, such as calls interop")
    options = parser.parse_args()
    if bool(options.sample) != bool(options.folders):
        parser.error("expected --sample with folders, such as --sample 700 calls interop")
    return options


def main() -> int:
    options = parsed()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run_mutmut(options)
        mutants, _ = collect_source_file_mutation_data(mutant_names=[])
        subprocess.run(["mypy"], check=True)
        total: Counter[str] = Counter()
        alive: Counter[str] = Counter()
        for data, mutant, code in mutants:
            if code != SKIPPED:
                path, status = Path(data.path).as_posix(), status_by_exit_code[code]
                total[path] += 1
                if status not in DEAD and not is_rejected(mutant, Path(path)):
                    alive[path] += 1
                    print(f"{status}: {mutant}\n{get_diff_for_mutant(mutant)}")
        os.chdir(PROJECT)
    for path, count in sorted(total.items()):
        print(f"{path}: {count} mutants, {count - alive[path]} killed, {alive[path]} survived")
    print(f"{total.total()} mutants of {len(mutants)}, {total.total() - alive.total()} killed")
    return 0 if total else 1


if __name__ == "__main__":
    sys.exit(main())
