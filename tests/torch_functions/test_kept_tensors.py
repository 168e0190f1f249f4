"""Objects that a call reuses from an earlier one: tensors that Blobs keep, plans of functions."""

import gc
import os
import weakref
from typing import NamedTuple

import numpy as np
import pytest
from call_texts import functions
from in_threads import in_threads
from made_blobs import CPU, GPU, PAIR, SYNCED, blob_in, values
from other_processes import forked

import syncblob
from syncblob import Blob, Head, StaleAliasWarning, record_transfers
from syncblob.blob.core import BlobCore
from syncblob.memory import windows

torch = pytest.importorskip("torch")
F = torch.nn.functional

T = torch.arange(6.0).reshape(2, 3)


def kept(blob):
    """Return the tensor that a Blob keeps, or None."""
    found = blob.accessor_arrays[0]
    return None if found is None or found.tensor is None else found.tensor.tensor


def warm(*blobs):
    """Make each Blob keep a tensor."""
    for blob in blobs:
        torch.clone(blob)
        assert kept(blob) is not None


# --- the next function ---------------------------------------------------------------------------


@pytest.mark.parametrize("head", [CPU, SYNCED])
def test_the_second_function_gets_the_tensor_of_the_first(head):
    blob = blob_in(head)
    warm(blob)
    first = kept(blob)
    assert torch.add(blob, blob).tolist() == (2 * values()).tolist()
    assert kept(blob) is first
    assert not blob.memory.aliased
    assert blob.head is head


CHANGES = functions(
    """
    b.mutable_cpu_data().__imul__(3); b.mutable_gpu_data().__imul__(3); b.__setitem__(..., 7);
    b.__setitem__((0, 1), 7); torch.mul(T, 5, out=b); torch.neg_(b); b.to_torch().add_(1);
    b.resize(3, 2); b.resize(1, 2); b.resize(40, 50); (b.resize(1), b.resize(2, 3));
    b.set_cpu_data(np.full((2, 3), 8, np.float32)); b.set_gpu_data(np.full((2, 3), 8, np.float32));
    b.share_data(blob_in(GPU)); b.copy_from(blob_in(GPU)); (b.diff.__setitem__(..., 1), b.update())
    """,
    "b",
    globals(),
)


@pytest.mark.filterwarnings("ignore::syncblob.StaleAliasWarning")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("head", PAIR)
def test_what_happens_to_a_blob_between_two_calls_is_seen(head, change):
    blob = blob_in(head)
    warm(blob)
    for _ in range(2):
        change(blob)
        expected = np.array(blob)
        found = torch.clone(blob)
        assert tuple(found.shape) == blob.shape
        assert found.tolist() == expected.tolist()
        assert torch.add(blob, blob).tolist() == (2 * expected).tolist()


def test_reading_on_the_host_ends_no_borrow_of_it():
    blob = blob_in(CPU)
    warm(blob)
    borrow = blob.mutable_cpu_data()
    assert torch.clone(blob).tolist() == values().tolist()
    borrow[0] = 9
    assert torch.clone(blob).tolist()[0] == [9] * 3


PARTS = functions("b; b[1:]; b.T[1]", "b", globals())


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("aliased", [False, True])
def test_a_kept_tensor_is_used_again_after_a_download(simulated, part, aliased):
    blob = blob_in(GPU)
    alias = np.from_dlpack(blob) if aliased else None
    read = part(blob)
    warm(read)
    first = kept(read)
    for count in (1, 2):
        blob.mutable_gpu_data()[...] = values() * count
        simulated.reset_counts()
        expected = (np.array(part(values())) * count).tolist()
        assert torch.clone(read).tolist() == expected
        assert kept(read) is first
        assert torch.clone(read).tolist() == expected
        # With an alias, the device may have been written since.
        assert simulated.downloads == 1 + aliased
    del alias


# --- calls that make aliases ---------------------------------------------------------------------

VIEWS = functions(
    """
    torch.reshape(b, (3, 2)); torch.reshape(input=b, shape=(3, 2)); torch.flatten(b);
    torch.split(b, 1)[0]; torch.real(b)
    """,
    "b",
    globals(),
)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_is_an_alias(view):
    blob = blob_in(CPU)
    warm(blob)
    for count in (1, 2):
        result = view(blob)
        (lease,) = blob.memory.loans.of(0)
        assert lease.description().startswith("a tensor alias")
        assert __file__ in lease.description()
        result.add_(1)
        assert torch.clone(blob)[0].tolist() == (values()[0] + count).tolist()
        del result
        assert not blob.memory.aliased


@pytest.mark.parametrize("rows", [slice(None), slice(1)], ids=["whole", "part"])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_of_what_both_sides_hold_is_one_alias_and_makes_the_side_the_newest(view, rows):
    blob = blob_in(CPU)
    part = blob[rows]
    warm(part)
    for _ in range(2):
        blob.gpu_data()
        with record_transfers() as log:
            result = view(part) if rows == slice(None) else torch.squeeze(part)
        (lease,) = blob.memory.loans.of(0)
        assert not log
        assert part.head is Head.HEAD_AT_CPU
        with pytest.warns(StaleAliasWarning, match="a tensor alias"):
            part.mutable_gpu_data()
        del result, lease
        part.cpu_data()


@pytest.mark.parametrize("head", [CPU, SYNCED])
def test_a_view_that_is_a_copy_and_one_that_fails_leave_everything_as_it_was(head):
    blob = blob_in(head)
    for part in (blob, blob.T):
        warm(part)
        history = blob.memory.history
        for shape in ((4, 2), (1, 6.0)):
            with pytest.raises((RuntimeError, TypeError), match=r"shape|float"):
                torch.reshape(part, shape)
        assert (blob.memory.history, blob.head) == (history, head)
        assert not blob.memory.aliased
    flat = torch.reshape(blob.T, (6,))
    assert not blob.memory.aliased
    flat.zero_()
    assert blob.tolist() == values().tolist()


def overridable(work, module=__name__):
    """Make a function that Blobs can override. Torch's own functions have one of its modules."""

    def function(x):
        if torch.overrides.has_torch_function_unary(x):
            return torch.overrides.handle_torch_function(function, (x,), x)
        return work(x)

    function.__module__ = module
    return function


def test_a_function_of_somebody_elses_is_not_lent_the_kept_tensor():
    blob = blob_in(CPU)
    warm(blob)
    stored = []
    overridable(stored.append)(blob)
    assert stored[0] is not kept(blob)
    stored.pop().add_(1)
    assert torch.clone(blob).tolist() == (values() + 1).tolist()
    assert torch.clone(blob.const).tolist() == (values() + 1).tolist()


def test_an_operator_of_somebody_elses_that_writes_in_secret_is_seen_to():
    library = torch.library.Library("syncblob_tests_kept", "DEF")
    library.define("secret(Tensor x) -> Tensor")
    library.impl("secret", lambda x: x.add_(1).clone(), "CPU")
    try:
        blob = blob_in(GPU)
        warm(blob)
        for count in (1, 2):
            torch.ops.syncblob_tests_kept.secret(blob)
            assert blob.head is CPU
            assert blob.gpu_data().tolist() == (values() + count).tolist()
        with pytest.raises(ValueError, match="const view"):
            torch.ops.syncblob_tests_kept.secret(blob.const)
    finally:
        library._destroy()


def test_a_kept_tensor_that_was_written_is_noticed_by_its_version():
    # The name does not say that it writes. Torch has no such functions.
    lies = overridable(lambda x: x.add_(1).clone(), "torch.nn.functional")
    blob = blob_in(SYNCED)
    warm(blob)
    assert lies(blob).tolist() == (values() + 1).tolist()
    assert blob.head is CPU
    assert blob.gpu_data().tolist() == (values() + 1).tolist()
    const = blob.const
    warm(const)
    with pytest.raises(ValueError, match="const view"):
        lies(const)


def test_what_is_verified_is_no_kept_tensor():
    blob = blob_in(SYNCED)
    warm(blob)
    found = []
    store = overridable(found.append, "torch.nn.functional")
    store(blob)
    with syncblob.verified_const():
        store(blob)
        other = blob_in(SYNCED)
        torch.relu(other)
        assert kept(other) is None
    store(blob)
    first, verified, last = found
    assert last is kept(blob)
    assert verified is not first
    assert verified is not last


# --- plans ---------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: object
    second: object


def test_a_function_is_planned_for_each_pattern_of_arguments():
    blob, other = blob_in(CPU), blob_in(CPU)
    warm(blob, other)
    double = (2 * values()).tolist()
    for _ in range(2):
        assert torch.add(blob, other).tolist() == double
        assert torch.add(blob, T).tolist() == double
        assert torch.add(T, blob).tolist() == (T + blob).tolist() == T.add(blob).tolist() == double
        assert torch.add(blob, 1).tolist() == (values() + 1).tolist()
        assert torch.add(blob, other=other).tolist() == double
        assert torch.add(other=T, input=blob).tolist() == double
        assert torch.add(blob, blob, alpha=3).tolist() == (2 * np.array(double)).tolist()
        assert torch.cat([blob]).tolist() == values().tolist()
        twice = values().tolist() * 2
        assert torch.cat([blob, T]).tolist() == torch.cat((T, blob)).tolist() == twice
        assert torch.stack(Pair(blob, T)).sum(0).tolist() == double
        assert torch.einsum("ij,ij->ij", blob, T).tolist() == (values() ** 2).tolist()
        assert torch.block_diag(blob, other, T).shape == (6, 9)
        assert torch.add(T, 1, out=other) is not None
        other[...] = values()


@pytest.mark.parametrize("inplace", [True, False, 1, 0, np.True_, np.False_, None])
def test_a_flag_of_any_type_decides_what_is_written(inplace):
    for _ in range(2):
        blob = blob_in(SYNCED)
        blob.mutable_cpu_data()[0, 0] = -1
        blob.gpu_data()
        F.leaky_relu(blob, 2.0, bool(inplace))
        F.threshold(blob, -5, 0, inplace)
        assert blob.head is (CPU if inplace else SYNCED)
        assert blob.tolist()[0][0] == (-2 if inplace else -1)


def test_a_flag_that_changes_between_calls():
    mean, var = blob_in(SYNCED, shape=(3,)), blob_in(SYNCED, shape=(3,))
    x = blob_in(SYNCED)
    for training, head in ((False, SYNCED), (True, CPU), (False, CPU)):
        F.batch_norm(x, mean, var, training=training)
        assert (mean.head, var.head, x.head) == (head, head, SYNCED)
    weight, index = blob_in(SYNCED), torch.tensor([1])
    for norm, head in ((None, SYNCED), (1.0, CPU), (None, CPU)):
        F.embedding(index, weight, max_norm=norm)
        assert weight.head is head


# --- threads, forks, memory ----------------------------------------------------------------------


def test_threads_share_what_a_blob_keeps():
    blob = Blob((16, 16), device="simulated")
    blob[...] = 1
    warm(blob)

    def reads():
        for _ in range(200):
            assert torch.sum(blob).item() % 256 == 0

    def makes_aliases():
        for _ in range(200):
            assert torch.reshape(blob, (-1,)).numel() == 256

    in_threads(reads, reads, makes_aliases)
    assert not blob.memory.aliased
    assert blob.tolist() == [[1] * 16] * 16


def test_a_function_reads_what_it_brought_if_a_thread_replaces_the_buffer(monkeypatch):
    blob = Blob((12, 40000), device="simulated:0")
    blob[...] = 5
    view, keep = blob[6:], BlobCore.keep_arrays

    def keep_arrays(self, *args):
        if self is view:
            monkeypatch.setattr(BlobCore, "keep_arrays", keep)
            in_threads(lambda: (blob.evict("cpu"), blob[:3].cpu_data()))
        return keep(self, *args)

    monkeypatch.setattr(BlobCore, "keep_arrays", keep_arrays)
    assert (torch.clone(view) == 5).all()
    assert BlobCore.keep_arrays is keep


@pytest.mark.parametrize("view", [lambda x: torch.unsqueeze(x, 0), lambda x: torch.split(x, 1)[0]])
def test_a_view_is_over_the_buffer_if_a_thread_replaces_it(monkeypatch, view):
    from syncblob.calls.torch import make_call

    blob = Blob((1, 40000), device="simulated:0")
    blob[...] = 5
    real = make_call.loan_of

    def lend(*args):
        monkeypatch.setattr(make_call, "loan_of", real)
        loan = real(*args)
        in_threads(lambda: (blob.evict("cpu"), blob.cpu_data()))
        return loan

    monkeypatch.setattr(make_call, "loan_of", lend)
    view(blob).fill_(7)
    assert make_call.loan_of is real
    assert (blob.cpu_data() == 7).all()
    assert (blob.gpu_data() == 7).all()


def test_what_is_read_and_written_is_kept_if_a_thread_replaces_the_buffer(monkeypatch):
    from syncblob.calls.torch.tensors import Loan

    blob = Blob((1, 40000), device="simulated:0")
    blob[...] = 5
    blob.cpu_data()
    real = Loan.become_alias

    def become_alias(*args):
        monkeypatch.setattr(Loan, "become_alias", real)
        # This eviction has begun before the call.
        monkeypatch.setattr(windows, "pins", set)
        in_threads(lambda: blob.evict("cpu"))
        return real(*args)

    monkeypatch.setattr(Loan, "become_alias", become_alias)
    torch.add(blob, 2, out=blob)
    assert Loan.become_alias is real
    assert (blob.cpu_data() == 7).all()
    assert (blob.gpu_data() == 7).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_kept_tensor_is_good_in_the_child_of_a_fork():
    blob = blob_in(CPU)
    warm(blob)

    def work():  # pragma: no cover  # in the child
        blob[...] = 5
        return torch.clone(blob).tolist() == [[5] * 3] * 2

    forked(work)
    assert torch.clone(blob).tolist() == values().tolist()


@pytest.mark.parametrize("head", [CPU, SYNCED])
def test_a_blob_that_dies_frees_its_memory_at_once(head):
    blob = blob_in(head)
    warm(blob)
    gone = [weakref.ref(x) for x in (blob, blob.memory, blob.accessor_arrays[0].tensor.owner)]
    gc.disable()
    try:
        del blob
        assert [reference() for reference in gone] == [None] * 3
    finally:
        gc.enable()


def test_what_is_kept_is_let_go_with_the_buffer():
    blob = blob_in(CPU)
    warm(blob)
    gone = weakref.ref(blob.accessor_arrays[0].tensor.owner)
    blob.resize(100)
    assert gone() is None


# --- shared elements, no elements, and tensors that escaped ----------------------------------


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_view_of_a_blob_beside_its_first_part_is_an_alias_of_all_of_it(order):
    blob = blob_in(Head.SYNCED)
    operands = blob[:1], blob
    views = torch.broadcast_tensors(*(operands[place] for place in order))
    blob.gpu_data()
    views[order.index(1)][1] = 7
    assert blob.gpu_data()[1].tolist() == [7] * 3


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_a_view_of_a_blob_beside_a_const_view_of_it_is_an_alias_or_a_copy(order):
    blob = Blob(4)
    blob[...] = 2
    operands = [blob, blob.const]
    for view in torch.broadcast_tensors(*(operands[place] for place in order)):
        view.fill_(5)
    assert blob.tolist() in ([5] * 4, [2] * 4)
    first = torch.broadcast_tensors(blob, blob.const)[0]
    first.fill_(6)
    assert blob.tolist() == [6] * 4
    assert blob.memory.aliased


@pytest.mark.parametrize(
    "view",
    [
        lambda x: torch.narrow(x, 0, 0, 0),
        lambda x: torch.as_strided(x, (0,), (1,), 3),
        lambda x: torch.split(x, [0, 4])[0],
    ],
)
def test_a_view_of_no_elements_is_an_alias_and_of_a_const_blob_a_copy(view):
    blob = Blob(4)
    blob[...] = 1
    lent = view(blob)
    assert blob.memory.aliased
    del lent
    view(blob.const).resize_(4).fill_(9)
    assert blob.tolist() == [1] * 4


def test_a_tensor_that_got_out_and_was_written_is_not_lent_again():
    blob = Blob(4)
    blob[...] = 2
    const = blob.const
    warm(const)
    kept(const).fill_(8)
    assert torch.add(const, 1).tolist() == [9] * 4


@pytest.mark.parametrize(
    "use",
    [
        lambda blob, x: blob + x,
        np.add,
        lambda blob, x: blob.copy_from(x),
        lambda _, x: syncblob.asarray(x, copy=True),
        lambda _, x: syncblob.asarray(x, dtype="float64"),
    ],
)
def test_a_tensor_that_is_only_read_can_be_resized_afterwards(use):
    tensor = torch.ones(4)
    use(Blob(4), tensor)
    assert tensor.resize_(100).shape == (100,)


def test_a_tensor_that_a_blob_shares_cannot_be_resized():
    tensor = torch.ones(4)
    blob = syncblob.asarray(tensor)
    with pytest.raises(RuntimeError, match="not resizable"):
        tensor.resize_(1000)
    assert blob.tolist() == [1] * 4


def test_a_tensor_of_zeros_without_memory_is_refused():
    tensor, blob = torch._efficientzerotensor(3), Blob(3)
    for use in (syncblob.asarray, syncblob.from_dlpack, blob.set_cpu_data, blob.__add__):
        with pytest.raises(BufferError, match=r"tensor\.clone\(\)"):
            use(tensor)
    assert syncblob.asarray(tensor.clone()).tolist() == [0, 0, 0]
