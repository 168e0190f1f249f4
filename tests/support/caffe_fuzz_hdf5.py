"""Open damaged HDF5 files for some seconds. Run by `test_fuzz`; prints how many there were."""

from __future__ import annotations

import random
import resource
import sys
import time
from pathlib import Path

from caffe_mutations import made_hdf5, mutated, real_files

from syncblob.caffe import open_model
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
    print(number - first)  # noqa: T201  # for the test


def _address_space():
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[0]) * resource.getpagesize() if status.exists() else 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
