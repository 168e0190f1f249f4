"""Values of every format are read at their offsets: the rows that are used, and once."""

import gc
import json
import struct
import tracemalloc
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from syncblob import ModelFileError
from syncblob.caffe.convert import convert, open_weights
from syncblob.caffe.messages.open_file import Descriptor

ROWS, COLUMNS = 512, 1024
VALUES = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)


def _torch(path, array):
    torch = pytest.importorskip("torch")
    torch.save({"a": torch.from_numpy(array)}, path)


def _hdf5(path, array, **settings):
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=array, **settings)


WRITERS = {
    "x.safetensors": lambda path, array: safetensors.numpy.save_file({"a": array}, path),
    "x.npz": lambda path, array: np.savez(path, a=array),
    "fortran.npz": lambda path, array: np.savez(path, a=np.asfortranarray(array)),
    "packed.npz": lambda path, array: np.savez_compressed(path, a=array),
    "fortran_packed.npz": lambda path, array: np.savez_compressed(path, a=np.asfortranarray(array)),
    "x.h5": _hdf5,
    "chunks.h5": lambda path, array: _hdf5(path, array, chunks=(5, COLUMNS), compression="gzip"),
    "x.pt": _torch,
    "transposed.pt": lambda path, array: _torch(path, np.asfortranarray(array)),
}
IN_ORDER = ("x.safetensors", "x.npz", "x.h5", "x.pt")
formats = pytest.mark.parametrize("name", WRITERS)


@pytest.fixture
def path(tmp_path, name):
    WRITERS[name](tmp_path / name, VALUES)
    return tmp_path / name


@pytest.mark.parametrize("name", [*IN_ORDER, "chunks.h5"])
def test_only_the_bytes_of_the_rows_are_read(monkeypatch, path, name):
    (blob,) = open_weights(path).tensors.values()
    counts, read = [], Descriptor.read
    monkeypatch.setattr(
        Descriptor, "read", lambda *given: (counts.append(len(given[1])), read(*given))[1]
    )
    assert np.array_equal(blob[100:110].cpu_data(), VALUES[100:110])
    rows = VALUES[100:110].nbytes
    assert sum(counts) == rows if name in IN_ORDER else sum(counts) < 2 * rows
    assert np.array_equal(blob, VALUES)


@formats
def test_any_range_has_the_values_of_its_library(path):
    (blob,) = open_weights(path).tensors.values()
    for first, stop in ((3, 4), (500, 512), (0, 300)):
        assert np.array_equal(blob[first:stop].cpu_data(), VALUES[first:stop])
    assert blob.reshape(-1)[COLUMNS + 1 : 5 * COLUMNS - 3].tolist() == (
        VALUES.reshape(-1)[COLUMNS + 1 : 5 * COLUMNS - 3].tolist()
    )
    assert np.array_equal(blob, VALUES)


@formats
def test_a_tensor_takes_its_own_memory_and_a_little(path):
    (blob,) = open_weights(path).tensors.values()
    blob[:1].cpu_data()  # imports
    (blob,) = open_weights(path).tensors.values()
    gc.collect()
    tracemalloc.start()
    blob.cpu_data()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Buffers of fixed sizes; of a compressed array in Fortran's order, all of it is unpacked.
    more = {"packed.npz": 5, "fortran_packed.npz": 7.6}.get(path.name, 2.5)
    assert peak < blob.nbytes + more * 2**20


@formats
def test_the_file_is_closed_when_all_is_read_and_by_close(path):
    def descriptors():
        return sum(link.resolve() == path for link in Path("/proc/self/fd").iterdir())

    weights = open_weights(path)
    assert descriptors() == 1
    next(iter(weights.tensors.values())).cpu_data()
    assert descriptors() == 0
    weights = open_weights(path)
    weights.close()
    assert descriptors() == 0


@pytest.mark.parametrize(
    ("name", "shape", "strides", "begin"),
    [
        ("transposed", (3, 2, 4), (1, 12, 3), 0),
        ("gaps", (2, 3), (8, 2), 5),
        ("a column", (4,), (6,), 1),
        ("repeated", (3, 4), (0, 1), 2),
        ("overlapping", (3, 4), (1, 2), 0),
        ("one row", (1, 4), (99, 1), 0),
        ("no values", (0, 4), (1, 1), 0),
        ("a scalar", (), (), 7),
    ],
)
def test_tensors_of_torch_with_any_strides(tmp_path, name, shape, strides, begin):
    torch = pytest.importorskip("torch")
    tensor = torch.arange(40.0).as_strided(shape, strides, begin)
    torch.save({"a": tensor}, tmp_path / "x.pt")
    (blob,) = open_weights(tmp_path / "x.pt").tensors.values()
    assert blob[1:].tolist() == tensor[1:].tolist() if shape else True
    assert blob.tolist() == tensor.tolist(), name


def test_an_archive_of_torch_that_another_tool_compressed(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"a": torch.arange(5000.0)}, tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(tmp_path / "x.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for info in plain.infolist():
            packed.writestr(info.filename, plain.read(info))
    (blob,) = open_weights(tmp_path / "x.pt").tensors.values()
    assert np.array_equal(blob, np.arange(5000.0))


def test_a_member_that_ends_too_early_is_named(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(5000.0))
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", (tmp_path / "a.npy").read_bytes()[:-8])
    contents = bytearray((tmp_path / "x.npz").read_bytes())
    # The size in the directory at the end.
    place = contents.rindex(b"PK\x01\x02") + 24
    struct.pack_into("<I", contents, place, struct.unpack_from("<I", contents, place)[0] + 8)
    (tmp_path / "x.npz").write_bytes(contents)
    (blob,) = open_weights(tmp_path / "x.npz").tensors.values()
    with pytest.raises(ModelFileError, match=r"'a.npy' is damaged \(it ends too early\)"):
        blob.cpu_data()


FLOAT = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
HEADERS = {
    "good": {"a": FLOAT, "__metadata__": {"x": "y"}},
    "spaces": json.dumps({"a": FLOAT}) + "  ",
    "no metadata": {"a": FLOAT, "__metadata__": None},
    "more fields": {"a": {**FLOAT, "x": 1}},
    "twice": {"a": FLOAT, "b": FLOAT},
    "numbers in metadata": {"a": FLOAT, "__metadata__": {"x": 1}},
    "metadata is a list": {"a": FLOAT, "__metadata__": ["x"]},
    "a float": {"a": {**FLOAT, "shape": [2.0]}},
    "a boolean": {"a": {**FLOAT, "shape": [True, 2]}},
    "negative": {"a": {**FLOAT, "shape": [-2, -1]}},
    "unknown dtype": {"a": {**FLOAT, "dtype": "X32"}},
    "known kind of no such width": {"a": {**FLOAT, "dtype": "F128"}},
    "gap": {"a": {**FLOAT, "shape": [1], "data_offsets": [4, 8]}},
    "too short": {"a": {**FLOAT, "shape": [1], "data_offsets": [0, 4]}},
    "beyond the end": {"a": {**FLOAT, "shape": [4], "data_offsets": [0, 16]}},
    "backwards": {"a": {**FLOAT, "data_offsets": [8, 0]}},
    "three offsets": {"a": {**FLOAT, "data_offsets": [0, 4, 8]}},
    "no shape": {"a": {"dtype": "F32", "data_offsets": [0, 8]}},
    "a list": [FLOAT],
    "a tensor is a number": {"a": 8},
    "half a byte": {"a": {"dtype": "F4", "shape": [16], "data_offsets": [0, 8]}},
    "six bits": {"a": {"dtype": "F6_E2M3", "shape": [8], "data_offsets": [0, 6]}, "b": None},
    "not text": '{"a": \ud800',
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_are_refused_if_the_package_refuses_them(tmp_path, case):
    header, path = HEADERS[case], tmp_path / "x.safetensors"
    text = header if isinstance(header, str) else json.dumps(header)
    encoded = text.encode(errors="surrogatepass")
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + bytes(8))
    try:
        with safetensors.safe_open(path, "numpy") as file:
            names = list(file.keys())
    except safetensors.SafetensorError:
        with pytest.raises(ModelFileError, match="truncated or damaged"):
            open_weights(path)
    else:
        if case == "half a byte":
            with pytest.raises(ModelFileError, match="has dtype F4, which a Blob cannot hold"):
                open_weights(path)
            return
        assert list(open_weights(path).tensors) == names


def test_a_header_that_the_package_would_refuse_is_not_written(monkeypatch, tmp_path):
    monkeypatch.setattr("syncblob.caffe.convert.safetensors._MOST_HEADER", 300)
    np.savez(tmp_path / "x.npz", **{f"{number}": np.ones(1) for number in range(9)})
    with pytest.raises(ValueError, match=r"at most 300 bytes, and that of 9 tensors"):
        convert(tmp_path / "x.npz", tmp_path / "x.safetensors")
    assert not (tmp_path / "x.safetensors").exists()
