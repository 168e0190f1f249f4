"""Checks of mpi4py's functions on Blobs. mpiexec runs one, named as argument, in two processes."""

import sys
import warnings

import numpy as np
from mpi4py import MPI

import syncblob
from syncblob import Blob, Head

warnings.simplefilter("error")

WORLD = MPI.COMM_WORLD
RANK = WORLD.rank
MINE = np.arange(4, dtype=np.float32) + 10 * RANK
OTHERS = np.arange(4, dtype=np.float32) + 10 * (1 - RANK)
SUM = MINE + OTHERS


def made(contents, device):
    """Make a Blob whose contents are on a device."""
    blob = Blob(contents.shape, contents.dtype, device=device)
    blob[...] = contents
    return blob


def expect(blob, contents):
    np.testing.assert_array_equal(np.asarray(blob), contents)


def allreduce_in_place_of_a_diff(device):
    blob = Blob(4, device=device)
    blob.diff[...] = MINE
    WORLD.Allreduce(MPI.IN_PLACE, blob.diff.cpu)
    expect(blob.diff, SUM)


def iallreduce(device):
    source, target = made(MINE, device), Blob(4, device=device)
    WORLD.Iallreduce(source.cpu.const, target.cpu.overwrite).Wait()
    expect(target, SUM)


def bcast(device):
    blob = made(MINE, device)
    WORLD.Bcast(blob.cpu, root=1)
    expect(blob, MINE if RANK else OTHERS)


def send_and_receive(device):
    blob = made(MINE, device)
    received = Blob(4, device=device)
    WORLD.Sendrecv(blob.cpu.const, 1 - RANK, recvbuf=received.cpu.overwrite)
    expect(received, OTHERS)


def sending_is_a_const_access_and_receiving_a_mutable_one(device):
    source, target = made(MINE, device), made(MINE, device)
    on_device = source.head
    with syncblob.record_transfers() as log:
        WORLD.Allreduce(source.cpu.const, target.cpu.overwrite)
    host = device == "cpu"
    assert source.head is (Head.HEAD_AT_CPU if host else Head.SYNCED), (on_device, source.head)
    assert target.head is Head.HEAD_AT_CPU
    assert (log.uploads, log.downloads) == (0, 0 if host else 1), log


def what_is_received_is_written_where_the_blob_is_named_alone(device):
    source, target = made(MINE, device), made(MINE, device)
    WORLD.Allreduce(source.const, target)
    expect(source, MINE)
    expect(target, SUM)


def const_blobs_are_not_received_into(device):
    source, target = made(MINE, device), made(MINE, device)
    for const in (target.const, target.cpu.const):
        try:
            WORLD.Allreduce(source.cpu.const, const)
        except BufferError:
            continue
        raise RuntimeError("a const Blob was written")
    expect(target, MINE)


def persistent_requests_have_what_the_host_holds_at_their_start(device):
    source, target = made(MINE, device), Blob(4, device=device)
    requests = [WORLD.Send_init(source.cpu.const, 1 - RANK), WORLD.Recv_init(target.cpu, 1 - RANK)]
    for number, read in enumerate([True, True, False]):
        source += 1
        if read:
            source.cpu_data()
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        old = not read and device != "cpu"
        expect(target, OTHERS + number + (0 if old else 1))
    for request in requests:
        request.Free()


def dtypes(device):
    for dtype in ("float64", "int8", "int64", "uint16", "complex64", "complex128"):
        source, target = made(MINE.astype(dtype), device), Blob(4, dtype, device=device)
        WORLD.Allreduce(source.cpu.const, target.cpu.overwrite)
        expect(target, SUM.astype(dtype))


def transposed_views_are_sent_in_the_order_of_memory(device):
    blob = made(np.arange(6.0).reshape(2, 3), device)
    for sent, order in ((blob.T.cpu.const, "F"), (blob.T.copy().cpu.const, "C")):
        received = Blob(6, "float64", device=device)
        WORLD.Sendrecv(sent, 1 - RANK, recvbuf=received.cpu.overwrite)
        expect(received, np.asarray(blob.T).ravel(order))


def data_parallel_training(device):
    """Least squares: each process has half of the samples, and both get the same weights."""
    random = np.random.default_rng(0)
    samples, answers = random.normal(size=(40, 3)), random.normal(size=40)
    weights = made(np.zeros(3), device)
    share = slice(20 * RANK, 20 * (RANK + 1))
    expected = np.zeros(3)
    for _ in range(20):
        error = syncblob.asarray(samples[share]) @ weights - answers[share]
        weights.diff[...] = 0.01 * (samples[share].T @ error)
        WORLD.Allreduce(MPI.IN_PLACE, weights.diff.cpu)
        weights.update()
        expected -= 0.01 * (samples.T @ (samples @ expected - answers))
    np.testing.assert_allclose(np.asarray(weights), expected, rtol=1e-12)


CHECKS = {
    check.__name__: check
    for check in (
        allreduce_in_place_of_a_diff,
        iallreduce,
        bcast,
        send_and_receive,
        sending_is_a_const_access_and_receiving_a_mutable_one,
        what_is_received_is_written_where_the_blob_is_named_alone,
        const_blobs_are_not_received_into,
        persistent_requests_have_what_the_host_holds_at_their_start,
        dtypes,
        transposed_views_are_sent_in_the_order_of_memory,
        data_parallel_training,
    )
}

if __name__ == "__main__":
    for name in ("cpu", "simulated:0"):
        CHECKS[sys.argv[1]](name)
    sys.stdout.write(f"{WORLD.size} processes\n")
