"""The array API test suite: finding it, cloning it, and checking its commits."""

from __future__ import annotations

import json
import os
import shutil
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


SUITE = Source(
    "https://github.com/data-apis/array-api-tests", "55fcc60179efa2680ddd6cd926ddf17b83530e2b"
)
SPECIFICATION = Source(
    "https://github.com/data-apis/array-api", "5f847a3858875c682ae901aa22b0413bf24be9da"
)


class Commits(NamedTuple):
    """The commits of a suite and of its specification, with "-modified" if files differ."""

    suite: str
    specification: str


def suite_folder(named: Path | None = None) -> Path:
    """Return the folder of the suite, or the one to clone it to.

    Parameters
    ----------
    named
        The requested folder. None means ``$ARRAY_API_TESTS_DIR``, else one in the user's cache.
    """
    if named is not None:
        return named.resolve()
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE]).resolve()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "syncblob" / "array-api-tests"


def provide_suite(named: Path | None = None) -> Path:
    """Return the folder of a suite, cloned into it if there is none.

    Raises
    ------
    SuiteError
        If ``$ARRAY_API_TESTS_DIR`` is used and is not a folder, or if git is missing or fails.
    """
    folder = suite_folder(named)
    if not folder.is_dir():
        if named is None and VARIABLE in os.environ:
            raise SuiteError(f"expected a suite in ${VARIABLE}, got {folder}: not there")
        print(f"cloning the suite into {folder}")
        clone_suite(folder, SUITE, SPECIFICATION)
    return folder


def clone_suite(folder: Path, suite: Source, specification: Source) -> None:
    """Fetch the pinned commits of the suite and the specification into a new folder.

    Raises
    ------
    SuiteError
        If git is missing or fails. The folder does not exist then.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".cloning-") as temporary:
        new = Path(temporary) / folder.name
        _fetch(suite, new)
        _fetch(specification, new / SPECIFICATION_FOLDER)
        new.rename(folder)


def check_suite(folder: Path, *, any_commit: bool = False) -> Commits:
    """Return the commits of a suite.

    Parameters
    ----------
    folder
        The folder of the suite.
    any_commit
        Accept other commits than the pinned ones, and modified files.

    Raises
    ------
    SuiteError
        If the folder has no complete suite, or not the pinned one.
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
    commits = _commits(folder)
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


def _commits(folder: Path) -> Commits:
    """Return the commits of a suite: from git if it has its history, else the recorded ones."""
    copied = folder / COMMITS_FILE
    if copied.is_file() and describe_commit(folder) == "unknown":
        return Commits(**json.loads(copied.read_text(encoding="utf-8")))
    return Commits(describe_commit(folder), describe_commit(folder / SPECIFICATION_FOLDER))


def describe_commit(folder: Path) -> str:
    """Return the commit checked out in a folder, with "-modified" if tracked files differ.

    It is "unknown" if the folder is not the top of a git repository, because git would give the
    commit of the repository around it.
    """
    try:
        if Path(_git(folder, "rev-parse", "--show-toplevel")) != folder.resolve():
            return "unknown"
        commit = _git(folder, "rev-parse", "HEAD")
        changes = _git(folder, "status", "--porcelain", "-uno", "--ignore-submodules=all")
    except SuiteError:
        return "unknown"
    return f"{commit}-modified" if changes else commit


def _fetch(source: Source, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _git(folder, "init", "--quiet")
    _git(folder, "fetch", "--quiet", "--depth=1", source.url, source.commit)
    _git(folder, "checkout", "--quiet", "--detach", source.commit)


def _git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return its output."""
    git = shutil.which("git")
    if git is None:
        raise SuiteError("expected git on the PATH, found none; install it")
    environment = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    done = subprocess.run(  # noqa: S603  # git, with arguments of this file
        [git, "-C", str(folder), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SuiteError(f"git {arguments[0]} failed in {folder}: {done.stderr.strip()}")
    return done.stdout.strip()
