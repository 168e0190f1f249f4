"""Compares syncblob with h5py: both find the same datasets and values, or both refuse.

Known and intended differences: files that `hdf5` refuses although HDF5 finds no damage, because of
links, types or declared sizes that are too large, for example; values that HDF5 itself does not
define (`_is_defined`); and driver blocks, which a damaged file may seem to have, and which HDF5
ignores in a file opened by path but refuses in one read through Python. HDF5 itself is very slow on
some damaged files (`takes_long`).
"""

import contextlib
import io
import time

import h5py
import numpy as np
import pytest

from syncblob.caffe import open_model, open_solver_state
from syncblob.caffe.messages.lazy_blobs import had_diff
from syncblob.errors import ModelFileError


def check_hdf5(path, kind):
    """Compare a file, read as a ``"model"`` or a ``"state"``, with the contents that h5py finds."""
    read, roots = {"model": (_model, ("data", "diff")), "state": (_state, ("history",))}[kind]
    try:
        facts, ours = read(path)
    except ModelFileError as error:
        assert error.message  # noqa: PT017  # the kind of error decides the comparison
        assert 0 <= error.offset <= path.stat().st_size  # noqa: PT017
        if "the HDF5 library finds the file damaged" in error.message:
            by_stream = "driver information block" in error.message
            with pytest.raises(Exception):  # noqa: B017, PT011  # h5py may raise any
                _read_all(io.BytesIO(path.read_bytes()) if by_stream else path, roots)
        return
    with h5py.File(path, "r") as file:
        for name, value in facts.items():
            assert value == (file[name][()].item() if name in file else type(value)())
        # A diff without data of the same name is not read.
        found = dict(_datasets(file[roots[0]], f"{roots[0]}/"))
        assert found.keys() == {name for name in ours if name.startswith(roots[0])}
        for name, values in ours.items():
            theirs = _values(found.get(name, file), name, values.dtype)
            if not np.array_equal(theirs, values, equal_nan=True) and _is_defined(path, name):
                np.testing.assert_array_equal(theirs, values, strict=True)


def takes_long(path, seconds):
    """Tell whether h5py, too, needs `seconds` seconds of processor time for a file."""
    start = time.process_time()
    with contextlib.suppress(Exception):  # nearly any
        _read_all(path, ("data", "diff", "history"))
    return time.process_time() - start >= seconds


def _model(path):
    model = open_model(path)
    ours = {}
    for layer in model.layers:
        for number, blob in enumerate(layer.blobs):
            ours[f"data/{layer.name}/{number}"] = blob.cpu_data()
            if had_diff(blob):
                ours[f"diff/{layer.name}/{number}"] = blob.cpu_diff()
    return {}, ours


def _state(path):
    state = open_solver_state(path)
    facts = {
        "iter": state.iter,
        "current_step": state.current_step,
        "learned_net": state.learned_net.encode(errors="surrogateescape"),
    }
    ours = {f"history/{number}": blob.cpu_data() for number, blob in enumerate(state.history)}
    return facts, ours


def _values(item, name, dtype):
    """Return the values of a dataset, or of the dataset with this name in a file."""
    dataset = item[name.encode(errors="surrogateescape")] if isinstance(item, h5py.File) else item
    return dataset[()].astype(dtype)


def _is_defined(path, name):
    """Tell whether h5py reads the same values each time.

    If a damaged chunk is too short after decompression, HDF5 returns uninitialised memory.
    """
    found = set()
    for number in range(20):
        noise = [np.full(size, number, np.uint8) for size in (100, 400, 4000, 40_000)]
        with h5py.File(path, "r") as file:
            found.add(_values(file, name, np.float64).tobytes())
        del noise
    return len(found) == 1


def _datasets(group, prefix):
    """Find the datasets in a group and its subgroups, by name."""
    for key in group:
        name = prefix + (key.decode(errors="surrogateescape") if isinstance(key, bytes) else key)
        item = group[key]
        if isinstance(item, h5py.Dataset):
            yield name, item
        else:
            yield from _datasets(item, f"{name}/")


def _read_all(opened, roots):
    """Read all datasets in the groups of a model or of a state."""
    with h5py.File(opened, "r") as file:
        for root in roots:
            if root in file:
                _read_group(file[root])
        for name in ("iter", "current_step", "learned_net") if "history" in roots else ():
            if name in file:
                _ = file[name][()]


def _read_group(group):
    for key in list(group):
        item = group[key]
        if isinstance(item, h5py.Dataset):
            _ = item.dtype, item.shape, item[()]
        else:
            _read_group(item)
