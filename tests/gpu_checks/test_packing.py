"""The folder to carry: wheels of missing packages, and a suite that names its commits."""

from __future__ import annotations

import json
import sys
import zipfile

import pytest

from conformance import suite as conformance_suite
from conformance.suite import Commits, SuiteError, check_suite
from gpu_checks import packing
from gpu_checks.packing import PackError, carried_suite, pack, unpack

PINNED = Commits("1" * 40, "2" * 40)


def wheel(folder, name, size=0):
    """Write a wheel of one module."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "x = 1\n" + "#" * size)
        archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Name: {name}\nVersion: 1.0\n")
    return path


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """Make a folder that looks like a clone of the pinned suite."""
    folder = tmp_path / "clone"
    for path in ("array_api_tests/__init__.py", "array-api/src/stubs.py", "array-api/doc/x.md"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x = 1\n")
    (folder / ".git").mkdir()
    monkeypatch.setattr(conformance_suite, "SUITE", conformance_suite.Source("", PINNED[0]))
    monkeypatch.setattr(conformance_suite, "SPECIFICATION", conformance_suite.Source("", PINNED[1]))
    real = conformance_suite.describe_commit

    def describe(place):
        if place == folder:
            return PINNED[0]
        return PINNED[1] if place == folder / "array-api" else real(place)

    monkeypatch.setattr(conformance_suite, "describe_commit", describe)
    return folder


@pytest.fixture
def fetched(monkeypatch):
    """Make wheels without downloads, and report a size of a thousand bytes for the checkout."""

    def download(names, wheels):
        for name in names:
            wheel(wheels, name.replace("-", "_"))

    monkeypatch.setattr(packing, "_build", lambda _, wheels: wheel(wheels, "syncblob"))
    monkeypatch.setattr(packing, "_download", download)
    monkeypatch.setattr(packing, "_size_of_checkout", lambda _: 1000)
    return download


@pytest.mark.usefixtures("fetched")
def test_what_is_packed_is_found_on_the_machine(suite, tmp_path):
    folder = tmp_path / "new" / "packed"
    lines = pack(folder, suite)
    assert any(PINNED[0] in line for line in lines)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert len(manifest["wheels"]) == len(packing.CARRIED) + 1
    copied = carried_suite(folder)
    assert check_suite(copied) == PINNED
    assert not (copied / ".git").exists()
    assert not (copied / "array-api" / "doc").exists()


@pytest.mark.usefixtures("fetched")
def test_a_copied_suite_that_was_changed_is_refused(suite, tmp_path):
    pack(tmp_path / "packed", suite)
    copied = carried_suite(tmp_path / "packed")
    # Files that a run leaves behind make no difference.
    (copied / "array_api_tests" / "__pycache__").mkdir()
    (copied / "array_api_tests" / "__pycache__" / "x.pyc").write_text("")
    assert check_suite(copied) == PINNED
    (copied / "array_api_tests" / "__init__.py").write_text("x = 2\n")
    with pytest.raises(SuiteError, match="-modified"):
        check_suite(copied)
    assert check_suite(copied, any_commit=True).suite == f"{PINNED[0]}-modified"


@pytest.mark.usefixtures("fetched")
def test_a_folder_that_becomes_too_large_is_refused(suite, tmp_path):
    with pytest.raises(PackError, match="at most 0 MiB"):
        pack(tmp_path / "nothing", suite, most=5000)


def test_a_folder_with_files_in_it_is_left_alone(suite, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(PackError, match="empty folder"):
        pack(tmp_path, suite)


@pytest.mark.usefixtures("fetched")
def test_another_suite_is_packed_only_where_it_is_accepted(suite, tmp_path, monkeypatch):
    monkeypatch.setattr(conformance_suite, "SUITE", conformance_suite.Source("", "3" * 40))
    with pytest.raises(SuiteError, match="--any-commit"):
        pack(tmp_path / "packed", suite)
    pack(tmp_path / "packed", suite, any_commit=True)
    with pytest.raises(SuiteError, match=PINNED[0]):
        check_suite(carried_suite(tmp_path / "packed"))


def test_only_what_is_missing_is_unpacked_and_once(suite, tmp_path, monkeypatch):
    def download(names, wheels):
        for name in names:
            wheel(wheels, name)

    monkeypatch.setattr(packing, "_build", lambda _, wheels: wheel(wheels, "syncblob"))
    monkeypatch.setattr(packing, "_download", download)
    monkeypatch.setattr(packing, "_size_of_checkout", lambda _: 1000)
    monkeypatch.setattr(packing, "CARRIED", ("numpy", "not_installed_anywhere"))
    pack(tmp_path / "packed", suite)
    site, names = unpack(tmp_path / "packed", tmp_path / "site")
    assert [name.partition("-")[0] for name in names] == ["not_installed_anywhere", "syncblob"]
    assert (site / "not_installed_anywhere.py").is_file()
    assert not (site / "numpy.py").exists()
    (site / "marker").touch()
    assert unpack(tmp_path / "packed", tmp_path / "site")[0] == site
    assert (site / "marker").exists()
    monkeypatch.setattr(packing.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    elsewhere, _ = unpack(tmp_path / "packed")
    assert elsewhere.parent == tmp_path / "temporary"
    assert str(elsewhere) not in sys.path


@pytest.mark.parametrize(
    ("tags", "taken"),
    [
        ("py3-none-any", True),
        (f"cp{sys.version_info.major}{sys.version_info.minor}-cp3-linux_x86_64", True),
        ("cp38-abi3-linux_x86_64", True),
        ("cp38-cp38-linux_x86_64", False),
    ],
)
def test_a_wheel_for_another_python_is_not_taken(tags, taken):
    assert packing._is_missing(f"not_installed_anywhere-1.0-{tags}.whl") is taken


def test_a_folder_of_others_is_refused(tmp_path):
    with pytest.raises(PackError, match="--pack` made"):
        unpack(tmp_path)
    assert carried_suite(None) is None
    assert carried_suite(tmp_path) is None


def test_a_checkout_without_history_cannot_be_packed(tmp_path):
    with pytest.raises(PackError, match="with its history"):
        packing._size_of_checkout(tmp_path)


@pytest.mark.usefixtures("fetched")
def test_what_names_the_commits_must_be_ours(suite, tmp_path):
    pack(tmp_path / "packed", suite)
    copied = carried_suite(tmp_path / "packed")
    (copied / conformance_suite.COMMITS_FILE).write_text("[]")
    with pytest.raises(SuiteError, match="copy the suite again"):
        check_suite(copied)
