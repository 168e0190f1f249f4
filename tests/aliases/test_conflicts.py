"""Actions that make a live alias stale warn first. If the warning is an error, nothing changes."""

import gc
import warnings
import weakref

import numpy as np
import pytest
from in_threads import in_threads

from syncblob import Blob, Head, StaleAliasWarning, simulated

torch = pytest.importorskip("torch", reason="torch is one of the consumers")


def made():
    """Make a Blob on the host that is bound to an accelerator."""
    blob = Blob(4, device="cpu")
    blob.memory.side_of(simulated(0))
    blob.mutable_cpu_data()[...] = [1, 2, 3, 4]
    return blob


CONFLICTS = {
    "mutable_gpu_data": lambda blob: blob.mutable_gpu_data(),
    "overwrite_gpu_data": lambda blob: blob.overwrite_gpu_data(),
    "adoption": lambda blob: blob.set_cpu_data(np.zeros(4, "f4")),
    "adoption ": lambda blob: blob.set_gpu_data(np.zeros(4, "f4")),
    "a growing resize": lambda blob: blob.resize(5),
    "share_data": lambda blob: blob.share_data(Blob(4)),
    "__dlpack__": lambda blob: torch.from_dlpack(blob.gpu),
    "__array__": lambda blob: np.asarray(blob.gpu),
    "mutable_gpu_data ": lambda blob: blob[1:].mutable_gpu_data(),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_it_warns_at_the_line_of_the_user_and_names_the_line_of_the_alias(name):
    blob = made()
    tensor = torch.from_dlpack(blob)
    with pytest.warns(StaleAliasWarning) as caught:
        CONFLICTS[name](blob)
    (warning,) = caught
    text = str(warning.message)
    assert text.startswith(
        f"{name.strip()} makes aliases stale: a DLPack alias (torch) of the host"
    )
    assert f"{__file__}:" in text
    assert "tensor = torch.from_dlpack(blob)" in text
    assert warning.filename == __file__
    assert tensor is not None


@pytest.mark.parametrize("name", CONFLICTS)
def test_under_an_error_filter_nothing_has_changed(name):
    blob = made()
    tensor = torch.from_dlpack(blob)
    memory = blob.memory
    with pytest.raises(StaleAliasWarning):
        CONFLICTS[name](blob)
    assert (blob.head, blob.shape, blob.device) == (Head.HEAD_AT_CPU, (4,), "cpu")
    assert blob.memory is memory
    tensor[0] = 9
    assert blob.gpu_data().tolist() == [9, 2, 3, 4]


def test_every_kind_of_alias_is_named():
    blob = made()
    kept = [np.asarray(blob.cpu), np.from_dlpack(blob), torch.as_tensor(blob)]
    with pytest.warns(StaleAliasWarning) as caught:
        blob.mutable_gpu_data()
    text = str(caught[0].message)
    assert text.count("of the host side, created at") == 3
    assert "a NumPy alias of the host side" in text
    assert "a DLPack alias of the host side" in text
    assert len(kept) == 3


def test_the_line_is_the_users_also_through_library_wrappers():
    blob = made()
    tensor = torch.asarray(blob)
    with pytest.warns(StaleAliasWarning) as caught:
        torch.utils.dlpack.from_dlpack(blob.gpu)
    assert caught[0].filename == __file__
    assert "torch.asarray(blob)" in str(caught[0].message)
    assert tensor is not None


@pytest.mark.filterwarnings("ignore::syncblob.StaleAliasWarning")
@pytest.mark.parametrize("name", CONFLICTS)
def test_what_was_warned_of_keeps_nothing_alive(name):
    gc.collect()
    gc.disable()
    try:
        blob = made()
        gone = weakref.ref(blob.memory)
        alias = np.from_dlpack(blob.gpu if "gpu" not in name and "__" not in name else blob.cpu)
        CONFLICTS[name](blob)
        del alias, blob
        assert gone() is None
    finally:
        gc.enable()


def test_a_growing_resize_warns_of_both_memories_without_holding_a_lock(monkeypatch):
    blob = made()
    blob.diff[...] = 1
    aliases = [np.from_dlpack(blob), np.from_dlpack(blob.diff)]
    used = []

    def show(*_, **__):
        used.extend(in_threads(lambda: (blob.mutable_cpu_data()[0], blob.mutable_cpu_diff()[0])))

    with warnings.catch_warnings(action="always"):
        monkeypatch.setattr(warnings, "showwarning", show)
        blob.resize(100)
    assert used == [(1, 1), (1, 1)]
    assert len(aliases) == 2


def test_the_usual_filter_remembers_in_the_users_module_what_was_said():
    blob = Blob(4, device="simulated")
    blob.mutable_cpu_data()
    alias = np.from_dlpack(blob.cpu)
    module = {"blob": blob, "__name__": "users"}
    code = compile("for _ in range(3): blob.mutable_gpu_data()", "users.py", "exec")
    with warnings.catch_warnings(record=True, action="default") as caught:
        exec(code, module)  # noqa: S102  # a user's module with its own globals
    assert len(caught) == 1
    assert set(module) == {"blob", "__name__", "__builtins__", "__warningregistry__", "_"}
    assert alias is not None
