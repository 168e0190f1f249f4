"""The array API test suite: finding it, cloning it, and checking its commits."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

VARIABLE = "ARRAY_API_TESTS_DIR"
SPECIFICATION_FOLDER = "array-api"  # the suite reads the functions' signatures there
# The file with the commits of a suite that was copied without its history.
COMMITS_FILE = "copied-commits.json"

# git sets these for its hooks. With them, it takes every folder for the repository of the hook.
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")


class SuiteError(Exception):
    """The suite is missing, or is not the pinned one."""


class Source(NamedTuple):
    """A commit of a repository."""

    url: str
    commit: str


class Commits(NamedTuple):
    """The commits of a suite and of its specification, with "-modified" if files differ."""

    suite: str
    specification: str


SUITE = Source(
    "https://github.com/data-apis/array-api-tests", "55fcc60179efa2680ddd6cd926ddf17b83530e2b"
)
SPECIFICATION = Source(
    "https://github.com/data-apis/array-api", "5f847a3858875c682ae901aa22b0413bf24be9da"
)


def suite_folder(named: Path | None = None) -> Path:
    """Return the named folder of the suite, or that of the variable, or one in the user's cache."""
    if named is not None or VARIABLE in os.environ:
        return (named or Path(os.environ[VARIABLE])).resolve()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "syncblob" / "array-api-tests"


def provide_suite(named: Path | None = None) -> Path:
    """Return the folder of a suite, cloned into it if there is none; else a SuiteError."""
    folder = suite_folder(named)
    if not folder.is_dir():
        if named is None and VARIABLE in os.environ:
            raise SuiteError(f"expected a suite in ${VARIABLE}, got {folder}: not there")
        print(f"cloning the suite into {folder}")
        clone_suite(folder, SUITE, SPECIFICATION)
    return folder


def clone_suite(folder: Path, suite: Source, specification: Source) -> None:
    """Fetch the commits of the suite and the specification into a new folder, or leave none."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".cloning-") as temporary:
        new = Path(temporary) / folder.name
        for source, place in ((suite, new), (specification, new / SPECIFICATION_FOLDER)):
            place.mkdir(parents=True, exist_ok=True)
            _git(place, "init", "--quiet")
            _git(place, "fetch", "--quiet", "--depth=1", source.url, source.commit)
            _git(place, "checkout", "--quiet", "--detach", source.commit)
        new.rename(folder)


def check_suite(folder: Path, *, any_commit: bool = False) -> Commits:
    """Return the commits of a suite; a SuiteError if it is incomplete, or not the pinned one.

    `any_commit` accepts others, and modified files.
    """
    if not (folder / "array_api_tests" / "__init__.py").is_file():
        raise SuiteError(
            f"expected a clone of {SUITE.url} in {folder}, got a folder without array_api_tests"
        )
    if not (folder / SPECIFICATION_FOLDER / "src").is_dir():
        raise SuiteError(
            f"expected the specification in {folder / SPECIFICATION_FOLDER}, got none; "
            f"`git -C {folder} submodule update --init` fetches it"
        )
    copied = folder / COMMITS_FILE
    commits = Commits(describe_commit(folder), describe_commit(folder / SPECIFICATION_FOLDER))
    if commits.suite == "unknown" and copied.is_file():
        commits = Commits(**json.loads(copied.read_text(encoding="utf-8")))
    pinned = Commits(SUITE.commit, SPECIFICATION.commit)
    if commits != pinned and not any_commit:
        raise SuiteError(
            f"expected the suite at {pinned.suite} with the specification at "
            f"{pinned.specification}, got {commits.suite} with {commits.specification}; "
            "--any-commit accepts it"
        )
    return commits


def write_commits(folder: Path, commits: Commits) -> None:
    """Record the commits of a suite that was copied without its history."""
    text = json.dumps(commits._asdict(), indent=1)
    (folder / COMMITS_FILE).write_text(text + "\n", encoding="utf-8")


def describe_commit(folder: Path) -> str:
    """Return the commit of a clone, with "-modified" if files differ; "unknown" of no clone."""
    # Without this, git would give the commit of a repository around the folder.
    if not (folder / ".git").exists():
        return "unknown"
    changes = _git(folder, "status", "--porcelain", "-uno", "--ignore-submodules=all")
    return _git(folder, "rev-parse", "HEAD") + "-modified" * bool(changes)


def _git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return its output."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603  # ours
    except FileNotFoundError:
        raise SuiteError("expected git on the PATH, found none; install it") from None
    except subprocess.CalledProcessError as error:
        raise SuiteError(f"git {arguments[0]} failed in {folder}: {error.stderr.strip()}") from None
    return done.stdout.strip()
