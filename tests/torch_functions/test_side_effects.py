"""Each kind of torch function changes the heads of its arguments, and nothing else."""

import numpy as np
import pytest
from made_blobs import CPU, GPU, SYNCED, blob_in, values

torch = pytest.importorskip("torch")
F = torch.nn.functional
nn = torch.nn

T = torch.arange(6.0).reshape(2, 3)


def heads(*blobs):
    return [blob.head for blob in blobs]


# --- ways to pass an argument --------------------------------------------------------------------

WRITTEN = {
    "input=": lambda b: torch.abs_(input=b),
    "self=": lambda b: torch.ops.aten.mul_.Scalar(self=b, other=2),
    "a list, self=": lambda b: torch._foreach_add_(self=[b], scalar=1.0),
    "tensor=": lambda b: nn.init.uniform_(tensor=b),
    "inplace by place": lambda b: F.relu(b, True),  # noqa: FBT003  # under test
    "inplace and input=": lambda b: F.relu(input=b, inplace=True),
    "dropout": lambda b: F.dropout(b, 0.5, training=True, inplace=True),
    "alpha_dropout": lambda b: F.alpha_dropout(b, 0.5, training=True, inplace=True),
    "threshold": lambda b: F.threshold(b, 1, 9, inplace=True),
    "rrelu": lambda b: F.rrelu(b, inplace=True),
    "hardtanh": lambda b: F.hardtanh(b, 0, 1, inplace=True),
    "a module": nn.ReLU(inplace=True),
    "the noise": lambda b: torch._C._nn.rrelu_with_noise(T, b, 0.1, 0.3, True),  # noqa: FBT003  # has no names
    "out=": lambda b: torch.add(T, 1, out=b),
    "out= of an overload": lambda b: torch.ops.aten.add.out(T, T, out=b),
    "out= in a tuple": lambda b: torch.sort(T, out=(b, torch.empty(0, dtype=torch.int64))),
    "out= in a list": lambda b: torch.sort(T, out=[b, torch.empty(0, dtype=torch.int64)]),
    "a result by its name": lambda b: torch.ops.aten.frexp.Tensor_out(
        T, mantissa=b, exponent=torch.empty(2, 3, dtype=torch.int32)
    ),
    "several results": lambda b: torch.split_copy(T, 2, out=[b]),
}


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


READ = {
    "relu": lambda b: F.relu(b, inplace=False),
    "dropout": lambda b: F.dropout(b, 0.5, training=True),
    "no training": lambda b: F.batch_norm(b, b[0], b[0]),
    "an embedding": lambda b: F.embedding(torch.tensor([1]), b),
    "a list": lambda b: torch._foreach_add([b], 1.0),
    "other=": lambda b: torch.add(T, other=b),
    "of a method": lambda b: T.clone().mul_(b).copy_(b),
    "a module": nn.ReLU(),
    "into an out": lambda b: torch.add(b, 1, out=torch.empty(2, 3)),
    "where": lambda b: torch.where(b > 2, b, 0.0),
    "nested": lambda b: torch.cat([T, b, b.const, b[:1]]),
    "in a tuple": lambda b: torch.block_diag(*(b, b)),
    "masks": lambda b: torch.masked_select(b, b > 2),
}


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
