"""Damages files of a format, and reads each with syncblob and the library that owns the format.

usage: python caffe_fuzz.py FORMAT COUNT [FIRST]

FORMAT is one of those of `corpus_of`. Each damage is made from a number, starting with FIRST.
Without it, that is a random number, or 0 if the environment variable CI is set, so that the result
of CI does not depend on chance. The number is printed before the file is read, so that it is known
after a crash. A difference is printed with its number, and the run goes on. It ends after ten.
"""

import os
import random
import resource
import sys
import tempfile
import time
import traceback
import tracemalloc
from pathlib import Path

from caffe_agreement import check_blob, check_file, check_net, check_state
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
"""HDF5 files are damaged up to this offset."""
MOST_DIFFERENCES = 10

RARELY = 0.2
"""How often the slower checks are made."""

READERS = {
    "net": lambda path: [blob for layer in open_model(path).layers for blob in layer.blobs],
    "blob": lambda path: [read_blob(path)],
    "state": lambda path: open_solver_state(path).history,
}


def check_message(kind, damage, path):
    """Compare a message with protobuf, and read it as its own or another type."""
    if kind == "net":
        check_net(path.read_bytes())
        if damage.random() < RARELY:
            check_file(path)
    elif kind == "blob":
        check_blob(path.read_bytes())
    else:
        check_state(path)
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
        assert 0 <= error.offset <= path.stat().st_size  # noqa: PT017
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < MOST_MEMORY * path.stat().st_size + MEMORY_OF_A_SMALL_FILE


def _read_as(damage, content):
    kinds = ["model", "state"] if b"data" in content[:METADATA] else ["state", "model"]
    return kinds if damage.random() < RARELY else kinds[:1]


def main(kind, count, first=None):
    """Damage `count` files, and return the number of differences."""
    if first is None:
        first = 0 if os.environ.get("CI") else random.randrange(2**40)  # noqa: S311  # damage, not secrets
    corpus = corpus_of(kind)
    if kind == "hdf5":
        from caffe_agreement_hdf5 import check_hdf5, takes_long  # need h5py

        # Limit the memory of the process, so that trusting a declared size causes an error.
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MOST_MEMORY_HDF5, hard))
    differences = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged"
        for number in range(int(first), int(first) + int(count)):
            print(number, flush=True)  # noqa: T201  # to reproduce a crash
            damage = random.Random(number)  # noqa: S311  # as above
            within = METADATA if kind == "hdf5" else None
            content = mutated(damage, corpus, within=within)
            path.write_bytes(content)
            start = time.process_time()
            try:
                if kind == "hdf5" and content.startswith(SIGNATURE):
                    for read_as in _read_as(damage, content):
                        check_hdf5(path, read_as)
                elif kind == "hdf5":  # Without its signature, it is read as a message.
                    check_net(content)
                    check_state(path)
                else:
                    check_message(kind, damage, path)
                seconds = time.process_time() - start
                assert seconds < LONGEST or (kind == "hdf5" and takes_long(path, LONGEST / 4))
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
