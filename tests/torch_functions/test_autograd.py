"""Parameters over Blobs: the places of gradients, the writes of steps, and that none is lost.

Steps of optimizers and of Caffe apply to both the parameter and the Blob.
"""

import weakref

import numpy as np
import pytest
from call_texts import functions
from made_blobs import CPU, GPU, NONE, PAIR, SPLIT, SYNCED, blob_in, is_over, values

import syncblob
from syncblob import Blob, StaleAliasWarning

torch = pytest.importorskip("torch")
F = torch.nn.functional
nn = torch.nn

T = torch.arange(6.0).reshape(2, 3)

pytestmark = pytest.mark.filterwarnings(
    # torch warns of every gradient with a graph. The tests break the cycles or leave them.
    "ignore:Using backward:UserWarning"
)


def made(head=CPU, dtype="float32", shape=(2, 3)):
    """Make a Blob that counts up, its parameter, and an equal parameter of torch's own."""
    blob = blob_in(head, dtype, shape)
    ordinary = nn.Parameter(torch.from_numpy(values(dtype, shape)))
    return blob, blob.as_parameter(), ordinary


# --- the leaf ------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", PAIR)
def test_the_leaf_is_data_and_its_gradient_is_diff_and_nothing_moves_but_what_is_missing(head):
    blob = blob_in(head)
    # The device lacks four bytes of a split Blob.
    with syncblob.max_transfers(bytes=4 if head is SPLIT else 0):
        parameter = blob.as_parameter()
    assert parameter.is_leaf
    assert parameter.requires_grad
    assert isinstance(parameter, nn.Parameter)
    assert is_over(parameter, blob)
    assert parameter.tolist() == (values() * bool(head)).tolist()
    assert parameter.grad.tolist() == blob.diff.tolist() == [[0] * 3] * 2
    assert blob.head is blob.diff_head is (CPU if head is CPU else GPU)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16", "complex64"])
def test_each_dtype_with_gradients_is_taken(dtype):
    blob = blob_in(CPU, dtype)
    parameter = blob.as_parameter()
    (parameter * parameter.conj()).sum().real.backward()
    assert blob.diff.tolist() == (2 * values(dtype)).tolist()
    assert is_over(parameter, blob)


@pytest.mark.parametrize("dtype", ["bool", "int64", "uint8"])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(TypeError, match="floating-point and complex"):
        Blob(3, dtype).as_parameter()


def test_const_blobs_and_negative_strides_are_refused_and_nothing_has_changed():
    blob = blob_in(SYNCED)
    with pytest.raises(ValueError, match="const view"):
        blob.const.as_parameter()
    with pytest.raises(ValueError, match="negative strides"):
        blob[::-1].as_parameter()
    assert (blob.head, blob.diff_head) == (SYNCED, NONE)
    assert not blob.memory.aliased


def test_where_a_transfer_fails_nothing_has_changed(simulated):
    blob = blob_in(SYNCED)
    blob.mutable_cpu_diff()[...] = 1
    with simulated.failing(transfer=1), pytest.raises(RuntimeError, match="injected"):
        blob.as_parameter()
    assert (blob.head, blob.diff_head) == (SYNCED, CPU)
    assert not blob.memory.aliased


# --- backward ------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", [CPU, GPU])
def test_backward_fills_diff_in_place_and_accumulates(head):
    blob, parameter, _ = made(head)
    with syncblob.no_transfers():
        for count in (1, 2, 3):
            (parameter**2).sum().backward()
            assert is_over(parameter, blob)
            gradient = blob.mutable_cpu_diff if head is CPU else blob.mutable_gpu_diff
            assert gradient().tolist() == (2 * count * values()).tolist()
    assert blob.diff_head is head


@pytest.mark.parametrize(
    "rest",
    [
        lambda p: p.grad.sum().backward(),
        lambda p: (p.grad**2).sum().backward(),
        lambda p: (p**2).sum().backward(),
        lambda p: ((p**2).sum().backward(create_graph=True), (p.grad**2).sum().backward()),
    ],
)
def test_double_backward_gives_what_it_gives_for_another_parameter(rest):
    blob, parameter, ordinary = made()
    for leaf in (parameter, ordinary):
        (leaf**3).sum().backward(create_graph=True)
        assert leaf.grad.requires_grad
        rest(leaf)
    assert blob.diff.tolist() == ordinary.grad.tolist()
    assert is_over(parameter, blob)


def test_autograd_grad_leaves_diff_alone():
    blob, parameter, _ = made()
    (gradient,) = torch.autograd.grad((parameter**3).sum(), parameter, create_graph=True)
    assert blob.diff.tolist() == [[0] * 3] * 2
    gradient.sum().backward()
    assert blob.diff.tolist() == (6 * values()).tolist()
    double = blob_in(CPU, "float64").as_parameter()
    assert torch.autograd.gradcheck(lambda x: (x**2).sum(), double)
    assert torch.func.grad(lambda x: (x**2).sum())(double).tolist() == (2 * values()).tolist()


def test_sparse_gradients_are_added_to_diff():
    blob, parameter, _ = made()
    for count in (1, 2):
        F.embedding(torch.tensor([1, 0, 1]), parameter, sparse=True).sum().backward()
        assert blob.diff.tolist() == [[count] * 3, [2 * count] * 3]


def test_gradients_pass_through_functions_of_blobs():
    blob, parameter, ordinary = made()
    images = blob_in(GPU, shape=(4, 3))
    scale = blob_in(GPU, shape=(2,))
    for leaf in (parameter, ordinary):
        (F.linear(images, leaf) * torch.mul(scale, 2) + scale).relu().sum().backward()
    assert blob.diff.tolist() == ordinary.grad.tolist()
    assert images.head is scale.head is SYNCED
    torch.stack([parameter, blob_in(GPU)]).sum().backward()
    (blob_in(GPU) * parameter).sum().backward()
    assert blob.diff.tolist() == (ordinary.grad + 1 + T).tolist()


# --- steps ---------------------------------------------------------------------------------------

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "SGD, foreach": {"lr": 0.1, "foreach": True},
    "Adam, fused": {"fused": True},
    "AdamW": {"amsgrad": True},
    "Rprop": {},
}


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("head", [CPU, GPU])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_steps_the_blob(name, head, set_to_none):
    blob, parameter, ordinary = made(head)
    with syncblob.no_transfers():
        for leaf in (parameter, ordinary):
            optimizer = getattr(torch.optim, name.partition(",")[0])([leaf], **OPTIMIZERS[name])
            for _ in range(4):
                optimizer.zero_grad(set_to_none=set_to_none)
                ((leaf - 7) ** 2).sum().backward()
                optimizer.step()
        assert is_over(parameter, blob)
    np.testing.assert_allclose(blob, ordinary.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(blob.diff, ordinary.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad_sets_diff_to_zero_and_keeps_the_gradient_over_it(set_to_none):
    blob, parameter, _ = made()
    module = nn.ParameterList([parameter])
    for zero_grad in (torch.optim.SGD([parameter]).zero_grad, module.zero_grad):
        (parameter**2).sum().backward()
        zero_grad(set_to_none=set_to_none)
        assert blob.diff.tolist() == [[0] * 3] * 2
        assert is_over(parameter, blob)
    (parameter**2).sum().backward()
    del parameter.grad
    assert blob.diff.tolist() == [[0] * 3] * 2
    assert is_over(parameter, blob)


# --- Blobs that a graph keeps --------------------------------------------------------------------


# Of a transposed, a reversed and a const Blob, too, after a text, in a list, and the other way.
REMEMBERED = functions(
    """
    torch.mul(blob, w); torch.div(blob, w); torch.addcmul(w, blob, w); F.linear(blob, w);
    torch.mm(blob.T, w); torch.mul(blob[::-1], w); torch.mul(blob.const, w**2);
    torch.einsum('ij,kj->ik', blob, w); torch.linalg.multi_dot([w, blob.T]); w * blob
    """,
    "blob, w",
    globals(),
)


@pytest.mark.parametrize("function", REMEMBERED.values(), ids=REMEMBERED)
@pytest.mark.parametrize("head", [CPU, GPU])
def test_a_blob_that_was_read_may_be_written_before_backward(head, function):
    results = []
    for written in (False, True):
        blob, weight = blob_in(head), torch.full((2, 3), 2.0, requires_grad=True)
        loss = (function(blob, weight) ** 2).sum()
        assert blob.head is (CPU if head is CPU else SYNCED)
        assert not blob.memory.aliased
        if written:
            blob[...] = 77
            assert blob.cpu_data()[0, 0] == 77
        (gradient,) = torch.autograd.grad(loss, weight, create_graph=True)
        results.append((gradient.detach(), *torch.autograd.grad((gradient**2).sum(), weight)))
    torch.testing.assert_close(results[1], results[0])


def test_a_call_with_gradients_returns_no_view_of_a_blob():
    blob = blob_in(CPU)
    view, _ = torch.broadcast_tensors(blob, torch.ones(4, 2, 3, requires_grad=True))
    assert not blob.memory.aliased
    view[0, 0, 0] = 9
    assert blob.tolist() == values().tolist()


def test_inference_mode_records_nothing():
    weight = torch.ones(2, 3, requires_grad=True)
    with torch.inference_mode(), torch.enable_grad():
        result = torch.mul(blob_in(GPU), weight)
    assert result.is_inference()
    assert result.tolist() == values().tolist()


def test_a_graph_keeps_no_blob():
    weight = torch.ones(3, requires_grad=True)
    blob, mean, var = blob_in(GPU), blob_in(GPU, shape=(3,)), blob_in(GPU, shape=(3,))
    loss = F.batch_norm(blob, mean, var, weight, training=True).sum()
    assert not mean.memory.aliased
    assert not var.memory.aliased
    gone = weakref.ref(blob.memory)
    del blob
    assert gone() is None
    loss.backward()
    assert weight.grad is not None


# --- views and sharing ---------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:grad and param do not obey")
@pytest.mark.parametrize("view", [lambda b: b.T, lambda b: b[1:], lambda b: b[:, 1:]])
def test_a_view_is_a_parameter_too(view):
    blob = blob_in(CPU)
    part = view(blob)
    parameter = part.as_parameter()
    (parameter * parameter).sum().backward()
    assert part.diff.tolist() == (2 * view(values())).tolist()
    assert blob.diff.sum() == 2 * view(values()).sum()


# --- on the other side ---------------------------------------------------------------------------


@pytest.mark.parametrize("head", [CPU, GPU])
def test_reading_on_the_other_side_sees_every_step(head):
    blob, parameter, _ = made(head)
    for count in (1, 2, 3):
        parameter.grad = torch.ones(2, 3)
        torch.optim.SGD([parameter], lr=1).step()
        for contents, gradient in (
            (blob.cpu_data(), blob.cpu_diff()),
            (blob.gpu_data(), blob.gpu_diff()),
        ):
            assert contents.tolist() == (values() - count).tolist()
            assert gradient.tolist() == [[1] * 3] * 2
        assert blob.head is blob.diff_head is head


def test_a_parameter_after_the_blob_was_written_on_the_accelerator_and_came_back():
    blob, parameter, _ = made(CPU)
    with pytest.warns(StaleAliasWarning, match="host side"):
        blob.mutable_gpu_data()[...] = 5
    assert parameter.tolist() == values().tolist()
    blob.cpu_data()
    (parameter**2).sum().backward()
    torch.optim.SGD([parameter], lr=0.1).step()
    assert blob.gpu_data().tolist() == blob.tolist() == parameter.tolist() == [[4] * 3] * 2
    assert parameter.data_ptr() == blob.cpu_data().ctypes.data
    assert blob.head is CPU


def test_the_aliases_end_with_the_parameter():
    blob, parameter, _ = made(GPU)
    loss = (parameter**2).sum()
    del parameter
    assert blob.memory.aliased  # the graph refers to it
    loss.backward()
    del loss
    assert blob.diff.tolist() == (2 * values()).tolist()
    assert not blob.memory.aliased
    assert not blob.diff.memory.aliased


@pytest.mark.parametrize("reset", [lambda _: None, lambda p: p.grad.detach(), lambda p: p.data])
def test_a_cycle_of_double_backward_ends_where_the_gradient_is_reset(reset):
    blob, parameter, _ = made()
    (parameter**2).sum().backward(create_graph=True)
    parameter.grad = reset(parameter)
    del parameter
    assert not blob.memory.aliased
    assert not blob.diff.memory.aliased
