"""`syncblob.formats`: a format of another program, built on what it offers."""

import numpy as np
import pytest

from syncblob import Blob, formats


def raw_blob(path, shape):
    """Open a file of float32 values; read no value before it is accessed."""
    return Blob.from_source(shape, "float32", lambda: np.fromfile(path, np.uint8))


def save_raw(blob, path):
    """Write the values of a Blob; unread ones are not kept in memory."""
    values = formats.untouched_values(blob)
    np.asarray(blob if values is None else values).tofile(path)


@pytest.fixture
def path(tmp_path):
    np.arange(12, dtype=np.float32).tofile(tmp_path / "x.raw")
    return tmp_path / "x.raw"


def test_unread_values_are_copied_without_an_access(path, tmp_path):
    blob = raw_blob(path, (3, 4))
    save_raw(blob, tmp_path / "y.raw")
    assert (tmp_path / "y.raw").read_bytes() == path.read_bytes()
    assert formats.is_untouched(blob)
    assert list(formats.accessed_ranges(blob)) == []


def test_what_has_been_accessed_is_known(path):
    blob = raw_blob(path, (3, 4))
    assert blob[1].tolist() == [4, 5, 6, 7]
    ((first, stop),) = formats.accessed_ranges(blob)
    assert first <= 4
    assert stop >= 8
    assert not formats.is_untouched(blob)
    assert formats.untouched_values(blob) is None


def test_a_missing_diff_is_not_created(path):
    blob = raw_blob(path, (3, 4))
    assert formats.memory_of(blob, diff=True) is None
    assert formats.untouched_values(blob, diff=True) is None
    assert list(formats.accessed_ranges(blob, diff=True)) == []
    assert not formats.is_untouched(blob, diff=True)
    assert formats.memory_of(blob) is blob.memory
    _ = blob.diff.cpu_data()
    assert list(formats.accessed_ranges(blob, diff=True)) == [(0, 12)]


def test_views():
    blob = Blob((3, 4))
    assert formats.shows(blob, (3, 4), "float32")
    assert not formats.shows(blob, (12,), "float32")
    assert not formats.shows(blob[:, :2], (3, 2), "float32")
    assert formats.before_reshape(blob.reshape(12)) is blob
    assert formats.before_reshape(blob) is blob
    part = blob[1:]
    assert formats.before_reshape(part) is part


def test_new_contents():
    blob = Blob(2)
    blob.diff[...] = 1
    formats.write_contents(
        blob, np.full((2, 2), 3, np.float32), "load", gradient=np.eye(2, dtype="f4")
    )
    assert (blob.tolist(), blob.diff.tolist()) == ([[3, 3]] * 2, [[1, 0], [0, 1]])
    formats.write_contents(blob, np.zeros((2, 2), np.float32), "load")
    assert blob.diff.tolist() == [[1, 0], [0, 1]]
