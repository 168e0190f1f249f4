"""Errors and messages that have no test file of their own."""

import builtins
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import syncblob  # noqa: F401  # for the texts
from syncblob import Blob, ModelFileError, _blob, record_transfers
from syncblob.arrays import dlpack_capsules


def recording_twice():
    log = record_transfers()
    with log, log:
        pass


def editing_a_consumed_capsule():
    capsule = Blob(3).__dlpack__(max_version=(1, 0))
    np.from_dlpack(
        SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
    )
    dlpack_capsules.edit(capsule, device=(1, 0))


def without(name, call):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, None)
        # As in a process that has never imported the library.
        patch.setattr(_blob, "_loaded", None)
        call()


# The error, its message, and the call.
REFUSED = r"""
TypeError | got <obj.*as "float32" | Blob(3, object())
TypeError | float64 | Blob(3, None)
TypeError | is one tuple | Blob(2, 3)
TypeError | shape.*syncblob\.asarray\(\) | Blob(np.arange(3))
TypeError | syncblob\.asarray\(\) | Blob([1.0, 2.0])
ValueError | GPU is "cuda" | Blob(3, device="gpu:1")
ModuleNotFoundError | this needs torch.*pip install 'syncblob\[torch\]' |
    without("torch", Blob(3).to_torch)
ModuleNotFoundError | 'syncblob\[bfloat16\]' | without("ml_dtypes", lambda: Blob(3, "bfloat16"))
ModuleNotFoundError | this needs matplotlib.*pip install 'syncblob\[plot\]' |
    without("matplotlib", record_transfers().plot)
TypeError | not texts \(dtype '<U3' | syncblob.asarray("0.5")
TypeError | with a protocol of arrays, such as __dlpack__ .* got dict; convert it |
    syncblob.asarray({1: 2})
TypeError | expected a source of 12 bytes .* got bytes |
    Blob.from_source((3,), "float32", lambda: bytes(12)).cpu_data()
TypeError | no length | len(Blob(()))
TypeError | use share_data or copy_from | Blob(3).set_cpu_data(Blob(3))
TypeError | expects a Blob, got ndarray | Blob(3).resize_like(np.ones(3))
RuntimeError | create another one | recording_twice()
BufferError | pair of numbers | Blob(3).__dlpack__(dl_device="cpu")
BufferError | unused | editing_a_consumed_capsule()
TypeError | formatted number | f"{Blob(3):.2f}"
""".strip().replace("|\n    ", "| ")


@pytest.mark.parametrize("row", REFUSED.splitlines())
def test_what_is_refused(row):
    error, message, call = row.split(" | ")
    with pytest.raises(getattr(builtins, error), match=message):
        eval(call, globals())  # noqa: S307  # a row above


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
