"""Open damaged HDF5 files for some seconds. Run by `test_fuzz`; prints how many there were."""

from __future__ import annotations

import random
import resource
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from caffe_mutations import made_hdf5, mutated, real_files

from syncblob.caffe import open_model
from syncblob.caffe._lazy import had_diff
from syncblob.caffe.solver_state import open_solver_state
from syncblob.errors import ModelFileError

LONGEST = 1.0
MOST_MEMORY = 300 << 20
METADATA = 20_000


def read_everything(path):
    size = path.stat().st_size
    for reader in (
        lambda: [blob for layer in open_model(path).layers for blob in layer.blobs],
        lambda: open_solver_state(path).history,
    ):
        offset = 0
        start = time.process_time()
        try:
            for blob in reader():
                blob.cpu_data()
                blob.cpu_diff()
        except ModelFileError as error:
            offset = error.offset
        assert 0 <= offset <= size
        assert time.process_time() - start < LONGEST


def compare_with_h5py(path):
    """Compare the values of a model with those that h5py gives, or whether both refuse it.

    What is refused for another reason than that HDF5 finds it damaged is meant: see `_hdf5`.
    """
    try:
        model = open_model(path)
        ours = {
            f"{root}/{layer.name}/{number}": (blob.diff if root == "diff" else blob).cpu_data()
            for layer in model.layers
            for number, blob in enumerate(layer.blobs)
            for root in ("data", "diff")
            if root == "data" or had_diff(blob)
        }
    except ModelFileError as error:
        if "the HDF5 library finds the file damaged" in error.message:
            with pytest.raises(Exception):  # noqa: B017, PT011  # nearly any
                read_by_h5py(path)
        return
    for name, values in ours.items():
        theirs = value_by_h5py(path, name, values.dtype)
        if not np.array_equal(theirs, values, equal_nan=True) and is_defined(path, name):
            np.testing.assert_array_equal(theirs, values, strict=True)


def value_by_h5py(path, name, dtype):
    with h5py.File(path, "r") as file:
        return file[name.encode(errors="surrogateescape")][()].astype(dtype)


def is_defined(path, name):
    """Tell whether h5py reads the same values again and again.

    Where a damaged chunk is shorter unpacked than it should be, HDF5 gives what its memory held.
    """
    found = set()
    for number in range(20):
        noise = [np.full(size, number, np.uint8) for size in (100, 400, 4000, 40_000)]
        found.add(value_by_h5py(path, name, np.float64).tobytes())
        del noise
    return len(found) == 1


def read_by_h5py(path):
    """Read all datasets in the groups of a model, and ask what groups there are."""
    with h5py.File(path, "r") as file:
        for root in ("data", "diff"):
            if root in file:
                _read_group(file[root])


def _read_group(group):
    for key in list(group):
        item = group[key]
        if isinstance(item, h5py.Dataset):
            _ = item.dtype, item.shape, item[()]
        else:
            _read_group(item)


def main(folder, seconds):
    """Damage files until the time is over."""
    corpus = made_hdf5(folder) + real_files(".h5")
    # What the process may take at most, so that a claim that is believed is an error.
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MOST_MEMORY, hard))
    path = folder / "damaged.h5"
    first = random.randrange(2**40)  # noqa: S311  # damage, not secrets
    number = first
    end = time.monotonic() + seconds
    while time.monotonic() < end or number < first + 20:
        number += 1
        print(number, flush=True)  # noqa: T201  # what a crash was made from
        damage = random.Random(number)  # noqa: S311  # as above
        path.write_bytes(mutated(damage, corpus, within=METADATA))
        read_everything(path)
        compare_with_h5py(path)
    print(number - first)  # noqa: T201  # for the test


def _address_space():
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[0]) * resource.getpagesize() if status.exists() else 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
