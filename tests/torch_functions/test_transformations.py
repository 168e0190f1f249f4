"""torch.compile, torch.func and torch.jit: their results with Blobs, and their errors."""

import pytest
from made_blobs import CPU, GPU, SYNCED, blob_in, values

from syncblob import Blob

torch = pytest.importorskip("torch")
nn = torch.nn

T = torch.arange(6.0).reshape(2, 3)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.*:DeprecationWarning"),
    # Warnings of torch's compiler about its own code.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*"),
]


# --- torch.compile -------------------------------------------------------------------------------


def compiled(function, **settings):
    torch.compiler.reset()
    # This backend traces, but does not need a C++ compiler.
    return torch.compile(function, backend="aot_eager", **settings)


@pytest.mark.long
def test_a_compiled_function_calls_torchs_functions_on_blobs():
    blob = blob_in(GPU)
    function = compiled(lambda x, y: torch.relu(x) * y)
    for factor in (1, 2):
        result = function(blob, torch.full((2, 3), float(factor)))
        assert result.tolist() == (factor * values()).tolist()
    assert blob.head is SYNCED
    assert not blob.memory.aliased


@pytest.mark.long
def test_a_compiled_function_writes_blobs_around_it():
    blob = blob_in(GPU)
    function = compiled(lambda x: torch.add(blob, x, out=blob) * 2)
    for count in (1, 2):
        assert function(torch.ones(2, 3)).tolist() == (2 * (values() + count)).tolist()
        assert blob.head is CPU
        blob.mutable_gpu_data()
    assert blob.tolist() == (values() + 2).tolist()


@pytest.mark.long
def test_a_compiled_function_makes_tensors_and_parameters_of_blobs():
    blob = blob_in(GPU)
    assert compiled(lambda x: blob.to_torch() + x)(T).tolist() == (2 * values()).tolist()
    compiled(lambda x: (blob.as_parameter() * x).sum())(T).backward()
    assert blob.diff.tolist() == values().tolist()


def test_a_compiled_function_writes_the_data_of_a_parameter_and_gives_it_a_gradient():
    blob = blob_in(CPU)
    parameter = blob.as_parameter()

    def function(x):
        parameter.data.clamp_(1, 4)
        parameter.grad = x
        return parameter.sum() * parameter.blob.ndim

    expected = values().clip(1, 4)
    assert compiled(function)(T).item() == 2 * expected.sum()
    assert (blob.tolist(), blob.diff.tolist()) == (expected.tolist(), T.tolist())


@pytest.mark.long
def test_a_compiled_module_learns_in_the_blob():
    blob = blob_in(CPU)
    module = nn.Linear(3, 2)
    module.weight = blob.as_parameter()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    function = compiled(module)
    for count in (1, 2, 3):
        optimizer.zero_grad()
        function(torch.ones(4, 3)).sum().backward()
        assert blob.diff.tolist() == [[4] * 3] * 2
        optimizer.step()
        assert blob.tolist() == (values() - 2 * count).tolist()


def test_a_graph_without_breaks_has_no_place_for_a_blob():
    blob = blob_in(GPU)
    with pytest.raises(RuntimeError, match="disable"):
        compiled(lambda x: torch.relu(x) * 2, fullgraph=True)(blob)
    assert blob.head is GPU


# --- torch.func ----------------------------------------------------------------------------------

TRANSFORMATIONS = {
    "vmap": lambda f, x: torch.vmap(f)(x),
    "grad": lambda f, x: torch.func.grad(lambda y: f(y).sum())(x),
    "vjp": lambda f, x: torch.func.vjp(f, x)[1](torch.ones(2, 3))[0],
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (T,))[1],
    "functionalize": lambda f, x: torch.func.functionalize(f)(x),
    "nested": lambda f, x: torch.func.jacrev(torch.func.grad(lambda y: f(y).sum()))(x),
}


@pytest.mark.parametrize("transform", TRANSFORMATIONS.values(), ids=TRANSFORMATIONS)
def test_a_transformed_function_reads_the_blobs_around_it(transform):
    blob = blob_in(GPU, shape=(3,))
    expected = transform(lambda x: torch.mul(torch.arange(3.0), x), T)
    assert torch.equal(transform(lambda x: torch.mul(blob, x), T), expected)
    assert torch.equal(transform(lambda x: x * blob, T), expected)
    assert torch.equal(torch.no_grad()(transform)(lambda x: torch.mul(blob, x), T), expected)
    # What the Blob has kept inside is good outside.
    assert torch.clone(blob).tolist() == [0, 1, 2]
    weight = torch.ones(3, requires_grad=True)
    torch.mul(blob, weight).sum().backward()
    assert weight.grad.tolist() == [0, 1, 2]
    assert blob.head is SYNCED
    assert not blob.memory.aliased


# Transformations that return a view made inside them.
VIEWS_FROM_WITHIN = {
    "grad": lambda f: torch.func.grad(f, has_aux=True)(torch.ones(()))[1],
    "nested": lambda f: torch.func.grad(torch.func.grad(f, has_aux=True), has_aux=True)(T[0, 0])[1],
    "jvp": lambda f: torch.func.jvp(f, (T[0, 0],), (T[0, 0],), has_aux=True)[2],
    "vmap": lambda f: torch.vmap(f, out_dims=(0, None))(torch.ones(2))[1],
}


@pytest.mark.parametrize("transform", VIEWS_FROM_WITHIN.values(), ids=VIEWS_FROM_WITHIN)
def test_a_view_made_in_a_transformation_is_an_alias_and_of_a_const_blob_a_copy(transform):
    def viewing(blob):
        def function(x):
            view = torch.flatten(blob)
            return x * view.sum(), view

        return function

    blob = blob_in(GPU)
    transform(viewing(blob.const)).add_(1)
    assert not blob.memory.aliased
    assert blob.tolist() == values().tolist()
    view = transform(viewing(blob))
    assert blob.memory.aliased
    view.add_(1)
    assert blob.tolist() == (values() + 1).tolist()


# A warning of torch about its own code.
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr:UserWarning")
@pytest.mark.parametrize(
    "function",
    [lambda b: lambda x: torch.mul(x, b), lambda b: lambda x: x.flatten() * torch.flatten(b)],
    ids=["read", "view"],
)
@pytest.mark.parametrize("head", [CPU, SYNCED])
def test_a_linearized_function_remembers_copies(head, function):
    blob = blob_in(head)
    torch.clone(blob)
    _, derive = torch.func.linearize(function(blob), T)
    blob[...] = 100
    assert derive(torch.ones(2, 3)).flatten().tolist() == values().flatten().tolist()
    assert not blob.memory.aliased


@pytest.mark.parametrize("name", ["vmap", "grad", "vjp", "jvp"])
def test_what_is_transformed_over_is_a_tensor(name):
    blob = blob_in(GPU)
    with pytest.raises((ValueError, RuntimeError), match="Blob"):
        TRANSFORMATIONS[name](lambda x: 2 * x, blob)
    assert blob.head is GPU
    assert TRANSFORMATIONS[name](lambda x: 2 * x, blob.to_torch()).shape == (2, 3)


def test_a_blob_is_not_written_from_inside_a_transformation():
    blob = blob_in(GPU)
    with pytest.raises(RuntimeError, match=r"vmap|out="):
        torch.vmap(lambda x: torch.add(blob, x, out=blob))(torch.ones(4))
    assert blob.tolist() == values().tolist()


def test_statistics_are_written_inside_a_transformation():
    mean, var = blob_in(GPU, shape=(3,)), blob_in(GPU, shape=(3,))
    norm = nn.BatchNorm1d(3)
    norm.running_mean, norm.running_var = torch.arange(3.0), torch.arange(3.0)

    def loss(weight, mean, var):
        return nn.functional.batch_norm(T, mean, var, weight, training=True).pow(2).sum()

    weight = torch.ones(3)
    expected = torch.func.grad(loss)(weight, norm.running_mean, norm.running_var)
    assert torch.func.grad(lambda x: loss(x, mean, var))(weight).equal(expected)
    assert (mean.tolist(), var.tolist()) == (norm.running_mean.tolist(), norm.running_var.tolist())
    assert not mean.memory.aliased


def test_a_checkpoint_computes_again_what_it_computed_of_blobs():
    blob, weight = blob_in(GPU), torch.ones(2, 3, requires_grad=True)
    checkpoint = torch.utils.checkpoint.checkpoint
    checkpoint(lambda x: torch.mul(x, weight).relu().sum(), blob, use_reentrant=False).backward()
    assert weight.grad.tolist() == values().tolist()


# --- torch.jit and other functions that require tensors ------------------------------------------


REFUSALS = {
    "as a gradient": lambda b: torch.ones(2, 3, requires_grad=True).mul(1).backward(b),
    "to cond": lambda b: torch.cond(torch.tensor(1) > 0, torch.sin, torch.cos, (b,)),
    "to from_numpy": torch.from_numpy,
    "to a traced function": lambda b: torch.jit.trace(torch.neg, T)(b) * 2,
    "to as_nested_tensor": lambda b: torch.nested.as_nested_tensor([b]),
}


@pytest.mark.parametrize("call", REFUSALS.values(), ids=REFUSALS)
def test_what_takes_nothing_but_tensors_says_so(call):
    blob = blob_in(GPU)
    with pytest.raises((TypeError, RuntimeError), match=r"[Tt]ensor|ndarray"):
        call(blob)
    assert blob.head is GPU


def test_autocast_reaches_functions_of_blobs():
    blob = blob_in(GPU, shape=(3, 3))
    with torch.autocast("cpu"):
        assert torch.mm(blob, blob).dtype is torch.bfloat16
    assert blob.head is SYNCED


def test_a_derivative_that_is_taken_later_is_that_of_what_the_blob_was():
    blob, weights = Blob(3), torch.ones(3)
    blob[...] = 2
    _, derive = torch.func.vjp(lambda x: x * blob, weights)
    blob[...] = 100
    assert derive(torch.ones(3))[0].tolist() == [2, 2, 2]

    def written_meanwhile(x):
        blob[...] = 2
        result = (x * blob).sum()
        blob[...] = 100
        return result

    assert torch.func.grad(written_meanwhile)(weights).tolist() == [2, 2, 2]
