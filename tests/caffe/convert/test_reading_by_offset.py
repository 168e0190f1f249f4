"""Values are read when they are used; of safetensors and HDF5, only the rows that are used."""

import gc
import json
import os
import struct
import tracemalloc
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
}
IN_ORDER = ("x.safetensors", "x.h5")
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
    # Buffers of fixed sizes; NumPy reads an array of an archive, and it is copied.
    copies = {"npz": 2, "h5": 1, "safetensors": 1}[path.suffix[1:]] + path.name.startswith(
        "fortran"
    )
    assert peak < copies * blob.nbytes + 2.5 * 2**20


@formats
@pytest.mark.parametrize("change", ["truncate", "overwrite"])
def test_a_file_that_another_program_changes_raises(path, change):
    weights = open_weights(path)
    (blob,) = weights.tensors.values()
    if change == "truncate":
        os.truncate(path, path.stat().st_size // 2)
    else:
        path.write_bytes(bytes(path.stat().st_size))
        os.utime(path, ns=(1, 1))
    with pytest.raises(ModelFileError, match="another program has written to it"):
        blob.cpu_data()


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
