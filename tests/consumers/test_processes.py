"""Blobs that are sent to other processes: pickles with out-of-band buffers, parallel calls."""

import multiprocessing
import pickle

import numpy as np
import other_processes
import pytest
from made_blobs import blob_in, values

from syncblob import Blob, Head


def test_a_pickle_goes_through_a_pipe_with_its_buffers_beside_it():
    blob = blob_in(Head.HEAD_AT_GPU)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=other_processes.send_back, args=(there,))
    process.start()
    count, header, *buffers = other_processes.messages(blob)
    assert count == 1 + len(buffers) == 2
    assert len(header) < 300
    here.send(count)
    for message in (header, *buffers):
        here.send_bytes(message)
    header, *buffers = (here.recv_bytes() for _ in range(here.recv()))
    process.join()
    back = pickle.loads(header, buffers=buffers)
    assert (back.shape, back.dtype, str(back.device)) == ((2, 3), np.float32, "simulated:0")
    np.testing.assert_array_equal(np.asarray(back), 2 * values())
    np.testing.assert_array_equal(np.asarray(back.diff), np.full((2, 3), -1))


def test_joblib_tells_contents_apart(tmp_path):
    joblib = pytest.importorskip("joblib")
    blob, same, other = (blob_in(head) for head in (Head.SYNCED, Head.HEAD_AT_GPU, Head.SYNCED))
    other[0, 0] = 9
    hashes = [joblib.hash(one.to_device("cpu")) for one in (blob, same, other)]
    assert hashes[0] == hashes[1] != hashes[2]
    joblib.dump([blob, {"other": other}], tmp_path / "file")
    first, second = joblib.load(tmp_path / "file")
    assert (first.tolist(), second["other"].tolist()) == (blob.tolist(), other.tolist())


def test_workers_write_into_shared_memory():
    joblib = pytest.importorskip("joblib")
    blob = Blob.in_shared_memory((2, 3))
    joblib.Parallel(2)(
        joblib.delayed(other_processes.fill)(row, number) for number, row in enumerate(blob)
    )
    assert blob.tolist() == [[0] * 3, [1] * 3]
