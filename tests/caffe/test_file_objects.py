"""Open binary files instead of paths."""

import gzip
import io

import numpy as np
import pytest

import syncblob
from syncblob import Blob, Layer, ModelFile
from syncblob.errors import ModelFileError
from syncblob.memory import Head

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def model():
    return ModelFile("net", [Layer("ip", "InnerProduct", blobs=[VALUES, np.zeros(2, np.float32)])])


@pytest.mark.parametrize("name", ["x.caffemodel", "x.h5"])
def test_a_model_in_every_place(tmp_path, name):
    path = tmp_path / name
    syncblob.save_model(model(), path)
    with path.open("rb") as file:
        sources = [path, file, io.BytesIO(path.read_bytes())]
        opened = [syncblob.open_model(source) for source in sources]
    for read in opened:
        assert read["ip"].blobs[0].head is Head.UNINITIALIZED
        assert np.array_equal(read["ip"].blobs[0], VALUES)
    assert [read.path for read in opened] == [str(path), str(path), "<BytesIO>"]
    # The name of an open file determines the format.
    with (tmp_path / f"again-{name}").open("wb") as file:
        syncblob.save_model(opened[1], file)
    assert (tmp_path / f"again-{name}").read_bytes() == path.read_bytes()
    assert sorted(found.name for found in tmp_path.iterdir()) == sorted([name, f"again-{name}"])


def test_an_open_file_is_used_from_its_position_on():
    file = io.BytesIO(b"before")
    file.seek(0, io.SEEK_END)
    syncblob.save_model(model(), file)
    file.seek(len(b"before"))
    read = syncblob.open_model(file)
    file.close()
    assert np.array_equal(read.params["ip"][0], VALUES)
    assert file_contents(read) == file_contents(model())


def file_contents(read):
    file = io.BytesIO()
    syncblob.save_model(read, file)
    return file.getvalue()


def test_blobs(tmp_path):
    file = io.BytesIO()
    with pytest.raises(TypeError, match="int64"):
        syncblob.write_blob(Blob.asarray(np.arange(3)), file)
    syncblob.write_blob(VALUES, file)
    file.seek(0)
    assert np.array_equal(syncblob.read_blob(file), VALUES)
    with (tmp_path / "x.npz").open("wb") as other, pytest.raises(ValueError, match=r"got \.npz"):
        syncblob.write_blob(VALUES, other)


def test_text_files_are_refused(tmp_path):
    (tmp_path / "x").write_text("a")
    with (tmp_path / "x").open() as file, pytest.raises(TypeError, match="'rb'"):
        syncblob.open_model(file)
    with pytest.raises(TypeError, match="'wb'"):
        syncblob.save_model(model(), io.StringIO())


@pytest.mark.parametrize("name", ["x.caffemodel.gz", "x.h5.gz"])
def test_archives_are_open_files(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(ValueError, match=r"pass gzip\.open\(path, 'wb'\)"):
        syncblob.save_model(model(), path)
    with gzip.open(path, "wb") as file:
        syncblob.save_model(model(), file)
    assert (gzip.decompress(path.read_bytes())[1:4] == b"HDF") is (name == "x.h5.gz")
    with gzip.open(path) as file:
        assert np.array_equal(syncblob.open_model(file)["ip"].blobs[0], VALUES)
    with pytest.raises(ModelFileError, match=r"pass gzip\.open\(path\)"):
        syncblob.open_model(path)


class Raw(io.RawIOBase):
    """An unbuffered file that takes a few bytes at a time."""

    def __init__(self, most):
        self.contents = b""
        self.most = most

    def write(self, data, /):
        self.contents += data[: self.most]
        return self.most and min(self.most, len(data))


@pytest.mark.parametrize("most", [7, 0, None])
def test_an_unbuffered_file_that_does_not_take_all(most):
    syncblob.save_model(model(), Raw(1 << 20))
    with pytest.raises(BlockingIOError, match=f"took {most} of 77 bytes"):
        syncblob.save_model(model(), Raw(most))
