"""Damages files of a format, and reads each with syncblob and the library that owns the format.

usage: python caffe_fuzz.py FORMAT COUNT [FIRST]

FORMAT is one of those of `corpus_of`. Each damage is made from a number, starting with FIRST.
Without it, that is a random number, or 0 if the environment variable CI is set, so that the result
of CI does not depend on chance. The number is printed before the file is read, so that it is known
after a crash. A difference is printed with its number, and the run goes on. It ends after ten.
"""

import contextlib
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import tracemalloc
from pathlib import Path

import numpy as np
from caffe_agreement import check
from caffe_mutations import corpus_of, mutated

from syncblob.caffe import open_model, open_solver_state, read_blob
from syncblob.errors import ModelFileError

LONGEST = 1.0
"""The limit of processor time for a file, in seconds."""
MOST_MEMORY = 4
"""The limit of memory for the reader, as a multiple of the size of the file."""
MEMORY_OF_A_SMALL_FILE = 4_000_000
MOST_MEMORY_HDF5 = 300 << 20
SIGNATURE = b"\x89HDF\r\n\x1a\n"
METADATA = 20_000
"""Files are damaged up to this offset: after it there are mostly values."""
MOST_DIFFERENCES = 10

RARELY = 0.2
"""How often the slower checks are made."""

MESSAGES = {"net": "NetParameter", "blob": "BlobProto", "state": "SolverState"}
READERS = {
    "net": lambda path: [blob for layer in open_model(path).layers for blob in layer.blobs],
    "blob": lambda path: [read_blob(path)],
    "state": lambda path: open_solver_state(path).history,
}


def check_message(kind, damage, path):
    """Compare a message with protobuf, and read it as its own or another type."""
    check(MESSAGES[kind], path.read_bytes(), path if damage.random() < RARELY else None)
    if damage.random() < RARELY:
        _read_within_limits(kind, path)
        _read_within_limits(damage.choice(list(READERS)), path)


def _read_within_limits(kind, path):
    """Open a file and read all its contents, within the limit of memory."""
    tracemalloc.start()
    try:
        for blob in READERS[kind](path):
            blob.cpu_data()
            blob.cpu_diff()
    except ModelFileError as error:
        assert error.message  # noqa: PT017  # success is right, too
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < MOST_MEMORY * path.stat().st_size + MEMORY_OF_A_SMALL_FILE


def check_hdf5(path):
    """Compare the blobs of a file with what h5py finds at their places."""
    import h5py

    is_state = b"history" in path.read_bytes()[:METADATA]
    try:
        if is_state:
            groups = {"history": open_solver_state(path).history}
        else:
            groups = {f"data/{layer.name}": layer.blobs for layer in open_model(path).layers}
        found = {
            f"{group}/{number}": blob.cpu_data()
            for group, blobs in groups.items()
            for number, blob in enumerate(blobs)
        }
    except ModelFileError:
        return  # links, types and sizes are refused, too, in which HDF5 finds no damage
    for name, values in found.items():
        # If a damaged chunk is too short after decompression, HDF5 returns uninitialised memory.
        theirs = []
        for noise in range(20):
            _ = [np.full(size, noise, np.uint8) for size in (100, 400, 4000, 40_000)]
            with h5py.File(path, "r") as file:
                theirs.append(file[name.encode(errors="surrogateescape")][()].astype(values.dtype))
            if np.array_equal(theirs[-1], values, equal_nan=True):
                break
        else:
            assert len({each.tobytes() for each in theirs}) > 1, name


def takes_long(path):
    """Tell whether h5py, too, needs much time for a file: HDF5 is very slow on some damage."""
    import h5py

    def read(_name, item):
        if isinstance(item, h5py.Dataset):
            item[()]

    start = time.process_time()
    with contextlib.suppress(Exception), h5py.File(path, "r") as file:  # nearly any
        file.visititems(read)
    return time.process_time() - start >= LONGEST / 4


def main(kind, count, first=None):
    """Damage `count` files, and return the number of differences."""
    if first is None:
        first = 0 if os.environ.get("CI") else random.randrange(2**40)  # noqa: S311  # damage, not secrets
    corpus = corpus_of(kind)
    if kind == "hdf5":
        # Limit the memory of the process, so that trusting a declared size causes an error.
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MOST_MEMORY_HDF5, hard))
    differences = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged"
        for number in range(int(first), int(first) + int(count)):
            print(number, flush=True)  # noqa: T201  # to reproduce a crash
            damage = random.Random(number)  # noqa: S311  # as above
            content = mutated(damage, corpus, within=METADATA)
            path.write_bytes(content)
            start = time.process_time()
            try:
                if kind == "hdf5" and content.startswith(SIGNATURE):
                    check_hdf5(path)
                elif kind == "hdf5":  # Without its signature, it is read as a message.
                    check_message("net", damage, path)
                else:
                    check_message(kind, damage, path)
                seconds = time.process_time() - start
                assert seconds < LONGEST or (kind == "hdf5" and takes_long(path))
            except BaseException:  # noqa: BLE001  # pytest's is not an Exception
                traceback.print_exc()
                print(f"{kind}, made from {number}", file=sys.stderr)  # noqa: T201  # for the test
                differences += 1
                if differences == MOST_DIFFERENCES:
                    break
    return differences


def _address_space():
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[0]) * resource.getpagesize() if status.exists() else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
