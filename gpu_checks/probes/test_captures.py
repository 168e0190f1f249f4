"""CUDA graphs: what is refused while one is captured, and what is left good."""

import gc
import threading

import pytest

from gpu_checks.device import is_model, side_stream
from syncblob import Blob, Head

MODES = ("Global", "ThreadLocal", "Relaxed")
NONE, CPU, GPU = Head.UNINITIALIZED, Head.HEAD_AT_CPU, Head.HEAD_AT_GPU
# Accesses that a capture must refuse: the head before, and the access.
NEEDS = {
    "an upload": (CPU, lambda blob: blob.gpu_data()),
    "an upload to write": (CPU, lambda blob: blob.mutable_gpu_data()),
    "a push": (CPU, lambda blob: blob.async_gpu_push()),
    "a push to a stream": (CPU, lambda blob: blob.async_gpu_push(side_stream())),
    "a prefetch": (CPU, lambda blob: blob.prefetch()),
    "the first zeros": (NONE, lambda blob: blob.mutable_gpu_data()),
    "a new buffer": (NONE, lambda blob: blob.overwrite_gpu_data()),
    "a download": (GPU, lambda blob: blob.cpu_data()),
    "a download to write": (GPU, lambda blob: blob.mutable_cpu_data()),
}


def blob_in(head, size=1 << 12):
    blob = Blob(size, device="cuda:0")
    if head is CPU:
        blob.overwrite_cpu_data()
        # So that an upload has a buffer. An allocation would be refused first.
        blob.prefetch()
        blob.overwrite_cpu_data().fill(1)
    if head is GPU:
        blob.overwrite_gpu_data().fill(1)
    return blob


@pytest.mark.parametrize("mode", MODES)
def test_what_a_graph_cannot_hold_is_refused_and_the_capture_left_good(cupy, work, mode):
    for name, (head, access) in NEEDS.items():
        blob, array = blob_in(head), cupy.zeros(work.size, "float32")
        pushed = blob_in(CPU)
        pushed.prefetch()
        array += 1
        cupy.cuda.Device().synchronize()
        with side_stream() as stream:
            stream.begin_capture(getattr(cupy.cuda.runtime, f"streamCaptureMode{mode}"))
            array += 1
            with pytest.raises(RuntimeError, match="CUDA graph"):
                access(blob)
            # What has arrived by now is ready, and the host may get memory.
            pushed.gpu_data()
            Blob(1 << 20, device="cuda:0").overwrite_cpu_data()
            array += 1
            graph = stream.end_capture()
        if not is_model():
            # The model computes at once.
            graph.launch(stream)
            stream.synchronize()
            assert work.seen(array) == [3.0], name
        assert blob.head is head, name
        assert set(blob.tolist()) == {1.0 if head else 0.0}, name
        assert set(blob.gpu_data().get().tolist()) == {1.0 if head else 0.0}, name


@pytest.mark.parametrize("mode", MODES)
def test_a_capture_of_others_is_left_good(cupy, mode):
    """The capture is on a stream that a Blob was used on, and is nobody's current one now."""
    for here in (True, False):
        blobs = [blob_in(CPU) for _ in range(3)]
        with side_stream() as stream:
            lent = blob_in(GPU)
        number = getattr(cupy.cuda.runtime, f"streamCaptureMode{mode}")

        def use(blobs=blobs, lent=lent):
            blobs[0].gpu_data()
            blobs[1].prefetch()
            Blob(1 << 20, device="cuda:0").overwrite_cpu_data().fill(1)
            blobs.pop()
            gc.collect()
            with pytest.raises(RuntimeError, match="being captured on"):
                lent.cpu_data()

        cupy.cuda.Device(0).synchronize()
        stream.begin_capture(number)
        if here:
            use()
        else:
            thread = threading.Thread(target=use)
            thread.start()
            thread.join()
        stream.end_capture()
        assert set(blobs[0].gpu_data().get().tolist()) == set(lent.tolist()) == {1.0}


@pytest.mark.parametrize("mode", MODES)
def test_page_locked_memory_is_not_freed_in_a_capture(cupy, backend, mode):
    blob = Blob(1 << 20, device="cuda:0")
    blob.overwrite_cpu_data()
    with side_stream() as stream:
        stream.begin_capture(getattr(cupy.cuda.runtime, f"streamCaptureMode{mode}"))
        del blob
        gc.collect()
        stream.end_capture()
    assert backend._page_locked.give_back()


def test_a_graph_of_torchs_sees_new_contents_and_its_writes_are_seen(torch, work):
    blob, out, untouched = work.blob(1), work.blob(0), Blob(3, device="cuda:0")
    out.mutable_gpu_data()
    torch.add(blob, 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.mul(blob, 2, out=out)
        with pytest.raises(RuntimeError, match="CUDA graph"):
            untouched.overwrite_gpu_data()
        with pytest.raises(RuntimeError, match="torch's current stream"):
            _ = blob + 1
    for value in (3, 4):
        blob.overwrite_cpu_data().fill(value)
        blob.gpu_data()
        graph.replay()
        assert set(out.tolist()) == {2.0 * value}
