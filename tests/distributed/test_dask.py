"""Dask arrays with Blobs as chunks: results, devices, and transport of Blobs."""

import os
import subprocess
import sys

import numpy as np
import pytest

import syncblob
from syncblob import Blob

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

from syncblob.integrations import dask as gate  # noqa: E402  # it needs dask

ARRAY = np.arange(4800, dtype=np.float32).reshape(60, 80)
CHUNKS = (30, 40)


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(params=["cpu", "simulated:0"])
def blob(request):
    return syncblob.asarray(ARRAY, device=request.param) + 0  # computed there, so newest there


# Operations of Dask on ARRAY in chunks.
CALLS = {
    "identity": lambda x: x,
    "add": lambda x: x + x + 1,
    "divide from the right": lambda x: 3 / (x + 1),
    "ufunc": lambda x: np.exp(x / 4800),
    "where": lambda x: da.where(x > 3, x, 0),
    "sum": lambda x: x.sum(),
    "sum along an axis": lambda x: x.sum(axis=0),
    "mean": lambda x: x.mean(axis=1),
    "std": lambda x: x.std(),
    "max": lambda x: x.max(axis=0),
    "nanmax": da.nanmax,
    "any": lambda x: (x > 4760).any(axis=1),
    "cumsum": lambda x: x.cumsum(axis=0),
    "median": lambda x: da.median(x, axis=0),
    "percentile": lambda x: da.percentile(x.reshape(4800).rechunk(4800), 50),
    "top": lambda x: da.topk(x, 2, axis=1),
    "transpose": lambda x: x.T,
    "matmul": lambda x: x @ x.T,
    "dot": lambda x: x.dot(x.T),
    "tensordot": lambda x: da.tensordot(x, x, axes=((0, 1), (0, 1))),
    "einsum": lambda x: da.einsum("ij,kj->ik", x, x),
    "norm": da.linalg.norm,
    "qr": lambda x: da.linalg.qr(x.rechunk((60, 80)))[1],
    "slice": lambda x: x[1:50, ::2],
    "list of rows": lambda x: x[[0, 2, 5]],
    "mask": lambda x: x[x > 5],
    "concatenate": lambda x: da.concatenate([x, x]),
    "stack": lambda x: da.stack([x, x]),
    "pad": lambda x: da.pad(x, 1, mode="constant"),
    "rechunk": lambda x: x.rechunk((20, 20)),
    "astype": lambda x: x.astype("float64"),
    "map_blocks": lambda x: x.map_blocks(lambda chunk: chunk * 2),
    "map_overlap": lambda x: x.map_overlap(lambda chunk: chunk + 0, depth=1, boundary="none"),
    "histogram": lambda x: da.histogram(x, bins=4, range=(0, 4800))[0],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_results_are_those_of_numpy_and_stay_on_the_device(blob, call):
    expected = call(da.from_array(ARRAY, chunks=CHUNKS)).compute()
    chunked = da.from_array(blob, chunks=CHUNKS, name=False)
    # Dask may transfer its own counts and indices: less than one chunk.
    with syncblob.max_transfers(bytes=blob[:30, :40].nbytes - 1):
        result = call(chunked).compute()
    assert isinstance(result, Blob)
    assert result.device == blob.device
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda chunked, blob: chunked + blob,
        lambda chunked, blob: blob + chunked,
        lambda chunked, blob: np.add(blob, chunked),
        lambda chunked, _: chunked + ARRAY,
        lambda chunked, _: chunked + da.from_array(ARRAY, chunks=CHUNKS),
        lambda chunked, _: da.from_array(ARRAY, chunks=CHUNKS) + chunked,
    ],
)
def test_arrays_and_blobs_mix(blob, call):
    result = call(da.from_array(blob, chunks=CHUNKS, name=False), blob)
    assert isinstance(result, da.Array)
    assert isinstance(result.compute(), Blob)
    np.testing.assert_array_equal(np.asarray(result.compute()), 2 * ARRAY)


@pytest.mark.parametrize(
    ("create", "expected"),
    [
        (lambda: da.ones((4, 6), chunks=2), np.ones((4, 6))),
        (lambda: da.zeros((4, 6), chunks=2, dtype="int32"), np.zeros((4, 6), "int32")),
        (lambda: da.full((5,), 3.0, chunks=2, name="threes"), np.full(5, 3.0)),
        (lambda: da.ones_like(da.zeros((4, 6), chunks=2)), np.ones((4, 6))),
        (lambda: da.arange(10, chunks=3), np.arange(10)),
        (lambda: da.empty((5, 2), chunks=2) * 0 == 0, np.ones((5, 2), bool)),
    ],
)
def test_the_backend_creates_blobs_on_the_default_device(create, expected):
    with dask.config.set({"array.backend": "syncblob"}), syncblob.use_device("simulated"):
        chunked = create()
        result = (chunked + 0 if expected.dtype != bool else chunked).compute()
    assert isinstance(result, Blob)
    assert str(result.device) == "simulated:0"
    assert result.dtype == expected.dtype
    if expected.dtype != bool:  # uninitialised values may be NaN
        np.testing.assert_array_equal(np.asarray(result), expected)


def test_arrays_become_blobs_and_back():
    chunked = da.from_array(ARRAY, chunks=CHUNKS).to_backend("syncblob")
    assert isinstance(chunked.compute(), Blob)
    assert chunked.to_backend("syncblob") is chunked
    back = chunked.to_backend("numpy").compute()
    assert type(back) is np.ndarray
    np.testing.assert_array_equal(back, ARRAY)


def test_random_numbers_become_blobs():
    with dask.config.set({"array.backend": "syncblob"}):
        numbers = da.random.default_rng(1).normal(size=5, chunks=2)
        old = da.random.RandomState(1).normal(size=5, chunks=2)
        assert isinstance(numbers.to_backend().compute(), Blob)
        assert isinstance(old.to_backend().compute(), Blob)


def test_the_size_is_that_of_the_contents():
    blob = Blob((10, 10))
    assert dask.sizeof.sizeof(blob) == 400
    blob.diff[...] = 1
    assert dask.sizeof.sizeof(blob) == 800


def test_the_same_contents_have_the_same_name(blob):
    same = dask.base.tokenize(blob) == dask.base.tokenize(blob.copy())
    assert same
    assert dask.base.tokenize(blob) != dask.base.tokenize(blob + 1)


# --- between processes ---------------------------------------------------------------------------


def address(x):
    return np.frombuffer(x, np.uint8).ctypes.data


def test_what_is_sent_is_the_memory_and_what_is_received_becomes_it(blob):
    distributed = pytest.importorskip("distributed")
    blob.diff[...] = 2
    header, frames = distributed.protocol.serialize(blob)
    assert header["serializer"] == "dask"
    assert [address(frame) for frame in frames] == [
        blob.cpu_data().ctypes.data,
        blob.cpu_diff().ctypes.data,
    ]
    received = [bytearray(frame) for frame in frames]
    result = distributed.protocol.deserialize(header, received)
    assert result.device == blob.device
    assert [result.cpu_data().ctypes.data, result.cpu_diff().ctypes.data] == [
        address(frame) for frame in received
    ]
    np.testing.assert_array_equal(np.asarray(result), ARRAY)
    np.testing.assert_array_equal(np.asarray(result.diff), np.full_like(ARRAY, 2))


@pytest.mark.parametrize("receive", [bytes, lambda frame: memoryview(b"?" + frame)[1:]])
def test_frames_that_cannot_be_written_are_copied(blob, receive):
    header, frames = gate.serialize(blob)
    result = gate.deserialize(header, [receive(frame) for frame in frames])
    result[0, 0] = 7
    assert blob.tolist() == ARRAY.tolist()


def test_unaligned_frames_are_copied(blob):
    header, (frame,) = gate.serialize(blob)
    received = memoryview(bytearray(frame.nbytes + 1))[1:]
    received[:] = frame
    result = gate.deserialize(header, [received])
    np.testing.assert_array_equal(result.cpu_data(), ARRAY)
    assert result.cpu_data().flags.aligned


@pytest.mark.parametrize(
    "made",
    [
        lambda: Blob((0, 3)),
        lambda: Blob((2, 3)),
        lambda: syncblob.asarray(5.0),
        lambda: syncblob.asarray(ARRAY).T,
        lambda: syncblob.asarray(ARRAY)[::-2, 1:].const,
    ],
    ids=["empty", "uninitialised", "without axes", "transposed", "part"],
)
def test_all_kinds_of_blobs_travel(made):
    blob = made()
    header, frames = gate.serialize(blob)
    result = gate.deserialize(header, [bytearray(frame) for frame in frames])
    assert (result.shape, result.dtype) == (blob.shape, blob.dtype)
    np.testing.assert_array_equal(np.asarray(result), np.asarray(blob))


def test_syncblob_registers_with_a_dask_that_is_loaded():
    code = """
import dask.array as da
import syncblob
from dask.sizeof import sizeof

blob = syncblob.ones((4, 3))
assert sizeof(blob) == 96
chunked = da.from_array(blob.reshape(-1), chunks=4)
assert float(da.percentile(chunked, 50).compute()) == 1
assert isinstance((da.ones((4, 3), chunks=2) + blob).compute(), syncblob.Blob)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


PROGRAM = """
def main():
    # Here: the workers import this program, and are to know of Blobs only when they see one.
    import dask.array as da
    import numpy as np
    from distributed import Client, LocalCluster

    import syncblob.integrations.dask

    array = np.random.default_rng(0).random((40, 30), dtype="float32")
    blob = syncblob.asarray(array, device="simulated")
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, protocol="tcp"
        ) as cluster,
        Client(cluster) as client,
    ):
        # As in docs/processes.md.
        def start(dask_worker):
            dask_worker.transfers = syncblob.record_transfers()
            dask_worker.transfers.__enter__()

        def collect(dask_worker):
            dask_worker.transfers.__exit__()
            return dask_worker.transfers.to_dict()

        client.run(start)
        chunked = da.from_array(blob, chunks=(10, 15), name=False)
        product = (chunked.T @ chunked).map_blocks(lambda x: x + 1).sum(axis=0)
        result = product.compute()
        assert isinstance(result, syncblob.Blob), type(result)
        assert str(result.device) == "simulated:0", result.device
        np.testing.assert_allclose(
            np.asarray(result), (array.T @ array + 1).sum(axis=0), rtol=1e-4
        )
        logs = client.run(collect)
        assert len(logs) == 2, logs
        reasons = {one["reason"] for log in logs.values() for one in log["transfers"]}
        # A chunk that has arrived is on the host, and is computed on the device.
        assert reasons & {"matmul", "tensordot", "transpose", "add", "sum"}, reasons
        future = client.scatter(blob)
        kind, total = client.submit(lambda x: (type(x).__name__, float(x.sum())), future).result()
        assert kind == "Blob", kind
        np.testing.assert_allclose(total, array.sum(), rtol=1e-5)
        gradient = client.submit(lambda x: x.diff.fill(3) or x, future).result().diff
        assert gradient.tolist() == np.full_like(array, 3).tolist()


if __name__ == "__main__":
    main()
"""


@pytest.mark.long
def test_a_cluster_of_processes_computes_with_blobs(tmp_path):
    pytest.importorskip("distributed")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert done.returncode == 0, done.stderr
