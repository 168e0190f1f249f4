"""Aliases made by a memory: their lifetime, and their description in warnings."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from syncblob import Blob, StaleAliasWarning
from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import Access, SyncedMemory

COUNT = 4
WHOLE = Layout.raw(COUNT)


class Target:
    """An object that a consumer keeps."""


def at_cpu() -> SyncedMemory:
    memory = SyncedMemory(COUNT, device="simulated")
    memory.overwrite_cpu_data()[:] = 1
    return memory


def test_what_has_no_permission_to_lose_is_left_behind_all_the_same() -> None:
    memory, target = at_cpu(), Target()
    array = memory.export(Side.HOST, Access.MUTABLE, WHOLE, "test", "CUDA", target)
    with pytest.warns(StaleAliasWarning, match="a CUDA alias"):
        memory.mutable_gpu_data()
    assert array.flags.writeable
    assert memory.aliased


# --- the text of the warning ---------------------------------------------------------------------


def test_the_usual_filter_remembers_in_the_users_module_what_was_said() -> None:
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
