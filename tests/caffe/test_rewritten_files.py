"""Files that another program rewrites in place while they are read, as Caffe's snapshots do."""

import itertools
import os

import h5py
import numpy as np
import pytest
import safetensors.numpy

from syncblob import ModelFileError, SolverState, open_model, open_solver_state, read_blob
from syncblob.caffe import Layer, ModelFile, save_model, save_solver_state, write_blob
from syncblob.caffe.convert import convert, open_weights
from syncblob.caffe.messages.open_file import Descriptor


def arrays(number):
    """Return arrays filled with a number, which are at the same offsets in all versions."""
    return [np.full((20, size), number, np.float32) for size in (3, 500, 1, 700)]


def write_model(number, path):
    layers = [Layer(f"{number} {at}", blobs=[array]) for at, array in enumerate(arrays(number))]
    save_model(ModelFile(str(number), layers), path)


def hdf5_writer(name, **packed):
    """Return a writer of datasets of a name, of which h5py reads the first, which has chunks."""

    def write(number, path):
        with h5py.File(path, "w") as file:
            for at, array in enumerate(arrays(number)):
                layout = {"chunks": (7, 1), **packed} if at == 0 else {}
                file.create_dataset(name.format(number, at), data=array, **layout)

    return write


def one_of(numbers):
    """Return the only number, which no part of another version is beside."""
    (number,) = set(numbers)
    return number


def read_model(path):
    """Return the number in the names, and the blobs, also those of a copy."""
    model = open_model(path)
    number = one_of(int(name.split()[0]) for name in model)
    copy = path.with_name(f"copy of {path.name}")
    save_model(model, copy)
    copied = open_model(copy)
    assert list(copied) == list(model)
    return number, [layer.blobs[0] for layer in (*model.layers, *copied.layers)]


def writer_of(save):
    """Return a writer of the arrays by names with the number."""

    def write(number, path):
        save(path, {f"{number} {at}.weight": each for at, each in enumerate(arrays(number))})

    return write


def write_torch(path, tensors):
    torch = pytest.importorskip("torch")
    # The first one is transposed.
    named = {name: torch.from_numpy(each) for name, each in tensors.items()}
    torch.save({n: t.T.contiguous().T if "0." in n else t for n, t in named.items()}, path)


def read_weights(path):
    """Return the number in the names, and the blobs, also those of a conversion."""
    weights = open_weights(path)
    number = one_of(int(name.split()[0]) for name in weights.tensors)
    copy = path.with_name("copy.caffemodel")
    convert(path, copy)
    copied = open_model(copy)
    copied_number = one_of(int(name.split()[0]) for name in copied)
    found = {copied_number: [layer.blobs[0] for layer in copied.layers]}
    found.setdefault(number, []).extend(weights.tensors.values())
    for each, blobs in found.items():
        assert {one_of(np.unique(blob).tolist()) for blob in blobs} == {each}
    return number, weights.tensors.values()


def read_state(path):
    state = open_solver_state(path)
    return one_of([state.iter, int(state.learned_net)]), state.history


FORMATS = {
    "net.caffemodel": (write_model, read_model),
    "net.h5": (hdf5_writer("data/{} {}/0"), read_model),
    "mean.binaryproto": (
        lambda number, path: write_blob(arrays(number)[1], path),
        lambda path: (None, [read_blob(path)]),
    ),
    "x.safetensors": (
        writer_of(lambda path, tensors: safetensors.numpy.save_file(tensors, path)),
        read_weights,
    ),
    "x.npz": (writer_of(lambda path, tensors: np.savez(path, **tensors)), read_weights),
    "packed.npz": (
        writer_of(lambda path, tensors: np.savez_compressed(path, **tensors)),
        read_weights,
    ),
    "x.pt": (writer_of(write_torch), read_weights),
    "x.h5": (hdf5_writer("{} {}.weight", compression="gzip"), read_weights),
    "net.solverstate": (
        lambda number, path: save_solver_state(
            SolverState(number, str(number), history=arrays(number)), path
        ),
        read_state,
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_values_are_of_one_version_or_refused_whenever_it_is_rewritten(tmp_path, monkeypatch, name):
    write, read = FORMATS[name]
    path, versions, told = tmp_path / name, [], 0
    for number in range(2):
        write(number, path)
        versions.append(path.read_bytes())
    read_at = Descriptor.read
    for moment in itertools.count():
        path.write_bytes(versions[0])
        reads = itertools.count()

        def rewrite_and_read(file, target, offset, reads=reads, moment=moment):
            if next(reads) == moment:
                path.write_bytes(versions[1])
                os.utime(path, ns=(moment, moment))  # two writes may share a tick of the clock
            read_at(file, target, offset)

        monkeypatch.setattr(Descriptor, "read", rewrite_and_read)
        try:
            number, blobs = read(path)
            found = one_of(value for blob in blobs for value in np.unique(blob).tolist())
        except ModelFileError:
            told += 1
        else:
            assert number in (None, found)
            if next(reads) <= moment:
                break
    assert told
