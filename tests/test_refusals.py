"""Errors and messages that have no test file of their own."""

import pickle
import sys

import numpy as np
import pytest

import syncblob
from syncblob import Blob, ModelFileError, _blob, record_transfers
from syncblob.arrays import dlpack_capsules


def recording_twice():
    log = record_transfers()
    with log, log:
        pass


def editing_a_consumed_capsule():
    capsule = Blob(3).__dlpack__(max_version=(1, 0))
    np.from_dlpack(
        type(
            "Producer",
            (),
            {"__dlpack__": lambda _, **__: capsule, "__dlpack_device__": lambda _: (1, 0)},
        )()
    )
    dlpack_capsules.edit(capsule, device=(1, 0))


def without(name, call):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, None)
        # As in a process that has never imported the library.
        patch.setattr(_blob, "_loaded", None)
        call()


REFUSED = {
    "another library's dtype": (lambda: Blob(3, object()), TypeError, r"got <obj.*as \"float32\""),
    "two numbers for a shape": (lambda: Blob(2, 3), TypeError, "is one tuple"),
    "tensors without torch": (
        lambda: without("torch", Blob(3).to_torch),
        ModuleNotFoundError,
        r"this needs torch.*pip install 'syncblob\[torch\]'",
    ),
    "bfloat16 without its package": (
        lambda: without("ml_dtypes", lambda: Blob(3, "bfloat16")),
        ModuleNotFoundError,
        r"pip install 'syncblob\[bfloat16\]'",
    ),
    "a picture without matplotlib": (
        lambda: without("matplotlib", record_transfers().plot),
        ModuleNotFoundError,
        r"this needs matplotlib.*pip install 'syncblob\[plot\]'",
    ),
    "a text for values": (lambda: syncblob.asarray("0.5"), TypeError, r"not texts \(dtype '<U3'"),
    "an object that is no array": (
        lambda: syncblob.asarray({1: 2}),
        TypeError,
        "with a protocol of arrays, such as __dlpack__ .* got dict; convert it",
    ),
    "a device of another library": (lambda: Blob(3, device="gpu:1"), ValueError, 'GPU is "cuda"'),
    "a dtype of None": (lambda: Blob(3, None), TypeError, "float64"),
    "values for a shape": (lambda: Blob(np.arange(3)), TypeError, r"shape.*syncblob\.asarray\(\)"),
    "floats for a shape": (lambda: Blob([1.0, 2.0]), TypeError, r"syncblob\.asarray\(\)"),
    "a source that gives bytes": (
        lambda: Blob.from_source((3,), "float32", lambda: bytes(12)).cpu_data(),
        TypeError,
        "expected a source of 12 bytes .* got bytes",
    ),
    "the length of no axes": (lambda: len(Blob(())), TypeError, "no length"),
    "setting a Blob": (
        lambda: Blob(3).set_cpu_data(Blob(3)),
        TypeError,
        "use share_data or copy_from",
    ),
    "resizing like an array": (
        lambda: Blob(3).resize_like(np.ones(3)),
        TypeError,
        "expects a Blob, got ndarray",
    ),
    "recording twice at once": (recording_twice, RuntimeError, "create another one"),
    "a device of DLPack that is none": (
        lambda: Blob(3).__dlpack__(dl_device="cpu"),
        BufferError,
        "pair of numbers",
    ),
    "a capsule that was consumed": (editing_a_consumed_capsule, BufferError, "unused"),
    "a format for many elements": (lambda: f"{Blob(3):.2f}", TypeError, "formatted number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    act, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        act()


def test_an_error_of_a_file_survives_a_pickle():
    error = ModelFileError("it is damaged", path="a", offset=7, layer="ip")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert (again.path, again.offset, again.layer) == ("a", 7, "ip")


def test_sharing_a_gradient_that_is_shared_already_changes_nothing():
    one, two = Blob(3), Blob(3)
    two.mutable_cpu_diff()[...] = 4
    one.share_diff(two)
    one.share_diff(two)
    assert one.cpu_diff().tolist() == [4, 4, 4]


def test_a_block_of_shared_memory_outlives_a_failure_to_map_it(monkeypatch):
    mmap = pytest.importorskip("multiprocessing.shared_memory").mmap
    blob = Blob.in_shared_memory(3)
    blob[...] = 5
    content = pickle.dumps(blob)

    def fail(*_, **__):
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(mmap, "mmap", fail)
        with pytest.raises(OSError, match="no room"):
            pickle.loads(content)
    assert pickle.loads(content).tolist() == [5, 5, 5]
