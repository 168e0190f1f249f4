"""Blobs as arguments of torch's functions: sides, devices, writes and errors."""

from __future__ import annotations

import re

import numpy as np
import pytest
from made_blobs import CPU, GPU, NONE, PAIR, SPLIT, SYNCED, blob_in, values

import syncblob
from syncblob import Blob
from syncblob._layout import Layout

torch = pytest.importorskip("torch")
F = torch.nn.functional

T = torch.arange(6.0).reshape(2, 3)


# --- operands ------------------------------------------------------------------------------------


def test_an_operator_is_of_the_left_operands_kind():
    blob = blob_in(CPU)
    assert type(T * blob) is torch.Tensor
    assert type(blob * T) is Blob
    assert (T * blob).tolist() == (blob * T).tolist() == (values() ** 2).tolist()


def test_powers_and_comparisons_of_a_tensor_by_a_blob():
    blob = blob_in(GPU)
    assert ((T + 1) ** blob).tolist() == ((values() + 1) ** values()).tolist()
    target = T + 1
    target **= blob
    assert target.tolist() == ((values() + 1) ** values()).tolist()
    assert torch.Tensor.__eq__(T, blob).all()
    assert torch.Tensor.__le__(T, blob).all()
    assert blob.head is SYNCED


def test_with_a_tensor_that_requires_a_gradient_an_operator_is_torchs():
    blob, weight = blob_in(CPU), torch.ones(2, 3, requires_grad=True)
    for result in (blob * weight, blob + weight, blob / weight, blob - weight, blob @ weight.T):
        assert type(result) is torch.Tensor
        assert result.requires_grad
    (blob * weight).sum().backward()
    assert weight.grad.tolist() == values().tolist()
    before = blob.tolist()
    with pytest.raises(BufferError, match="detach"):
        blob += weight
    assert blob.tolist() == before


@pytest.mark.parametrize(
    "view",
    [lambda b: b.T, lambda b: b[1:], lambda b: b[:, ::2], lambda b: b[::-1], lambda b: b[:0]],
)
def test_views_are_read_as_they_lie(view):
    blob = blob_in(CPU)
    assert torch.add(view(blob), 1).tolist() == (view(values()) + 1).tolist()


def test_a_view_is_written_and_the_rest_of_the_memory_is_not():
    blob = blob_in(GPU)
    torch.mul(T[:, :2], 10, out=blob[:, 1:])
    assert blob.tolist() == [[0, 0, 10], [3, 30, 40]]
    torch.neg_(blob.T)
    assert blob.tolist() == [[0, 0, -10], [-3, -30, -40]]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
@pytest.mark.parametrize("head", [NONE, CPU, GPU, SYNCED])
@pytest.mark.parametrize(
    "backwards",
    [
        lambda a: a[::-1],
        lambda a: a[:, ::-1],
        lambda a: a[::-1, 1:],
        np.rot90,
        lambda a: a[:1][::-1],
    ],
)
def test_negative_strides_are_written_through_copies(dtype, head, backwards):
    blob = blob_in(head, dtype)
    array = blob.cpu_data().astype("f8") if head is not NONE else np.zeros((2, 3))
    blob = blob_in(head, dtype)
    view = backwards(blob)
    operand = torch.ones(view.shape, dtype=getattr(torch, dtype))
    result = torch.add(operand, 1, out=view)
    backwards(array)[...] = 2
    assert result.tolist() == view.tolist()
    assert blob.tolist() == array.tolist()
    result = torch.add(backwards(blob), backwards(blob), out=backwards(blob))
    backwards(array)[...] *= 2
    assert blob.tolist() == array.tolist()
    torch.neg_(backwards(blob))
    backwards(array)[...] *= -1
    assert blob.tolist() == array.tolist()
    del result
    assert not blob.memory.aliased


def test_a_failure_leaves_an_out_with_negative_strides_as_it_was():
    blob = blob_in(CPU)
    with pytest.raises((RuntimeError, ValueError)):
        torch.add(torch.ones(7), 1, out=blob[::-1])
    with pytest.raises(ValueError, match="const view"):
        torch.add(T, 1, out=blob[::-1].const)
    assert blob.tolist() == values().tolist()


# Functions that write the elements of a tensor or Blob into another in reverse order.
REVERSING = [
    lambda target, x, index: torch.ops.aten.index_put_(target, [index], x),
    lambda target, x, index: torch.ops.aten.scatter_(target, 0, index, x),
    lambda target, x, index: torch.take(x, index, out=target),
]


@pytest.mark.parametrize("write", REVERSING, ids=["index_put_", "scatter_", "out="])
def test_a_blob_and_a_tensor_over_the_same_elements_are_kept_apart(write):
    blob, reverse = Blob(100), torch.arange(99, -1, -1)
    tensor = blob.to_torch()
    for target, x in [(tensor, blob), (blob, tensor)] * 2:
        blob[...] = np.arange(100)
        write(target, x, reverse)
        assert blob.tolist() == [*range(99, -1, -1)]


def test_two_blobs_over_overlapping_memory_are_kept_apart():
    array = np.arange(1000.0)
    x, y = Blob.asarray(array), Blob.asarray(array[1:])
    torch.add(x[:-1], 0, out=y)
    assert array.tolist() == [0, *range(999)]
    torch.cat([x[:1], x[:-2]], out=y)
    assert array.tolist() == [0, 0, 0, *range(997)]


# --- sides ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", PAIR)
def test_inputs_are_downloaded_once_and_what_is_written_stays_on_the_host(simulated, head):
    blob = blob_in(head)
    simulated.reset_counts()
    torch.add(blob, blob)
    torch.exp(blob)
    torch.relu_(blob)
    torch.sigmoid_(blob)
    assert blob.head is CPU
    assert (simulated.uploads, simulated.downloads) == (0, int(head in (GPU, SPLIT)))
    assert simulated.downloaded_bytes == {GPU: 24, SPLIT: 20}.get(head, 0)


def test_an_out_that_is_a_part_without_gaps_is_overwritten_without_a_transfer(simulated):
    blob = blob_in(GPU)
    simulated.reset_counts()
    with syncblob.no_transfers():
        torch.add(T[0], 1, out=blob[0])
    assert (blob.head, blob[0].head, blob[1].head) == (SPLIT, CPU, GPU)
    assert blob.tolist() == [[1, 2, 3], [3, 4, 5]]
    assert (simulated.uploads, simulated.downloaded_bytes) == (0, 12)


@pytest.mark.usefixtures("exact_parts")
def test_an_out_with_gaps_is_brought_first_with_what_lies_in_them(simulated):
    blob = blob_in(GPU)
    simulated.reset_counts()
    torch.add(T[:, 1:], 1, out=blob[:, 1:])
    assert (simulated.downloads, simulated.downloaded_bytes) == (1, 20)
    assert blob.tolist() == [[0, 2, 3], [3, 5, 6]]
    assert (simulated.uploads, simulated.downloaded_bytes) == (0, 24)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("head", PAIR)
@pytest.mark.parametrize(
    "make", [lambda out: torch.add(T, 1, out=out), lambda out: torch.cat([T, T], out=out)]
)
def test_an_out_of_another_shape_is_refused(make, head):
    for shape in ((0,), (2, 0), (2,), (6,), (1, 2, 3), (3, 3)):
        blob = blob_in(head, shape=shape)
        contents = (values(shape=shape) * bool(head)).tolist()
        with pytest.raises(ValueError, match=rf"{re.escape(str(shape))}; resize it first"):
            make(blob)
        # One that is large enough is written where its newest contents are.
        if blob.size < T.numel() or head is GPU:
            assert blob.tolist() == contents
        assert not blob.memory.aliased
        blob.resize(make(torch.empty(0)).shape)
        assert make(blob).tolist() == blob.tolist() == make(torch.empty(0)).tolist()


def test_several_results_are_written_to_several_blobs():
    out = blob_in(GPU, shape=(2,)), blob_in(GPU, "int64", shape=(2,))
    result = torch.max(T, 1, out=out)
    assert (out[0].tolist(), out[1].tolist()) == ([2, 5], [2, 2])
    assert result.values.data_ptr() == out[0].cpu_data().ctypes.data


def test_a_parameter_may_have_the_name_of_a_statement():
    blob = blob_in(CPU)
    getattr(torch.ops.aten.random_, "from")(blob, **{"from": 5, "to": 6})
    assert blob.tolist() == [[5] * 3] * 2


def test_the_same_reversed_blob_twice_is_written_twice():
    blob = Blob(3)
    torch._foreach_add_([blob[::-1], blob[::-1]], 1)
    assert blob.tolist() == [2] * 3


def test_the_blobs_of_a_list_are_not_compared_with_each_other(monkeypatch):
    blob, compared = Blob.asarray(np.arange(300.0).reshape(100, 3)), []
    equal = Layout.__eq__
    monkeypatch.setattr(Layout, "__eq__", lambda x, y: compared.append(x) or equal(x, y))
    assert torch.stack([blob[i] for i in range(100)]).flatten().tolist() == [*range(300)]
    assert len(compared) < 300


# --- writes --------------------------------------------------------------------------------------


def test_an_operator_of_ones_own_says_in_its_schema_what_it_writes():
    @torch.library.custom_op("syncblob_tests::scale", mutates_args={"target"})
    def scale(source: torch.Tensor, target: torch.Tensor) -> None:
        target.mul_(source)

    source, target = blob_in(GPU), blob_in(GPU)
    scale(source, target)
    assert (source.head, target.head) == (SYNCED, CPU)
    torch.ops.syncblob_tests.scale(source=source, target=target)
    assert target.tolist() == (values() ** 3).tolist()


def _unheard_of(x):
    """Write its argument, although nothing indicates this."""
    if torch.overrides.has_torch_function_unary(x):
        return torch.overrides.handle_torch_function(_unheard_of, (x,), x)
    x.add_(1)
    return None


@pytest.mark.parametrize("inference", [False, True])
def test_a_function_of_which_nothing_is_known_is_seen_to_write(inference):
    for blob in (blob_in(GPU), blob_in(GPU)[::-1]):
        with torch.inference_mode(inference):
            before = np.array(blob)
            _unheard_of(blob)
            assert blob.head is CPU
            assert blob.tolist() == (before + 1).tolist()
            with pytest.raises(ValueError, match="const view"):
                _unheard_of(blob.const)


def test_collectives_write_what_they_receive(tmp_path):
    distributed = torch.distributed
    if not distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    distributed.init_process_group(
        "gloo", init_method=(tmp_path / "group").as_uri(), rank=0, world_size=1
    )
    try:
        sent, received = blob_in(GPU), blob_in(GPU)
        distributed.all_gather([received], sent)
        assert (sent.head, received.head) == (SYNCED, CPU)
        distributed.all_reduce(sent)
        assert sent.head is CPU
    finally:
        distributed.destroy_process_group()


# --- modes of torch ------------------------------------------------------------------------------


def test_sparse_results_are_no_views():
    blob = Blob((3, 3))
    blob[...] = np.eye(3)
    result = torch.sparse.mm(torch.eye(3).to_sparse(), blob)
    assert result.tolist() == blob.tolist()
    assert torch.ops.aten.to_sparse(blob).is_sparse
    assert not blob.memory.aliased


aten = torch.ops.aten
ROWS, COLUMNS = [0, 1, 3], [0, 0, 1]
# Functions of values and of indices, one of which is a Blob, and the part that is made of it.
COMPOSED = {
    "coo values": (
        "float32",
        lambda b: aten._sparse_coo_tensor_unsafe(torch.tensor([[0, 1, 2]]), b, [3]),
        lambda x: x._values(),
    ),
    "coo indices": (
        "int64",
        lambda b: aten._sparse_coo_tensor_unsafe(b.reshape(1, 3), torch.ones(3), [9]),
        lambda x: x._indices(),
    ),
    "csr values": (
        "float32",
        lambda b: aten._sparse_csr_tensor_unsafe(*map(torch.tensor, (ROWS, COLUMNS)), b, [2, 2]),
        lambda x: x.values(),
    ),
    "csc indices": (
        "int64",
        lambda b: aten._sparse_csc_tensor_unsafe(b, torch.tensor(COLUMNS), torch.ones(3), [2, 2]),
        lambda x: x.ccol_indices(),
    ),
    "nested values": (
        "float32",
        lambda b: torch.nested.nested_tensor_from_jagged(b, torch.tensor(ROWS)),
        lambda x: x.values(),
    ),
    "nested offsets": (
        "int64",
        lambda b: torch.nested.nested_tensor_from_jagged(torch.ones(3), b),
        lambda x: x.offsets(),
    ),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
@pytest.mark.parametrize(("dtype", "compose", "part"), COMPOSED.values(), ids=COMPOSED)
def test_a_tensor_composed_of_a_blob_is_an_alias_and_of_a_const_one_a_copy(dtype, compose, part):
    blob = Blob(3, dtype, device="simulated")
    blob[...] = ROWS
    composed = compose(blob.const)
    part(composed).add_(1)
    assert not blob.memory.aliased
    assert blob.tolist() == ROWS
    composed = compose(blob)
    assert blob.memory.aliased
    part(composed).add_(1)
    assert blob.tolist() == [1, 2, 4]
    del composed
    assert not blob.memory.aliased


# --- to_torch ------------------------------------------------------------------------------------


def test_to_torch_refuses():
    blob = blob_in(CPU)
    with pytest.raises(ValueError, match="const view"):
        blob.const.to_torch(copy=False)
    with pytest.raises(ValueError, match="negative strides"):
        blob[::-1].to_torch()


# --- CUDA ----------------------------------------------------------------------------------------


@pytest.fixture
def on_cuda():
    """Return a tensor on a CUDA device. The torch of the host's tests does not support CUDA."""
    if not torch.cuda.is_available():
        pytest.skip("needs a build of torch with CUDA")
    return T.cuda()


@pytest.mark.gpu
def test_on_cuda_a_function_computes_where_the_tensors_are(on_cuda):
    blob = Blob((2, 3), device="cuda")
    blob.mutable_cpu_data()[...] = values()
    assert torch.add(blob, T).device.type == "cpu"
    result = torch.add(blob, on_cuda)
    assert (result.device.type, blob.head) == ("cuda", SYNCED)
    blob.mutable_gpu_data()
    assert torch.add(blob, 1).device.type == "cuda"
    assert torch.add(blob, torch.tensor(1.0)).device.type == "cuda"
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.add(result, 1, out=blob)
    assert blob.tolist() == (values() * 2 + 1).tolist()
    tensor = blob.to_torch()
    assert tensor.device.type == "cuda"
    tensor.zero_()
    assert blob.tolist() == [[0] * 3] * 2
