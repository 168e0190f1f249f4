"""Parameters over Blobs in torch: modules, assignments, copies, separation from the Blob."""

import copy
import gc
import io
import pickle
from multiprocessing import resource_sharer
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
from call_texts import texts
from made_blobs import CPU, GPU, blob_in, is_over, values

from syncblob import Blob, StaleAliasWarning

torch = pytest.importorskip("torch")
pytest.importorskip("torch.multiprocessing")  # teaches ForkingPickler
nn = torch.nn
prune = pytest.importorskip("torch.nn.utils.prune")

from syncblob.integrations.torch import parameters_to_blobs  # noqa: E402  # torch


def made(head=CPU, shape=(2, 3)):
    blob = blob_in(head, shape=shape)
    return blob, blob.as_parameter()


# --- modules -------------------------------------------------------------------------------------


def test_a_state_that_is_assigned_replaces_the_parameter():
    blob, parameter = made()
    module = nn.Linear(3, 2)
    module.weight = parameter
    module.load_state_dict({k: 2 * v for k, v in module.state_dict().items()}, assign=True)
    assert module.weight is not parameter
    assert blob.tolist() == values().tolist()


def test_pruning_keeps_the_parameter_over_the_blob_and_writes_it_in_the_end():
    blob, parameter = made()
    module = nn.Linear(3, 2)
    module.weight = parameter
    prune.l1_unstructured(module, "weight", 2)
    module(torch.ones(1, 3)).sum().backward()
    assert blob.diff.tolist() == [[0, 0, 1], [1, 1, 1]]
    prune.remove(module, "weight")
    assert module.weight is parameter
    assert blob.tolist() == [[0, 0, 2], [3, 4, 5]]
    assert is_over(parameter, blob)


# --- assignments ---------------------------------------------------------------------------------


def test_data_that_is_assigned_is_copied_into_the_blob():
    blob, parameter = made()
    parameter.data = torch.ones(2, 3)
    assert blob.tolist() == [[1] * 3] * 2
    nn.utils.vector_to_parameters(torch.arange(6.0), [parameter])
    assert blob.tolist() == values().tolist()
    parameter.data += 1
    parameter.data = parameter.data
    assert blob.tolist() == (values() + 1).tolist()
    assert is_over(parameter, blob)


def test_data_of_an_overlapping_view_is_copied_as_it_was():
    blob = Blob(1000)
    blob[...] = np.arange(1000)
    parameter = blob[1:901].as_parameter()
    parameter.data = blob[:900].to_torch()
    assert blob[1:901].tolist() == [*range(900)]
    blob.diff[...] = np.arange(1000)
    parameter.grad = blob.diff[:900].to_torch()
    assert blob.diff[1:901].tolist() == [*range(900)]


@pytest.mark.parametrize("view", [torch.conj, torch._neg_view])
def test_data_that_is_conjugated_or_negated_lazily_is_copied_so(view):
    contents = np.array([1 + 2j, 3 - 1j], np.complex64)
    blob = Blob(2, "complex64")
    blob[...] = contents
    parameter = blob.as_parameter()
    parameter.grad = parameter.detach().clone()
    parameter.data = view(parameter.data)
    parameter.grad = view(parameter.grad)
    expected = view(torch.tensor(contents)).tolist()
    assert (blob.tolist(), blob.diff.tolist(), parameter.grad.tolist()) == (expected,) * 3
    assert is_over(parameter, blob)


@pytest.mark.parametrize(
    "gradient",
    [
        torch.full((2, 3), 2.0),
        torch.full((3, 2), 2.0).T,
        torch.full((2, 3), 2.0).to_sparse(),
        torch.tensor(2.0).expand(2, 3),
    ],
)
def test_a_gradient_that_is_assigned_is_copied_into_diff(gradient):
    blob, parameter = made()
    parameter.grad = gradient
    assert blob.diff.tolist() == [[2] * 3] * 2
    assert is_over(parameter, blob)
    parameter.grad = parameter.grad * 2
    parameter.grad += 1
    assert blob.diff.tolist() == [[5] * 3] * 2
    assert is_over(parameter, blob)


def test_a_gradient_that_is_assigned_keeps_its_graph():
    blob, parameter = made()
    factor = torch.tensor(2.0, requires_grad=True)
    parameter.grad = factor * torch.ones(2, 3)
    parameter.grad.sum().backward()
    assert factor.grad.item() == 6
    assert blob.diff.tolist() == [[2] * 3] * 2


@pytest.mark.parametrize("gradient", [torch.ones(3), torch.ones(2, 3).double(), 3, "1"])
def test_a_gradient_that_does_not_fit_is_refused_as_torch_does(gradient):
    blob, parameter = made()
    parameter.sum().backward()
    for leaf in (parameter, nn.Parameter(torch.ones(2, 3))):
        with pytest.raises((TypeError, RuntimeError), match="grad"):
            leaf.grad = gradient
    assert blob.diff.tolist() == [[1] * 3] * 2
    assert is_over(parameter, blob)


# --- copies --------------------------------------------------------------------------------------


def _saved(parameter):
    file = io.BytesIO()
    torch.save(parameter, file)
    file.seek(0)
    return torch.load(file)


@pytest.fixture
def _resource_sharer():
    """Stop the thread in which multiprocessing hands out what was pickled for other processes."""
    yield
    resource_sharer.stop()


@pytest.mark.usefixtures("_resource_sharer")
@pytest.mark.parametrize(
    "take",
    [
        copy.deepcopy,
        lambda p: pickle.loads(pickle.dumps(p)),
        lambda p: pickle.loads(ForkingPickler.dumps(p)),
        _saved,
    ],
    ids=["deepcopy", "pickle", "for a process", "torch.save"],
)
def test_a_copy_is_a_parameter_as_any_other(take):
    blob, parameter = made(GPU)
    parameter.tag = "tied"
    parameter.sum().backward()
    copied = take(parameter)
    assert type(copied) is nn.Parameter
    assert copied.requires_grad
    assert vars(copied) == ({} if take is copy.deepcopy else {"tag": "tied"})
    assert copied.grad is None
    assert copied.tolist() == values().tolist()
    (copied**2).sum().backward()
    torch.optim.SGD([copied], lr=0.1).step()
    assert blob.tolist() == values().tolist()
    assert blob.diff.tolist() == [[1] * 3] * 2
    assert parameter.blob is blob


def test_a_pickle_holds_no_gradient():
    _, parameter = made(shape=(100, 100))
    assert len(pickle.dumps(parameter)) < 1.1 * 4 * 100 * 100


# --- separation from the Blob --------------------------------------------------------------------


def _double(parameter):
    nn.ParameterList([parameter]).double()


def _share(parameter):
    nn.ParameterList([parameter]).share_memory()


def _set(parameter):
    with torch.no_grad():
        parameter.set_(torch.ones(2, 3))


@pytest.mark.parametrize(
    "replace",
    texts(
        """
        blob.set_cpu_data(values()); blob.diff.set_cpu_data(values());
        blob.share_data(Blob((2, 3))); blob.share_diff(Blob((2, 3))); blob.resize(4, 3)
        """
    ),
)
def test_a_parameter_leaves_a_blob_that_is_given_other_memory(replace):
    blob, parameter = made()
    with pytest.warns(StaleAliasWarning, match=" stale: .*, created at "):
        eval(replace, globals() | {"blob": blob})  # noqa: S307  # of the list
    assert parameter.blob is None


@pytest.mark.parametrize("part", [_double, _share, _set])
def test_a_parameter_that_has_left_its_blob_says_so_and_is_as_any_other(part):
    blob, parameter = made()
    part(parameter)
    with pytest.raises(StaleAliasWarning, match="Blob"):
        parameter.sum().backward()
    with pytest.warns(StaleAliasWarning, match="new parameter") as caught:
        parameter.sum().backward()
    assert caught[0].filename == __file__
    parameter.grad = None
    assert parameter.grad is None
    (2 * parameter).sum().backward()
    assert parameter.grad.tolist() == [[2] * 3] * 2
    assert blob.tolist() == values().tolist()
    assert blob.as_parameter().grad.tolist() == blob.diff.tolist()


def test_a_parameter_of_a_parameter_is_made_of_its_blob():
    """torch makes a parameter of a tensor, but not of a subclass of its own parameters."""
    blob, parameter = made()
    with pytest.raises(RuntimeError, match="BlobParameter"):
        nn.Parameter(parameter)
    again = nn.Parameter(blob.to_torch())
    again.sum().backward()
    assert again.data_ptr() == parameter.data_ptr()
    assert blob.diff.tolist() == [[0] * 3] * 2


def test_a_parameter_changes_places_with_another():
    blob, parameter = made()
    other = nn.Parameter(torch.ones(2, 3))
    torch.utils.swap_tensors(parameter, other)
    assert type(parameter) is nn.Parameter
    other.sum().backward()
    assert Blob.asarray(other.detach()).tolist() == blob.tolist() == values().tolist()
    assert blob.diff.tolist() == [[1] * 3] * 2


def _set_to(view):
    return torch.no_grad()(lambda parameter: parameter.set_(view(parameter.detach())))


@pytest.mark.parametrize(
    "change",
    [
        _set_to(torch.t),
        _set_to(lambda x: x[:1]),
        lambda parameter: setattr(parameter, "data", parameter.data[:1]),
        lambda parameter: setattr(parameter, "data", parameter.data.view(torch.bfloat16)),
    ],
)
def test_backward_reports_a_parameter_with_another_layout_of_the_same_memory(change):
    parameter = Blob((2, 2), "float16").as_parameter()
    change(parameter)
    with pytest.warns(StaleAliasWarning, match="Blob"):
        parameter.grad = None
    parameter.sum().backward()
    assert parameter.grad.shape == parameter.shape


@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")
def test_a_parameter_that_has_changed_places_is_converted_again():
    module = nn.Linear(3, 2)
    parameters_to_blobs(module)
    torch.utils.swap_tensors(module.weight, nn.Parameter(torch.ones(2, 3)))
    blob = parameters_to_blobs(module)["weight"]
    (module.weight**2).sum().backward(create_graph=True)
    assert is_over(module.weight, blob)
    assert blob.diff.tolist() == [[2] * 3] * 2
    module.weight.grad = None


def test_a_parameter_whose_gradient_got_other_memory_leaves_its_blob():
    _, parameter = made()
    parameter.grad.share_memory_()
    with pytest.warns(StaleAliasWarning, match="Blob"):
        parameter.sum().backward()
    assert parameter.blob is None
    assert parameter.grad.tolist() == [[1.0] * 3] * 2


def test_the_garbage_collector_finds_a_blob_that_refers_to_its_parameter():
    class Owner(Blob):
        pass

    owner = Owner((2, 3))
    owner.parameter = owner.as_parameter()
    owner.parameter.sum().backward()
    memory = owner.memory
    assert memory.aliased
    del owner
    gc.collect()
    assert not memory.aliased


def test_a_parameter_can_be_made_within_a_transformation():
    blob = Blob.asarray(np.full((2, 3), 2, np.float32))

    def scaled(x):
        return (x * blob.as_parameter()).sum()

    assert torch.func.grad(scaled)(torch.ones(2, 3)).tolist() == [[2.0] * 3] * 2
    assert torch.func.vmap(scaled)(torch.ones(4, 2, 3)).tolist() == [12.0] * 4
