"""Read a file that another process rewrites in place every 10 ms. Run by `test_rewritten_files`.

Each version of the file has a single number in all its names and values, so that a mixture of two
versions is detected. Prints for each reader how often the values were right, and how often it got
an error that they cannot be read.
"""

import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import h5py
import numpy as np

from syncblob import ModelFileError, open_model, open_solver_state, read_blob, save_model
from syncblob.caffe import Layer, ModelFile, write_blob
from syncblob.caffe._pb.caffe_pb2 import BlobProto, BlobShape, SolverState

INTERVAL = 0.01
LEAST = 50
"""The minimum number of rewrites."""
VERSIONS = 4
READERS = 8
PIECE = 1 << 13
"""The bytes that Caffe's streams write at a time."""


def blobs_of(number):
    """Return arrays filled with a number. Their sizes, and that of the file, depend on it."""
    return [np.full((20 + number, size), number, np.float32) for size in (3, 500, 1, 700)]


def write_model(number, path):
    layers = [Layer(f"{number} {at}", blobs=[array]) for at, array in enumerate(blobs_of(number))]
    save_model(ModelFile(str(number), layers), path)


def write_hdf5(number, path):
    """Write in place, as Caffe does: HDF5 truncates the file, and writes it out of order."""
    with h5py.File(path, "w", locking=False) as file:
        for at, array in enumerate(blobs_of(number)):
            # h5py reads chunked datasets.
            chunks = (7, 1) if at == 0 else None
            file.create_dataset(f"data/{number} {at}/0", data=array, chunks=chunks)


def write_mean(number, path):
    write_blob(blobs_of(number)[1], path)


def write_state(number, path):
    history = [
        BlobProto(shape=BlobShape(dim=array.shape), data=array.ravel())
        for array in blobs_of(number)
    ]
    state = SolverState(iter=number, learned_net=str(number), history=history)
    path.write_bytes(state.SerializeToString())


def read_hdf5(path):
    """Return the numbers in the names, and the blobs."""
    model = open_model(path)
    names = [int(name.split()[0]) for name in model]
    return names, [blob for layer in model.layers for blob in layer.blobs]


def read_model(path):
    """Read settings and a copy of the model, too."""
    model = open_model(path)
    copy = path.with_name(f"copy-{os.getpid()}")
    save_model(model, copy)
    names = [*model, *open_model(copy), *(layer.proto.name for layer in model.layers)]
    blobs = [blob for layer in model.layers for blob in layer.blobs]
    return [int(name.split()[0]) for name in names], blobs


def read_state(path):
    state = open_solver_state(path)
    return [state.iter, int(state.learned_net)], state.history


FORMATS = {
    "net.caffemodel": (write_model, read_model),
    "net.h5": (write_hdf5, read_hdf5),
    "mean.binaryproto": (write_mean, lambda path: ([], [read_blob(path)])),
    "net.solverstate": (write_state, read_state),
}


def read_until(done, path, read):
    """Open the file until rewriting has ended and a read succeeded; fail if anything is wrong."""
    met = Counter()
    while not done.exists() or not met["right"]:
        try:
            names, blobs = read(path)
            numbers = {*names, *(number for blob in blobs for number in np.unique(blob).tolist())}
        except ModelFileError:
            met["told"] += 1
        else:
            assert len(numbers) == 1, numbers
            met["right"] += 1
    print(f"{met['right']} {met['told']}\n", end="", flush=True)  # noqa: T201  # for the test


def rewrite(path, contents):
    """Write the file in place, like a program that truncates it first and writes it in pieces."""
    with path.open("wb", buffering=0) as file:
        for begin in range(0, len(contents), PIECE):
            file.write(contents[begin : begin + PIECE])


def rewrite_for(seconds, done, path, write):
    """Rewrite the file, longer on a busy machine; create the file `done` at the end."""
    try:
        _rewrite(seconds, path, write)
    finally:
        done.touch()


def _rewrite(seconds, path, write):
    number = 0
    versions = []
    for version in range(VERSIONS):
        write(version, path)
        versions.append(path.read_bytes())
    end = time.monotonic() + seconds
    while time.monotonic() < end or number < LEAST:
        number += 1
        if write is write_hdf5:
            write(number % VERSIONS, path)
        else:
            rewrite(path, versions[number % VERSIONS])
        time.sleep(INTERVAL)


def forked(function, *arguments):
    """Run a function in a forked process."""
    child = os.fork()
    if not child:
        try:
            function(*arguments)
        except BaseException:  # noqa: BLE001  # all are reported, and end this process
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def main(name, seconds):
    """Start one writer and eight readers, and return whether all succeeded."""
    write, read = FORMATS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(0, path)
        done = Path(folder) / "done"
        children = [forked(rewrite_for, seconds, done, path, write)]
        children += [forked(read_until, done, path, read) for _ in range(READERS)]
        statuses = [os.waitpid(child, 0)[1] for child in children]
    for status in statuses:
        if os.WIFSIGNALED(status):
            print(signal.Signals(os.WTERMSIG(status)).name, file=sys.stderr)  # noqa: T201
    return not any(statuses)


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1], float(sys.argv[2])))
