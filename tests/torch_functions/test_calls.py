"""Blobs as arguments of torch's functions: sides, devices, writes and errors."""

import re

import numpy as np
import pytest
from call_texts import functions
from made_blobs import CPU, GPU, NONE, PAIR, SPLIT, SYNCED, blob_in, values

import syncblob
from syncblob import Blob, Head
from syncblob._layout import Layout

torch = pytest.importorskip("torch")
F = torch.nn.functional
nn = torch.nn

T = torch.arange(6.0).reshape(2, 3)


# --- operands ------------------------------------------------------------------------------------


def test_an_operator_is_of_the_left_operands_kind():
    blob = blob_in(CPU)
    assert type(T * blob) is torch.Tensor
    assert type(blob * T) is Blob
    assert torch.Tensor.__eq__(T, blob).all()
    assert ((T + 1) ** blob).tolist() == ((values() + 1) ** values()).tolist()
    assert (T * blob).tolist() == (blob * T).tolist() == (values() ** 2).tolist()


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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
@pytest.mark.parametrize("head", [NONE, CPU, GPU, SYNCED])
@pytest.mark.parametrize(
    "backwards",
    functions(
        "a[::-1]; a[:, ::-1]; a[::-1, 1:]; np.rot90(a); a[:1][::-1]", "a", globals()
    ).values(),
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
    with pytest.raises(ValueError, match="const view"):
        blob.const.to_torch(copy=False)
    with pytest.raises(ValueError, match="negative strides"):
        blob[::-1].to_torch()
    assert blob.tolist() == values().tolist()


# Functions that write the elements of a tensor or Blob into another in reverse order.
REVERSING = functions(
    """
    torch.ops.aten.index_put_(target, [index], x); torch.ops.aten.scatter_(target, 0, index, x);
    torch.take(x, index, out=target)
    """,
    "target, x, index",
    globals(),
)


@pytest.mark.parametrize("write", REVERSING.values(), ids=REVERSING)
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


def heads(*blobs):
    return [blob.head for blob in blobs]


# --- ways to pass an argument --------------------------------------------------------------------

WRITTEN = functions(
    """
    torch.abs_(input=b); torch.ops.aten.mul_.Scalar(self=b, other=2);
    torch._foreach_add_(self=[b], scalar=1.0); nn.init.uniform_(tensor=b); F.relu(b, True);
    F.relu(input=b, inplace=True); F.dropout(b, 0.5, training=True, inplace=True);
    F.alpha_dropout(b, 0.5, training=True, inplace=True); F.threshold(b, 1, 9, inplace=True);
    F.rrelu(b, inplace=True); F.hardtanh(b, 0, 1, inplace=True); nn.ReLU(inplace=True)(b);
    torch._C._nn.rrelu_with_noise(T, b, 0.1, 0.3, True); torch.add(T, 1, out=b);
    torch.ops.aten.add.out(T, T, out=b); torch.split_copy(T, 2, out=[b]);
    torch.sort(T, out=(b, torch.empty(0, dtype=torch.int64)));
    torch.sort(T, out=[b, torch.empty(0, dtype=torch.int64)]);
    torch.ops.aten.frexp.Tensor_out(T, mantissa=b, exponent=torch.empty(2, 3, dtype=torch.int32))
    """,
    "b",
    globals(),
)


@pytest.mark.parametrize("call", WRITTEN.values(), ids=WRITTEN)
def test_what_is_written_is_noticed_however_it_is_given(call):
    blob = blob_in(GPU)
    call(blob)
    assert blob.head is CPU
    assert not blob.memory.aliased
    refused = blob_in(GPU)
    with pytest.raises(ValueError, match="const view"):
        call(refused.const)
    assert refused.tolist() == values().tolist()


READ = functions(
    """
    F.relu(b, inplace=False); F.dropout(b, 0.5, training=True); F.batch_norm(b, b[0], b[0]);
    F.embedding(torch.tensor([1]), b); torch._foreach_add([b], 1.0); torch.add(T, other=b);
    T.clone().mul_(b).copy_(b); nn.ReLU()(b); torch.add(b, 1, out=torch.empty(2, 3));
    torch.where(b > 2, b, 0.0); torch.cat([T, b, b.const, b[:1]]); torch.block_diag(*(b, b));
    torch.masked_select(b, b > 2)
    """,
    "b",
    globals(),
)


@pytest.mark.parametrize("call", READ.values(), ids=READ)
@pytest.mark.parametrize("head", [CPU, GPU, SYNCED])
def test_what_is_read_stays_where_it_was_or_is_synced(head, call):
    blob = blob_in(head)
    call(blob)
    assert blob.head is (CPU if head is CPU else SYNCED)
    assert blob.device == ("cpu" if head is CPU else "simulated:0")
    assert not blob.memory.aliased
    assert blob.tolist() == values().tolist()


# --- lists ---------------------------------------------------------------------------------------


def test_functions_of_lists_write_what_their_schemas_say():
    targets, sources = [blob_in(GPU), blob_in(GPU)], [blob_in(GPU), blob_in(GPU)]
    torch._foreach_copy_(targets, sources)
    torch._foreach_mul_(targets, sources)
    norms = torch._foreach_norm(sources)
    assert heads(*targets, *sources) == [CPU, CPU, SYNCED, SYNCED]
    assert targets[1].tolist() == (values() ** 2).tolist()
    assert norms[0].item() == pytest.approx(np.linalg.norm(values()))
    torch._foreach_zero_(targets)
    assert targets[0].tolist() == [[0] * 3] * 2


def test_a_blob_that_is_read_and_written_in_one_list_is_one_tensor():
    blob = blob_in(GPU)
    torch._foreach_add_([blob], [blob])
    assert blob.tolist() == (2 * values()).tolist()
    other = blob_in(GPU)
    other.share_data(blob)
    torch.add(blob, other, out=other)
    assert blob.tolist() == (4 * values()).tolist()


# --- statistics ----------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
def test_a_normalisation_with_blobs_for_its_statistics(training):
    mean, var, weight = (blob_in(GPU, shape=(3,)) for _ in range(3))
    module = nn.BatchNorm1d(3).train(training)
    expected = module.get_buffer("running_mean").copy_(torch.arange(3.0))
    module.running_var.copy_(torch.arange(3.0))
    module.weight.data.copy_(torch.arange(3.0))
    result = F.batch_norm(blob_in(GPU), mean, var, weight, training=training)
    torch.testing.assert_close(result, module(T).detach())
    assert heads(mean, var, weight) == [*([CPU if training else SYNCED] * 2), SYNCED]
    assert mean.tolist() == expected.tolist()
    assert var.tolist() == module.running_var.tolist()


def test_statistics_that_would_be_written_may_not_be_const():
    mean, var = blob_in(GPU, shape=(3,)), blob_in(GPU, shape=(3,))
    F.batch_norm(T, mean.const, var.const)
    with pytest.raises(ValueError, match="const view"):
        F.batch_norm(T, mean, var.const, training=True)
    assert var.tolist() == [0, 1, 2]


# --- tensors' own methods ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        torch.Tensor.__array__,
        torch.Tensor.__dlpack__,
        torch.Tensor.storage,
        lambda b: torch.Tensor.__reduce_ex__(b, 2),
    ],
)
def test_methods_of_tensors_cannot_expose_memory_untracked(call):
    blob = blob_in(GPU)
    for given in (blob, blob.const):
        with pytest.raises(TypeError, match=r"Blob.*to_torch\(\)"):
            call(given)
    assert blob.head is GPU
    assert not blob.memory.aliased


@pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated")
def test_matrices_by_position_are_no_output():
    blobs = [blob_in(GPU, "float32", (3, 3)) for _ in range(3)]
    before = [np.array(blob) for blob in blobs]
    product = torch.chain_matmul(*blobs[:2], blobs[2].const)
    np.testing.assert_allclose(product.tolist(), before[0] @ before[1] @ before[2], rtol=1e-5)
    for blob, array in zip(blobs, before, strict=True):
        assert np.array_equal(np.array(blob), array)


def test_what_asks_for_no_element_moves_nothing():
    blob = blob_in(GPU)
    with syncblob.no_transfers():
        assert not any((torch.is_conj(blob), torch.is_neg(blob), torch.is_inference(blob)))
        assert torch.get_device(blob) == -1
        assert torch.is_same_size(blob, blob)
        assert torch.result_type(blob, 1) is torch.float32
        assert torch.zeros_like(blob).tolist() == [[0] * 3] * 2
    assert blob.head is GPU


def test_the_numbers_beside_a_blob_of_which_only_the_shape_is_used_are_read():
    blob, three = Blob(2, device="simulated"), Blob((), "int64", device="simulated")
    three[...] = 3
    with syncblob.record_transfers() as log:
        assert torch.full_like(blob, three).tolist() == [3, 3]
        assert torch.full_like(fill_value=three, input=blob).tolist() == [3, 3]
        assert torch.full_like(torch.zeros(2), three).tolist() == [3, 3]
    assert (blob.head, log.downloads) == (Head.UNINITIALIZED, 1)


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
