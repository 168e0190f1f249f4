"""torch's functions and modules on Blobs: the result for tensors, and the path of each Blob."""

import copy

import pytest
import tiers
from made_blobs import CPU, GPU, SYNCED

import syncblob
from syncblob import Blob

torch = pytest.importorskip("torch")
calls = pytest.importorskip("torch_calls")

DEVICES = ["cpu", "simulated"]


class Maker:
    """Replaces tensors by Blobs, and keeps the Blobs."""

    def __init__(self, device):
        self.device = device
        self.blobs = []

    def __call__(self, x):
        if isinstance(x, torch.Tensor):
            blob = Blob.asarray(x.numpy(), copy=True).to_device(self.device)
            self.blobs.append(blob)
            return blob
        return type(x)(map(self, x)) if isinstance(x, (list, tuple)) else x

    def call(self, row):
        function, args, kwargs = row
        named = {keyword: self(x) for keyword, x in kwargs.items()}
        torch.manual_seed(0)
        return function(*map(self, args), **named)

    @property
    def heads(self):
        return {blob.head for blob in self.blobs}

    @property
    def aliased(self):
        return any(blob.memory.aliased for blob in self.blobs)


def copied(x):
    if isinstance(x, torch.Tensor):
        return x.clone()
    return type(x)(map(copied, x)) if isinstance(x, (list, tuple)) else x


def with_tensors(row):
    function, args, kwargs = row
    args = copied(args)
    torch.manual_seed(0)
    return function(*args, **kwargs), args


def assert_same(result, expected):
    assert type(result) is type(expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(result, expected, equal_nan=True)
    elif isinstance(expected, (list, tuple)):
        assert len(result) == len(expected)
        for one, other in zip(result, expected, strict=True):
            assert_same(one, other)
    else:
        assert result == expected


def named(row):
    return getattr(row[0], "__name__", None) or type(row[0]).__name__


# The functions of the short tier, and the case that each represents.
SHORT = {
    "abs": "one operand",
    "add": "two operands, and an operator of aten",
    "batch_norm": "statistics that may be written",
    "cat": "a list of operands",
    "dropout": "a random result, or a view",
    "einsum": "operands after a text",
    "embedding": "integers, and weights that may be written",
    "full_like": "a shape",
    "numel": "a question for no element",
    "result_type": "a question for two operands",
    "sum": "a reduction",
}
SHORT_MODULES = {
    "CrossEntropyLoss": "two inputs",
    "Dropout": "a random result",
    "Embedding": "integers",
    "Flatten": "a view",
    "Linear": "parameters",
    "LSTM": "states, and parameters that are no tensors of the module",
    "MultiheadAttention": "inputs that it asks for their device",
    "ReLU": "nothing but a function",
    "Sequential": "other modules, with buffers",
}


def modules(rows, *short):
    """Parametrise a test by modules and their inputs."""
    rows = tiers.representatives(
        rows, {one: SHORT_MODULES[one] for one in short}, name=named, several=True
    )
    return pytest.mark.parametrize(
        ("module", "inputs"), rows, ids=lambda x: "" if isinstance(x, tuple) else repr(x)
    )


# --- functions ---------------------------------------------------------------------------------

UNREAD = {
    *(torch.zeros_like, torch.ones_like, torch.full_like, torch.rand_like),
    *(torch.numel, torch.is_floating_point, torch.is_complex, torch.result_type),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "row", tiers.representatives(calls.FUNCTIONS, SHORT, name=named), ids=named
)
def test_a_function_gives_what_it_gives_for_tensors_and_takes_the_const_path(row, device):
    maker = Maker(device)
    assert_same(maker.call(row), with_tensors(row)[0])
    read = CPU if device == "cpu" else GPU if row[0] in UNREAD else SYNCED
    assert maker.heads == {read}
    assert not maker.aliased


@pytest.mark.parametrize("row", calls.VIEWS, ids=named)
@pytest.mark.parametrize("device", DEVICES)
def test_a_view_is_a_tracked_alias_until_it_is_gone(row, device):
    function, args, kwargs = row
    blob = Maker(device)(args[0])
    assert_same(function(blob, *args[1:], **kwargs), with_tensors(row)[0])
    for count in (1, 2):
        result = function(blob, *args[1:], **kwargs)
        assert (blob.head, blob.memory.aliased) == (CPU, True)
        before = blob.tolist()
        first = result if isinstance(result, torch.Tensor) else result[0]
        first[(0,) * first.ndim] = 77 * count
        assert blob.tolist() == torch.clone(blob).tolist() != before
        if device == "simulated":
            with pytest.raises(syncblob.StaleAliasWarning):
                blob.mutable_gpu_data()
            blob.gpu_data()
            assert blob.head is CPU  # sticky: the alias may be written at any moment
        del result, first
        assert not blob.memory.aliased


@pytest.mark.parametrize("row", calls.VIEWS, ids=named)
def test_a_view_of_a_const_blob_is_a_copy(row):
    function, args, kwargs = row
    blob = Blob.asarray(args[0].numpy(), copy=True).to_device("simulated")
    const, before = blob.const, blob.tolist()
    for _ in range(2):
        # The second one is of a tensor that the Blob has kept.
        result = function(const, *args[1:], **kwargs)
        assert_same(result, with_tensors(row)[0])
        assert (blob.head, blob.memory.aliased) == (SYNCED, False)
        first = result if isinstance(result, torch.Tensor) else result[0]
        if 0 not in first.stride():
            first.zero_()
        assert blob.tolist() == torch.clone(const).tolist() == before


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("row", calls.IN_PLACE, ids=named)
def test_a_function_that_works_in_place_takes_the_mutable_path(row, device):
    maker = Maker(device)
    result = maker.call(row)
    expected, (written, *_) = with_tensors(row)
    assert_same(result, expected)
    target, *others = maker.blobs
    assert_same(torch.tensor(target.tolist()), written)
    assert result.data_ptr() == target.cpu_data().ctypes.data
    assert target.head is CPU
    assert all(blob.head is (CPU if device == "cpu" else SYNCED) for blob in others)
    del result
    assert not maker.aliased


@pytest.mark.parametrize("row", calls.IN_PLACE, ids=named)
def test_a_function_that_works_in_place_refuses_a_const_blob_which_stays_as_it_was(row):
    function, args, kwargs = row
    blob = Blob.asarray(args[0].numpy(), copy=True)
    before = blob.tolist()
    with pytest.raises(ValueError, match="const view"):
        function(blob.const, *args[1:], **kwargs)
    assert blob.tolist() == before


def _has_out(row):
    name = getattr(row[0], "__name__", "")
    operator = getattr(torch.ops.aten, name, None)
    if operator is None or not isinstance(row[0], type(torch.add)):
        return False
    with_out = [getattr(operator, overload)._schema for overload in operator.overloads()]
    return any(argument.is_out for schema in with_out for argument in schema.arguments)


def _outs_of(row):
    """Make arguments for `out`. Return None if the function does not take `out`."""
    result = with_tensors(row)[0]
    results = result if isinstance(result, tuple) else (result,)
    try:
        row[0](*row[1], **row[2], out=copied(result))
    except (TypeError, RuntimeError):
        return None
    return results


WITH_OUT = [row for row in calls.FUNCTIONS if _has_out(row) and _outs_of(row) is not None]
assert len(WITH_OUT) >= 100


SHORT_OUT = {one: SHORT[one] for one in ("abs", "add")}


@pytest.mark.parametrize("row", tiers.representatives(WITH_OUT, SHORT_OUT, name=named), ids=named)
def test_out_is_overwritten_without_a_transfer(row, simulated):
    expected, (*_,) = with_tensors(row)
    results = expected if isinstance(expected, tuple) else (expected,)
    outs = [Blob.asarray(x.numpy(), copy=True).to_device("simulated") for x in results]
    for out in outs:
        out.mutable_gpu_data().fill(1)
    simulated.reset_counts()
    with syncblob.no_transfers():
        torch.manual_seed(0)
        out = type(expected)(outs) if isinstance(expected, tuple) else outs[0]
        result = row[0](*copied(row[1]), **row[2], out=out)
    got = [torch.from_dlpack(blob.cpu) for blob in outs]
    for one, other in zip(got, results, strict=True):
        assert_same(one, other)
    tensors = result if isinstance(result, tuple) else (result,)
    for blob, tensor in zip(outs, tensors, strict=True):
        assert blob.head is CPU
        assert tensor.numel() == 0 or tensor.data_ptr() == blob.cpu_data().ctypes.data


# --- modules -----------------------------------------------------------------------------------


def module_results(module, inputs):
    torch.manual_seed(0)
    with torch.no_grad():
        return copy.deepcopy(module)(*inputs)


@pytest.mark.parametrize("device", DEVICES)
@modules(calls.MODULES, *("CrossEntropyLoss Dropout Embedding Linear ReLU Sequential".split()))
def test_a_module_gives_what_it_gives_for_tensors(module, inputs, device):
    maker = Maker(device)
    result = module_results(module, [maker(x) for x in inputs])
    assert_same(result, module_results(module, inputs))
    assert maker.heads == {CPU if device == "cpu" else SYNCED}
    del result
    assert not maker.aliased


WITH_PARAMETERS = [row for row in calls.MODULES if [*row[0].parameters()]]


def module_gradients(module, inputs, between=lambda: None):
    module = copy.deepcopy(module)
    loss = (module(*inputs) ** 2).sum()
    between()
    loss.backward()
    return [parameter.grad for parameter in module.parameters()]


@modules(WITH_PARAMETERS, "Linear", "Sequential")
def test_a_module_has_the_gradients_that_it_has_for_tensors(module, inputs):
    maker = Maker("simulated")

    def written():
        for blob in maker.blobs:
            # A view that the graph keeps is an alias, and would see the write.
            if not blob.memory.aliased:
                blob[...] = 1
                blob.cpu_data()

    blobs = [maker(x) for x in inputs]
    assert_same(module_gradients(module, blobs, written), module_gradients(module, inputs))


@pytest.mark.parametrize("device", DEVICES)
@modules(calls.DEMANDING_MODULES, "Flatten", "LSTM", "MultiheadAttention")
def test_modules_that_ask_for_more_take_blobs_where_that_is_switched_on(module, inputs, device):
    from syncblob.integrations.torch import accept_blobs_in_modules

    maker = Maker(device)
    with accept_blobs_in_modules():
        result = module_results(module, [maker(x) for x in inputs])
    assert_same(result, module_results(module, inputs))
    with pytest.raises((TypeError, AttributeError)):
        module(*(maker(x) for x in inputs))


def test_where_that_is_switched_on_negative_strides_are_copied():
    from syncblob.integrations.torch import accept_blobs_in_modules

    blob = Blob.asarray(torch.arange(6.0))[::-1]
    with accept_blobs_in_modules():
        assert torch.nn.Identity()(blob).tolist() == blob.tolist()


class _Collecting(torch.nn.Module):
    def forward(self, x, found):
        found.append(x)


def test_where_that_is_switched_on_a_list_without_blobs_stays_the_callers():
    from syncblob.integrations.torch import accept_blobs_in_modules

    blob, found = Blob((2, 3)), []
    with accept_blobs_in_modules():
        _Collecting()(blob, found)
    assert [type(x) for x in found] == [torch.Tensor]
    assert blob.memory.aliased
    found.clear()
    assert not blob.memory.aliased
