"""How many functions of the package one use calls, after the first uses: each takes time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import syncblob
from benchmarks.calls import calls_made
from syncblob import Blob
from syncblob.devices import CPU, accelerator

FOLDER = str(Path(syncblob.__file__).parent)
DEVICES = ["cpu", "simulated:0"]


def calls(use: Callable[[], Any]) -> list[str]:
    """Return the names of the functions of the package that a use calls."""
    inside = [name for file, name in calls_made(use) if file.startswith(FOLDER)]
    # Once another test has imported torch.compile, a call leaves it by this function.
    return [name for name in inside if name != "call_untraced"]


def used(device: str, *, by_accessors: bool = False) -> Blob:
    """Make a Blob that was used on both sides, then written on its own; or by accessors alone."""
    blob = Blob((8, 8), device=device)
    blob.memory.side_of(accelerator("simulated:0"))
    for _ in range(3):
        blob.mutable_cpu_data()
        blob.mutable_gpu_data()
        if by_accessors:
            continue
        np.asarray(blob)
        blob[...] = 1
        blob + blob
    return blob


@pytest.mark.parametrize("device", DEVICES)
def test_an_assignment_and_a_copy(device: str) -> None:
    blob = used(device)
    assert len(calls(lambda: blob.__setitem__(..., 1))) <= 2
    assert len(calls(blob.copy)) <= 6
    fresh = blob + blob
    assert len(calls(lambda: fresh.__setitem__(..., 1))) <= 2


@pytest.mark.parametrize("device", DEVICES)
def test_indices_and_values_of_all_kinds(device: str) -> None:
    blob, values, row = used(device), used(device), used(device)[0]
    indices, mask = (Blob.asarray(x, device=device) for x in (np.arange(8), np.ones((8, 8), bool)))
    for index, value in (
        (..., values),
        (2, row),
        (slice(2, 4), 1),
        (mask, 0),
        (indices, values),
        ((slice(2, 4), indices), 1),
    ):
        blob[index] = value
        assert len(calls(lambda i=index, v=value: blob.__setitem__(i, v))) <= 6
    for index in (1, slice(2, 4), [0, 2], indices, mask):
        blob[index]
        assert len(calls(lambda i=index: blob[i])) <= 6


def test_a_new_blob_and_its_first_write() -> None:
    def write() -> None:
        Blob((8, 8))[...] = 1

    write()
    assert len(calls(write)) <= 30


def test_a_read_after_a_write_on_the_device() -> None:
    blob = used("simulated:0")
    blob.mutable_gpu_data()
    assert len(calls(lambda: np.asarray(blob))) <= 8


@pytest.mark.parametrize("use", [Blob.mutable_cpu_data, Blob.mutable_gpu_data])
def test_the_first_write_after_both_sides_were_read(use: Callable[[Blob], Any]) -> None:
    blob = used("simulated:0")
    for _ in range(2):
        blob.cpu_data(), blob.gpu_data()
        made = calls(lambda: use(blob))
    assert len(made) <= 6


# Ordinary calls, of Blobs `a`, `b` and `c`, a mask `m`, indices `i`, and an ndarray `n`.
ORDINARY = """
    a + b; a * 2.0; a @ b; -a; a == b; a.__iadd__(b); a.__imul__(2.0)
    np.add(a, b); np.sqrt(a); np.add(a, b, out=c); np.add(a, 1, c); np.sqrt(a, out=a)
    np.add(a, b, out=c, where=m); np.add(a, b, dtype="float64")
    np.add.reduce(a, axis=1); np.add.accumulate(a); np.modf(a)
    np.clip(a, 0, 1); np.clip(a, 0, 1, out=b); a.clip(0, 1); a.clip(min=0)
    np.where(m, a, b); np.where(m, a, 0); np.take(a, i); np.take(a, i, axis=0); a.take(i)
    np.sum(a); np.sum(a, axis=1, keepdims=True); np.mean(a, axis=(0, 1)); a.sum(); a.max(axis=1)
    np.concatenate([a, b]); np.concatenate((a, b), axis=1); np.stack([a, b]); np.tile(a, 2)
    np.dot(a, b); np.einsum("ij,jk->ik", a, b); np.linalg.norm(a); np.median(a); np.nan_to_num(a)
    np.transpose(a); np.reshape(a, (4, 16)); np.expand_dims(a, 0); np.broadcast_to(a, (2, 8, 8))
    np.copyto(c, a); np.put(c, i, 0); a.sort(); a.fill(1); np.shape(a); np.result_type(a, b)
    xp.add(a, b); xp.sqrt(a); xp.sum(a, axis=1); xp.where(m, a, b); xp.concat([a, b])
    xp.sort(a); xp.tril(a); xp.fft.fft(a); xp.zeros((8, 8)); a.view("int32"); np.from_dlpack(a)
"""

# Those with an ndarray, which has to be uploaded to an accelerator.
WITH_NDARRAYS = """
    a * n; n * a; np.add(a, n); np.multiply(n, a); np.concatenate([a, n]); np.take(a, k)
    a.__iadd__(n); np.add(a, b, out=n); n.__iadd__(a); xp.asarray(n); xp.from_dlpack(n)
"""

# Those that read or make elements on the host.
ON_THE_HOST = """
    a.tolist(); a.tobytes(); np.array(a); a[1, 1].item(); float(a[1, 1])
    xp.arange(8, device=cpu); xp.linspace(0, 1, 8, device=cpu)
"""
# And those with a tensor.
WITH_TENSORS = "a + t; t + a; a * t; a == t; a.__setitem__(..., t); a.__setitem__(0, t[0])"


def separated(calls: str) -> list[str]:
    return [call.strip() for call in calls.replace("\n", ";").split(";") if call.strip()]


@pytest.mark.parametrize("call", separated(ORDINARY))
@pytest.mark.parametrize("device", DEVICES)
def test_ordinary_calls(call: str, device: str) -> None:
    require_few(call, device, 6)


@pytest.mark.parametrize("device", DEVICES)
def test_views_of_a_blob_that_only_accessors_used(device: str) -> None:
    blob = used(device, by_accessors=True)
    for view in (np.transpose, np.flip, np.diag, Blob.transpose):
        view(blob)
        assert len(calls(lambda view=view: view(blob))) <= 6


@pytest.mark.parametrize("call", separated(WITH_NDARRAYS + ON_THE_HOST))
def test_calls_with_ndarrays_and_on_the_host(call: str) -> None:
    require_few(call, "cpu", 6, cpu=CPU)


@pytest.mark.parametrize("call", separated(WITH_TENSORS))
def test_calls_with_tensors(call: str) -> None:
    torch = pytest.importorskip("torch")
    require_few(call, "cpu", 6, t=torch.ones(8, 8))


@pytest.mark.parametrize(
    ("call", "device", "most"),
    [
        # Those that upload an ndarray.
        ("a + n", "simulated:0", 20),
        ("a.__setitem__(..., n)", "simulated:0", 24),
        ("a.__setitem__(k, 1)", "simulated:0", 31),
        ("a[k]", "simulated:0", 34),
        ("np.allclose(a, b)", "simulated:0", 14),
        ("np.linalg.svd(a)", "cpu", 8),
        ("xp.broadcast_to(a, (2, 8, 8))", "cpu", 11),
    ],
)
def test_longer_calls(call: str, device: str, most: int) -> None:
    require_few(call, device, most)


@pytest.mark.parametrize("device", DEVICES)
def test_an_operator_in_place_after_both_sides_were_read(device: str) -> None:
    a, b = used(device), used(device)

    def use() -> None:
        a.gpu_data(), a.cpu_data()
        a.__iadd__(b)

    for _ in range(3):
        use()
    assert len(calls(use)) <= 18


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("both", [False, True])
def test_an_out_that_the_other_side_wrote(device: str, both: bool) -> None:
    a, b, out = used(device), used(device), used(device) if both else Blob((8, 8), device=device)
    out.memory.side_of(accelerator("simulated:0"))

    def write() -> None:
        out.mutable_gpu_data() if device == "cpu" else out.mutable_cpu_data()

    for function in (lambda: np.add(a, b, out=out), lambda: np.clip(a, 0, 1, out=out)):
        for _ in range(3):
            write()
            function()
        write()
        assert len(calls(function)) <= 36


def require_few(call: str, device: str, most: int, **others: Any) -> None:
    a, b, c = (used(device) for _ in range(3))
    i = syncblob.asarray(np.arange(8)[::-1].copy(), device=device, copy=True)
    n = np.ones((8, 8), np.float32)
    names = {"a": a, "b": b, "c": c, "i": i, "m": a > 0, "n": n, "k": np.arange(8)}
    names |= others
    code = compile(call, "call", "eval")

    def use() -> None:
        eval(code, {"np": np, "xp": syncblob, **names})  # noqa: S307  # the table above

    for _ in range(3):
        use()
    assert len(calls(use)) <= most, calls(use)
