"""Damaged files: no crash, no hang, no hoard of memory, and no disagreement with protobuf.

What is damaged are real files, where they are present, and small files of every kind. Each damage
is made from a number, which a failure names.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from caffe_agreement import (
    check_blob,
    check_file,
    check_net,
    check_row,
    check_state,
    needs_upb,
)
from caffe_mutations import for_seconds, made_messages, mutated, real_files

from syncblob.caffe import open_model, read_blob, read_blobs
from syncblob.caffe.solver_state import open_solver_state
from syncblob.errors import ModelFileError

READERS = {
    "model": lambda path: [blob for layer in open_model(path).layers for blob in layer.blobs],
    "blob": lambda path: [read_blob(path)],
    "blobs": read_blobs,
    "solver state": lambda path: open_solver_state(path).history,
}

LONGEST = 1.0
MOST_MEMORY = 4
MEMORY_OF_A_SMALL_FILE = 4_000_000


@pytest.fixture(scope="module")
def corpus():
    made = made_messages()
    # Real files in half of the cases: they are larger and take longer.
    real = real_files(".caffemodel", ".binaryproto")
    return made + real * -(-len(made) // len(real)) if real else made


def read_everything(reader, path):
    """Open a file and touch all that is in it, within the limits on time and memory."""
    raised = None
    tracemalloc.start()
    start = time.thread_time()
    try:
        for blob in reader(path):
            blob.cpu_data()
            blob.cpu_diff()
    except ModelFileError as error:
        raised = error
    finally:
        seconds = time.thread_time() - start
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    if raised is not None:
        assert raised.message
        assert 0 <= raised.offset <= path.stat().st_size
    assert seconds < LONGEST
    assert peak < MOST_MEMORY * path.stat().st_size + MEMORY_OF_A_SMALL_FILE


@for_seconds
@needs_upb
def test_damaged_messages(corpus, tmp_path, seconds):
    path = tmp_path / "damaged"
    first = random.randrange(2**40)  # noqa: S311  # damage, not secrets
    number = first
    end = time.monotonic() + seconds * 2 / 3
    while time.monotonic() < end or number < first + 20:
        number += 1
        content = mutated(random.Random(number), corpus)  # noqa: S311  # as above
        path.write_bytes(content)
        try:
            check_net(content)
            check_blob(content)
            check_file(path)
            check_state(path)
            check_row(path)
            for reader in READERS.values():
                read_everything(reader, path)
        except BaseException as error:
            error.add_note(f"the damage was made from {number}")
            raise


@for_seconds
def test_damaged_hdf5(tmp_path, seconds):
    """In a process of its own, which the HDF5 library may not crash either."""
    pytest.importorskip("h5py", reason="h5py, which reads HDF5, is missing")
    pytest.importorskip("resource", reason="limits on memory are of POSIX")
    command = [
        sys.executable,
        Path(__file__).parents[1] / "support" / "caffe_fuzz_hdf5.py",
        str(tmp_path),
        str(seconds / 3),
    ]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=seconds + 120
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    assert int(result.stdout.split()[-1]) > 0
