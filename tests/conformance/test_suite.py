"""The suite is found in the expected places, and only the pinned version is accepted."""

import shutil

import pytest

from conformance import suite
from conformance.suite import (
    Commits,
    Source,
    SuiteError,
    check_suite,
    clone_suite,
    provide_suite,
    suite_folder,
    write_commits,
)


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path):
    """Keep the user's cache and suite out of the tests."""
    monkeypatch.delenv("ARRAY_API_TESTS_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def clone(git, tmp_path, monkeypatch):
    """Clone small repositories as if they were the pinned ones, and return the folder."""
    for name, file in (("suite", "array_api_tests/__init__.py"), ("specification", "src/stubs.py")):
        folder = tmp_path / "repositories" / name
        path = folder / file
        path.parent.mkdir(parents=True)
        git(tmp_path, "init", "--quiet", str(folder))
        for number in (1, 2):
            path.write_text(f"x = {number}\n")
            git(folder, "add", ".")
            git(folder, "commit", "--quiet", "-m", f"Number {number}")
        source = Source(folder.as_uri(), git(folder, "rev-parse", "HEAD~1"))
        monkeypatch.setattr(suite, name.upper(), source)
    folder = tmp_path / "new" / "clone"
    clone_suite(folder, suite.SUITE, suite.SPECIFICATION)
    return folder


@pytest.fixture
def copy(clone, tmp_path):
    """Copy only the files of the clone, with a file that names its commits."""
    folder = tmp_path / "copy"
    shutil.copytree(clone, folder, ignore=shutil.ignore_patterns(".git"))
    write_commits(folder, check_suite(clone))
    return folder


def test_a_suite_that_is_there_is_taken_and_another_is_cloned(clone, tmp_path):
    assert provide_suite(clone) == clone
    for named in (None, tmp_path / "missing"):
        assert provide_suite(named) == suite_folder(named)
        assert check_suite(suite_folder(named)) == check_suite(clone)


def test_a_clone_has_the_pinned_commits_and_a_failed_one_leaves_nothing(clone, tmp_path):
    assert check_suite(clone) == Commits(suite.SUITE.commit, suite.SPECIFICATION.commit)
    assert (clone / "array_api_tests" / "__init__.py").read_text() == "x = 1\n"
    assert (clone / "array-api" / "src" / "stubs.py").read_text() == "x = 1\n"
    missing = Source((tmp_path / "missing").as_uri(), "0" * 40)
    with pytest.raises(SuiteError, match="git fetch failed"):
        clone_suite(clone.parent / "other", suite.SUITE, missing)
    assert list(clone.parent.iterdir()) == [clone]


def test_a_copy_names_its_commits_and_is_believed(copy, clone, git):
    # Also inside another repository.
    git(copy.parent, "init", "--quiet", str(copy.parent))
    assert check_suite(copy) == check_suite(clone)
    write_commits(copy, Commits("0" * 40, "1" * 40))
    with pytest.raises(SuiteError, match=f"got {'0' * 40} with {'1' * 40}"):
        check_suite(copy)


@pytest.mark.parametrize("file", ["array_api_tests/__init__.py", "array-api/src/stubs.py"])
def test_other_commits_and_modified_files_are_refused_unless_accepted(file, clone, git):
    changed = clone / file
    changed.write_text("x = 3\n")
    with pytest.raises(SuiteError, match=r"-modified.*--any-commit accepts it"):
        check_suite(clone)
    which = file.startswith("array-api/")
    found = check_suite(clone, any_commit=True)
    assert [commit.endswith("-modified") for commit in found] == [not which, which]
    git(changed.parent, "commit", "--quiet", "-a", "-m", "A later one")
    later = git(changed.parent, "rev-parse", "HEAD")
    with pytest.raises(SuiteError, match=f"got .*{later}.*--any-commit accepts it"):
        check_suite(clone)
    assert check_suite(clone, any_commit=True)[which] == later


def test_an_incomplete_suite_is_refused(clone, tmp_path):
    with pytest.raises(SuiteError, match="got a folder without array_api_tests"):
        check_suite(tmp_path, any_commit=True)
    shutil.rmtree(clone / "array-api" / "src")
    with pytest.raises(SuiteError, match="submodule update --init"):
        check_suite(clone)
