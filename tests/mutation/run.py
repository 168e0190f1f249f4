"""Mutation testing, with mutmut, of the files that keep the two sides in step.

Each mutant is one small change of the source that must make a test fail. Those that survive must
be explained in ``survivors.toml``, by file, function and the changed lines; others are a failure.
``pyproject.toml`` sets what is mutated and which tests run. This works in a temporary copy of the
project, and takes an hour on one core. The tests are collected once. A process is forked for each
mutant, and first tries the tests that killed other mutants of the same function.

Usage: ``python tests/mutation/run.py [--all] [--long]``. Explained mutants are run with ``--all``
only: a mutant that survives runs all tests, and so takes most of the time. The tests are those of
the short tier; with ``--long``, those of both. ``--all --long`` shows what the short tier misses.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import libcst
import mutmut.__main__
import pytest
from mutmut.__main__ import cli, collect_source_file_mutation_data
from mutmut.mutation import mutators
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import change_cwd
from mutmut.utils.format_utils import (
    mangled_name_from_mutant_name,
    orig_function_and_class_names_from_key,
)
from mutmut.workers.isolation import ForkServerRunner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
DEAD = {"killed", "timeout", "segfault"}
# pytest's exit codes if all tests passed, and if some failed.
SURVIVED, KILLED = 0, 1
GENERATED = "# type: ignore # mutmut generated"

# A mutant as in survivors.toml: file, function, the lines before, the lines after.
Mutation = tuple[str, str, str, str]


def without_its_call(statement: libcst.Expr) -> Iterator[libcst.Expr]:
    """Replace a call by a statement that does nothing. mutmut has no such mutation."""
    if isinstance(statement.value, libcst.Call):
        yield statement.with_changes(value=libcst.Ellipsis())


class CollectedTests(PytestRunner):
    """The tests of a running pytest session. The process of each mutant runs its own."""

    def __init__(self, session: pytest.Session, killers: Path) -> None:
        super().__init__()
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
        for item, following in zip(items, [*items[1:], None], strict=True):
            failed = item.session.testsfailed
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if item.session.testsfailed > failed:
                with self.killers.open("a", encoding="utf-8") as file:
                    file.write(f"{function} {item.nodeid}\n")
                return KILLED
        return SURVIVED


class CollectingServer(ForkServerRunner):
    """mutmut's fork server in a pytest session: collecting takes longer than most mutants."""

    def _forkserver_main(self, work_fd: int, result_fd: int) -> None:
        serve, killers = super()._forkserver_main, Path("killers").absolute()
        killers.touch()

        class Serve:
            @staticmethod
            @pytest.hookimpl(tryfirst=True)
            def pytest_runtestloop(session: pytest.Session) -> bool:
                self.test_runner_class = CollectedTests
                self.test_runner_args = {"session": session, "killers": killers}
                serve(work_fd, result_fd)
                return True

        runner = PytestRunner()
        with change_cwd("mutants"):
            runner.execute_pytest(
                ["-q", "-s", *runner._pytest_add_cli_args_test_selection], plugins=[Serve()]
            )


def run_mutmut(*, everything: bool, long: bool) -> None:
    for name in ("pyproject.toml", "src", "tests"):
        whole = PROJECT / name
        if whole.is_dir():
            shutil.copytree(whole, name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(whole, name)
    if long:
        settings = Path("pyproject.toml")
        settings.write_text(settings.read_text("utf-8").replace('"not long"', '""'), "utf-8")
    mutators.mutation_operators.append((libcst.Expr, without_its_call))
    if not everything:
        mutmut.__main__.collect_source_file_mutation_data = with_the_explained_survived
    mutmut.__main__.get_mutant_runner = lambda workers: CollectingServer(workers, PytestRunner, {})
    # One at a time: on a busy machine, tests with threads and delays fail and so kill mutants.
    cli(["run", "--max-children", "1"], standalone_mode=False)


def with_the_explained_survived(*, mutant_names: Sequence[str]) -> Any:
    """Return all mutants as mutmut finds them, with the explained ones marked as run."""
    mutants, by_path = collect_source_file_mutation_data(mutant_names=mutant_names)
    known = explained()
    found = []
    for data, mutant, code in mutants:
        if code is None and described(Path(data.path).as_posix(), mutant) in known:
            data.exit_code_by_key[mutant] = SURVIVED
        found.append((data, mutant, data.exit_code_by_key[mutant]))
    return found, by_path


def described(path: str, mutant: str) -> Mutation:
    """Describe a mutant by its changed lines, because line numbers change."""
    name, owner = orig_function_and_class_names_from_key(mutant)
    lines = [line.replace(GENERATED, "") for line in get_diff_for_mutant(mutant).splitlines()[2:]]
    before, after = (
        "\n".join(line[1:].strip() for line in lines if line[:1] == sign) for sign in "-+"
    )
    return path, f"{owner}.{name}" if owner else name, before, after


def explained() -> set[Mutation]:
    with (HERE / "survivors.toml").open("rb") as file:
        entries = tomllib.load(file)["survivor"]
    if any(not entry["reason"] for entry in entries):
        raise ValueError("expected a reason for every survivor")
    return {
        (entry["file"], entry["function"], entry["before"], entry["after"]) for entry in entries
    }


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run_mutmut(everything="--all" in sys.argv, long="--long" in sys.argv)
        mutants, _ = collect_source_file_mutation_data(mutant_names=[])
        alive: Counter[str] = Counter()
        survivors: dict[Mutation, str] = {}
        for data, mutant, code in mutants:
            status = status_by_exit_code[code]
            if status not in DEAD:
                path = Path(data.path).as_posix()
                alive[path] += 1
                survivors[described(path, mutant)] = status
        os.chdir(PROJECT)

    known = explained()
    total = Counter(Path(data.path).as_posix() for data, _, _ in mutants)
    for path, count in sorted(total.items()):
        print(f"{path}: {count} mutants, {count - alive[path]} killed, {alive[path]} survived")
    for path, function, before, after in known - set(survivors):
        print(f"no longer survives: {path}, {function}\n- {before}\n+ {after}")
    unknown = [mutation for mutation in survivors if mutation not in known]
    for mutation in unknown:
        path, function, before, after = mutation
        print(
            f"{survivors[mutation]}, and not explained: {path}, {function}\n- {before}\n+ {after}"
        )
    return 1 if unknown or not total else 0


if __name__ == "__main__":
    sys.exit(main())
