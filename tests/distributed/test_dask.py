"""Dask arrays with Blobs as chunks: results, devices, and transport of Blobs."""

import os
import subprocess
import sys

import numpy as np
import pytest
from call_texts import functions

import syncblob
from syncblob import Blob

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

import syncblob.integrations.dask  # noqa: E402  # it needs dask

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
CALLS = functions(
    """
    x; x + x + 1; 3 / (x + 1); np.exp(x / 4800); da.where(x > 3, x, 0); x.sum(); x.sum(axis=0);
    x.mean(axis=1); x.std(); x.max(axis=0); da.nanmax(x); (x > 4760).any(axis=1); x.cumsum(axis=0);
    da.median(x, axis=0); da.percentile(x.reshape(4800).rechunk(4800), 50); da.topk(x, 2, axis=1);
    x.T; x @ x.T; x.dot(x.T); da.tensordot(x, x, axes=((0, 1), (0, 1)));
    da.einsum('ij,kj->ik', x, x); da.linalg.norm(x); da.linalg.qr(x.rechunk((60, 80)))[1];
    x[1:50, ::2]; x[[0, 2, 5]]; x[x > 5]; da.concatenate([x, x]); da.stack([x, x]);
    da.pad(x, 1, mode='constant'); x.rechunk((20, 20)); x.astype('float64');
    x.map_blocks(lambda chunk: chunk * 2); x.map_overlap(lambda chunk: chunk + 0, depth=1,
    boundary='none'); da.histogram(x, bins=4, range=(0, 4800))[0]
    """,
    "x",
    globals(),
)


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


def test_arrays_become_blobs_and_back():
    chunked = da.from_array(ARRAY, chunks=CHUNKS).map_blocks(syncblob.asarray, device="simulated")
    assert str((chunked + 1).compute().device) == "simulated:0"
    back = chunked.to_backend("numpy").compute()
    assert type(back) is np.ndarray
    np.testing.assert_array_equal(back, ARRAY)


def test_the_size_is_that_of_the_contents():
    blob = Blob((10, 10))
    assert dask.sizeof.sizeof(blob) == 400
    blob.diff[...] = 1
    assert dask.sizeof.sizeof(blob) == 800


def test_the_same_contents_have_the_same_name(blob):
    same = dask.base.tokenize(blob) == dask.base.tokenize(blob.copy())
    assert same
    assert dask.base.tokenize(blob) != dask.base.tokenize(blob + 1)


def test_what_is_sent_is_the_memory(blob):
    distributed = pytest.importorskip("distributed")
    blob.diff[...] = 2
    header, frames = distributed.protocol.serialize(blob)
    addresses = [np.frombuffer(frame, np.uint8).ctypes.data for frame in frames]
    assert addresses[1:] == [blob.cpu_data().ctypes.data, blob.cpu_diff().ctypes.data]
    received = [bytearray(frame) for frame in frames]
    result = distributed.protocol.deserialize(header, received)
    assert result.device == blob.device
    np.testing.assert_array_equal(np.asarray(result), ARRAY)
    np.testing.assert_array_equal(np.asarray(result.diff), np.full_like(ARRAY, 2))


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
