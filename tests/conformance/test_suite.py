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
def repositories(git, tmp_path):
    """Make repositories of a suite and a specification, and return their sources."""
    sources = []
    for name, file in (("suite", "array_api_tests/__init__.py"), ("spec", "src/stubs.py")):
        folder = tmp_path / "repositories" / name
        path = folder / file
        path.parent.mkdir(parents=True)
        git(tmp_path, "init", "--quiet", str(folder))
        path.write_text("x = 1\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", "The pinned one")
        pinned = git(folder, "rev-parse", "HEAD")
        path.write_text("x = 2\n")
        git(folder, "commit", "--quiet", "-a", "-m", "A later one")
        sources.append(Source(folder.as_uri(), pinned))
    return sources


@pytest.fixture
def clone(repositories, monkeypatch, tmp_path):
    """Clone the repositories as if they were the pinned ones, and return the folder."""
    monkeypatch.setattr(suite, "SUITE", repositories[0])
    monkeypatch.setattr(suite, "SPECIFICATION", repositories[1])
    folder = tmp_path / "new" / "clone"
    clone_suite(folder, *repositories)
    return folder


@pytest.mark.parametrize(
    ("named", "variable", "expected"),
    [
        ("named", "variable", "named"),
        ("named", None, "named"),
        (None, "variable", "variable"),
        (None, None, "cache/syncblob/array-api-tests"),
    ],
)
def test_folder_is_the_named_one_then_the_variable_then_the_cache(
    named, variable, expected, monkeypatch, tmp_path
):
    if variable:
        monkeypatch.setenv("ARRAY_API_TESTS_DIR", str(tmp_path / variable))
    assert suite_folder(tmp_path / named if named else None) == tmp_path / expected


def test_a_suite_that_is_there_is_taken_and_another_is_cloned(clone, tmp_path):
    assert provide_suite(clone) == clone
    for named in (None, tmp_path / "missing"):
        assert provide_suite(named) == suite_folder(named)
        assert check_suite(suite_folder(named))


def test_a_variable_that_names_no_folder_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("ARRAY_API_TESTS_DIR", str(tmp_path / "missing"))
    with pytest.raises(SuiteError, match=r"\$ARRAY_API_TESTS_DIR, got .*missing: not there"):
        provide_suite()


def test_a_clone_has_the_pinned_commits_and_nothing_else_beside_it(clone, repositories):
    assert check_suite(clone) == Commits(repositories[0].commit, repositories[1].commit)
    assert (clone / "array_api_tests" / "__init__.py").read_text() == "x = 1\n"
    assert (clone / "array-api" / "src" / "stubs.py").read_text() == "x = 1\n"
    assert list(clone.parent.iterdir()) == [clone]


def test_a_clone_that_fails_leaves_nothing(repositories, tmp_path):
    missing = Source((tmp_path / "missing").as_uri(), "0" * 40)
    folder = tmp_path / "new" / "clone"
    with pytest.raises(SuiteError, match="git fetch failed"):
        clone_suite(folder, repositories[0], missing)
    assert list(folder.parent.iterdir()) == []


@pytest.mark.parametrize("which", ["", "array-api"])
def test_other_commits_are_refused_unless_accepted(which, clone, git):
    folder = clone / which
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "A later one")
    later = git(folder, "rev-parse", "HEAD")
    with pytest.raises(SuiteError, match=f"got .*{later}.*--any-commit accepts it"):
        check_suite(clone)
    assert later in check_suite(clone, any_commit=True)


@pytest.mark.parametrize("file", ["array_api_tests/__init__.py", "array-api/src/stubs.py"])
def test_modified_files_are_refused_unless_accepted(file, clone):
    (clone / file).write_text("x = 3\n")
    with pytest.raises(SuiteError, match="-modified"):
        check_suite(clone)
    assert [commit.endswith("-modified") for commit in check_suite(clone, any_commit=True)] == [
        not file.startswith("array-api/"),
        file.startswith("array-api/"),
    ]


def test_a_folder_without_a_suite_is_refused(tmp_path):
    with pytest.raises(SuiteError, match="got a folder without array_api_tests"):
        check_suite(tmp_path, any_commit=True)


def test_a_suite_without_the_specification_is_refused(make_small_suite):
    folder = make_small_suite().folder
    (folder / "array-api" / "src").rmdir()
    with pytest.raises(SuiteError, match="submodule update --init"):
        check_suite(folder, any_commit=True)


# --- a copy without its history -------------------------------------------------------------------


@pytest.fixture
def copy(clone, tmp_path):
    """Copy only the files of the clone, with a file that names its commits."""
    folder = tmp_path / "copy"
    shutil.copytree(clone, folder, ignore=shutil.ignore_patterns(".git"))
    write_commits(folder, check_suite(clone))
    return folder


def test_a_copy_names_its_commits_and_is_believed(copy, clone, git):
    # Also inside another repository.
    git(copy.parent, "init", "--quiet", str(copy.parent))
    assert check_suite(copy) == check_suite(clone)


def test_a_copy_of_other_commits_is_refused(copy):
    write_commits(copy, Commits("0" * 40, "1" * 40))
    with pytest.raises(SuiteError, match=f"got {'0' * 40} with {'1' * 40}"):
        check_suite(copy)
