"""The folder to carry: wheels of missing packages, and a suite that names its commits."""

import sys
import zipfile

import pytest

from conformance import suite as conformance_suite
from conformance.suite import Commits, SuiteError, check_suite
from gpu_checks import packing
from gpu_checks.packing import PackError, carried_suite, pack, unpack

PINNED = Commits("1" * 40, "2" * 40)


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
    known = {folder: PINNED[0], folder / "array-api": PINNED[1]}
    monkeypatch.setattr(
        conformance_suite, "describe_commit", lambda place: known.get(place, "unknown")
    )
    return folder


@pytest.fixture(autouse=True)
def _download(monkeypatch):
    """Make wheels of one module instead of downloads."""

    def download(wheels):
        here = f"cp{sys.version_info.major}{sys.version_info.minor}-cp3-linux_x86_64"
        tags = {"numpy": "py3-none-any", "not_installed_anywhere": here, "syncblob": "py3-none-any"}
        # Another Python's.
        for name, tag in (tags | {"not_for_this": "cp38-cp38-linux_x86_64"}).items():
            with zipfile.ZipFile(wheels / f"{name}-1.0-{tag}.whl", "w") as archive:
                archive.writestr(f"{name}.py", "x = 1\n")

    monkeypatch.setattr(packing, "download", download)


def test_what_is_packed_is_found_on_the_machine(suite, tmp_path):
    folder = tmp_path / "new" / "packed"
    lines = pack(folder, suite)
    assert any(PINNED[0] in line for line in lines)
    assert any("4 wheels" in line for line in lines)
    copied = carried_suite(folder)
    assert check_suite(copied) == PINNED
    assert not (copied / ".git").exists()
    assert not (copied / "array-api" / "doc").exists()


def test_only_what_is_missing_is_unpacked_and_each_time(suite, tmp_path):
    pack(tmp_path / "packed", suite)
    site, names = unpack(tmp_path / "packed")
    assert [name.partition("-")[0] for name in names] == ["not_installed_anywhere", "syncblob"]
    assert (site / "not_installed_anywhere.py").is_file()
    assert not (site / "numpy.py").exists()
    # Another Python, with other packages missing, may have unpacked them.
    (site / "not_installed_anywhere.py").unlink()
    (site / "numpy.py").touch()
    assert unpack(tmp_path / "packed") == (site, names)
    assert (site / "not_installed_anywhere.py").is_file()
    assert not (site / "numpy.py").exists()


def test_a_folder_with_files_in_it_is_left_alone(suite, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(PackError, match="empty folder"):
        pack(tmp_path, suite)


def test_another_suite_is_not_packed(suite, tmp_path, monkeypatch):
    monkeypatch.setattr(conformance_suite, "SUITE", conformance_suite.Source("", "3" * 40))
    with pytest.raises(SuiteError, match="3333"):
        pack(tmp_path / "packed", suite)


def test_a_folder_of_others_is_refused(tmp_path):
    with pytest.raises(PackError, match="--pack` made"):
        unpack(tmp_path)
    assert carried_suite(None) is None
    assert carried_suite(tmp_path) is None
