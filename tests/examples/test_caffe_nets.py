"""Whole nets of examples/caffe_nets, its solver, and examples/run_net.py."""

import importlib
import math

import numpy as np
import pytest

import syncblob
from syncblob import Blob, Layer, ModelFile

torch = pytest.importorskip("torch")

from caffe_nets import Net, Solver, learning_rate, leave_out_mismatches  # noqa: E402  # needs PyTorch

FIT = """
layer { name: "data" type: "Input" top: "data" top: "target"
  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  param { lr_mult: 2 decay_mult: 3 } param { decay_mult: 0 }
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "target" top: "loss" }
"""


@pytest.fixture
def model(tmp_path):
    """Return a function that makes a model from a definition, with values in its blobs."""

    def made(definition, phase="TRAIN", **shapes):
        path = tmp_path / "net.prototxt"
        path.write_text(definition)
        model = ModelFile.from_net(syncblob.read_prototxt(path), phase=phase)
        model.fill(shapes, rng=0)
        return model

    return made


@pytest.fixture
def settings(tmp_path):
    """Return a function that reads the definition of a solver."""

    def read(text):
        path = tmp_path / "solver.prototxt"
        path.write_text(f'net: "net.prototxt" {text}')
        return syncblob.read_solver_prototxt(path)

    return read


# --- nets -----------------------------------------------------------------------------------------

TWO_LOSSES = """
layer { name: "data" type: "Data" top: "data" top: "label" }
layer { name: "a" type: "Power" bottom: "data" top: "a" power_param { scale: 2 } }
layer { name: "in place" type: "ReLU" bottom: "a" top: "a" }
layer { name: "near" type: "EuclideanLoss" bottom: "a" bottom: "label" top: "near" }
layer { name: "far" type: "EuclideanLoss" bottom: "data" bottom: "label" top: "far" loss_weight: 3 }
layer { name: "sum" type: "Reduction" bottom: "a" top: "sum" loss_weight: 0.5 }
layer { name: "unweighted" type: "Reduction" bottom: "a" top: "unweighted" }
"""
DATA = np.array([[1, -2], [3, 4]], "float32")
LABEL = np.array([[0, 1], [1, 1]], "float32")


def test_a_net_computes_its_tops_and_its_loss(model):
    net = Net(model(TWO_LOSSES, data=(2, 2), label=(2, 2)))
    assert net.inputs == ["data", "label"]
    data = Blob.asarray(DATA.copy())
    values = net.forward(data=data, label=Blob.asarray(LABEL))
    doubled = np.maximum(2 * DATA, 0)
    assert values["a"].tolist() == doubled.tolist()
    near, far = (((x - LABEL) ** 2).sum() / 4 for x in (doubled, DATA))
    assert net.loss(values).item() == pytest.approx(near + 3 * far + 0.5 * doubled.sum())
    # A net does not hold its inputs: they can be refilled.
    data[...] = 0
    assert values["data"].tolist() == DATA.tolist()


def test_a_part_of_a_net(model):
    net = Net(model(TWO_LOSSES, data=(2, 2), label=(2, 2)))
    assert set(net.forward(end="a", data=torch.tensor(DATA))) == {"data", "a"}
    values = net.forward(start="sum", a=torch.tensor(DATA))
    assert values["sum"].item() == 6
    part = net.computable("data")
    assert [node.name for node in part.nodes] == ["a", "in place", "sum", "unweighted"]
    assert part.inputs == ["data"]
    with pytest.raises(ValueError, match="'near' needs label"):
        net.forward(data=torch.tensor(DATA))


def test_a_type_without_a_function_is_named():
    unknown = ModelFile("net", [Layer("one", "Interp", ["data"], ["one"])])
    with pytest.raises(ValueError, match=r"'one'.*'Interp'"):
        Net(unknown).forward(data=torch.tensor(DATA))


def test_the_gradient_of_an_input(model):
    net = Net(model(FIT, "TEST"))
    data, target = Blob.asarray(DATA_OF_FIT), Blob.asarray(TARGET)
    values = net.forward(data=data.as_parameter(), target=target)
    values["loss"].backward()
    weight, bias = map(np.asarray, net.model["ip"].blobs)
    expected = (DATA_OF_FIT @ weight.T + bias - TARGET) @ weight / 4
    np.testing.assert_allclose(data.diff, expected, rtol=1e-5)


def test_layers_of_other_shapes_are_left_out(model):
    net = model(FIT)
    rng = np.random.default_rng(1)

    def blobs(*shapes):
        return [Blob.asarray(rng.random(shape, "float32")) for shape in shapes]

    other = Layer("ip", "InnerProduct", blobs=blobs((5, 3), (5,)))
    source = ModelFile("other", [other, Layer("elsewhere", "InnerProduct", blobs=blobs((2, 3)))])
    with pytest.raises(ValueError, match="ip"):
        net.copy_trained_layers_from(source)
    assert leave_out_mismatches(net, source) == ["ip"]
    report = net.copy_trained_layers_from(source)
    assert (report.missing, report.ignored) == (("ip",), ("elsewhere",))
    # In older files every blob has four axes.
    older = ModelFile(
        "older", [Layer("ip", "InnerProduct", blobs=blobs((1, 1, 2, 3), (1, 1, 1, 2)))]
    )
    assert leave_out_mismatches(net, older) == []


# --- the solver -----------------------------------------------------------------------------------

DATA_OF_FIT = np.random.default_rng(2).normal(0, 1, (4, 3)).astype("float32")
TARGET = np.random.default_rng(3).normal(0, 1, (4, 2)).astype("float32")


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        ('lr_policy: "fixed"', [0.5] * 6),
        ('lr_policy: "step" gamma: 0.1 stepsize: 2', [0.5, 0.5, 0.05, 0.05, 0.005, 0.005]),
        ('lr_policy: "exp" gamma: 0.5', [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625]),
        (
            'lr_policy: "inv" gamma: 0.5 power: 2',
            [0.5 / (1 + 0.5 * iteration) ** 2 for iteration in range(6)],
        ),
        (
            'lr_policy: "multistep" gamma: 0.1 stepvalue: 1 stepvalue: 4',
            [0.5, 0.05, 0.05, 0.05, 0.005, 0.005],
        ),
        (
            'lr_policy: "poly" power: 2 max_iter: 10',
            [0.5 * (1 - iteration / 10) ** 2 for iteration in range(6)],
        ),
        (
            'lr_policy: "sigmoid" gamma: -0.5 stepsize: 3',
            [0.5 / (1 + math.exp(0.5 * (iteration - 3))) for iteration in range(6)],
        ),
    ],
)
def test_learning_rates(model, settings, text, rates):
    """Without momentum, a step of gradient 1 is the rate."""
    solver = Solver(settings(f"base_lr: 0.5 {text}"), Net(model(FIT), training=True))
    _, bias = solver.net.model["ip"].blobs
    for rate in rates:
        before = np.array(bias)
        bias.diff[...] = 1
        solver.update()
        np.testing.assert_allclose(before - np.asarray(bias), rate, rtol=1e-4)


def test_what_caffe_does_not_have_is_refused(model, settings):
    with pytest.raises(ValueError, match="'sometimes'"):
        learning_rate(settings('base_lr: 1 lr_policy: "sometimes"'), 0)
    with pytest.raises(ValueError, match="'Adam'"):
        Solver(settings('type: "Adam"'), Net(model(FIT), training=True))


@pytest.mark.parametrize("regularization", ["L1", "L2"])
@pytest.mark.parametrize("clip", [-1, 0.1, 1000])
@pytest.mark.parametrize("iter_size", [1, 3])
def test_steps_are_those_of_the_formulas(model, settings, regularization, clip, iter_size):
    """Written down from ``SGDSolver::ApplyUpdate`` and ``euclidean_loss_layer.cpp``."""
    text = f'regularization_type: "{regularization}" clip_gradients: {clip} iter_size: {iter_size}'
    text += ' base_lr: 0.05 lr_policy: "exp" gamma: 0.9 momentum: 0.8 weight_decay: 0.01'
    solver = Solver(settings(text), Net(model(FIT), training=True))
    blobs = solver.net.model["ip"].blobs
    weight, bias = (np.array(blob, "float64") for blob in blobs)
    velocities = [0, 0]
    for iteration in range(4):
        difference = DATA_OF_FIT @ weight.T + bias - TARGET
        loss = solver.step(
            lambda: {"data": Blob.asarray(DATA_OF_FIT), "target": Blob.asarray(TARGET)}
        )
        assert loss == pytest.approx((difference**2).sum() / 4 / 2, rel=1e-4)
        # Gradients are added iter_size times, clipped, and then divided.
        gradients = [iter_size * difference.T @ DATA_OF_FIT / 4, iter_size * difference.sum(0) / 4]
        norm = math.sqrt(sum((gradient**2).sum() for gradient in gradients))
        if norm > clip > 0:
            gradients = [gradient * clip / norm for gradient in gradients]
        decayed = np.sign(weight) if regularization == "L1" else weight
        gradients = [gradients[0] / iter_size + 0.01 * 3 * decayed, gradients[1] / iter_size]
        for number, (gradient, multiplier) in enumerate(zip(gradients, (2, 1), strict=True)):
            rate = 0.05 * 0.9**iteration * multiplier
            velocities[number] = 0.8 * velocities[number] + rate * gradient
        weight, bias = weight - velocities[0], bias - velocities[1]
        for blob, expected in zip(blobs, (weight, bias), strict=True):
            np.testing.assert_allclose(blob, expected, rtol=1e-3, atol=1e-5)
    assert solver.state.iter == 4
    for velocity, expected in zip(solver.state.history, velocities, strict=True):
        np.testing.assert_allclose(velocity, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_a_solver_goes_on_from_its_state(model, settings, tmp_path, device):
    syncblob.set_default_device(device)
    text = 'base_lr: 0.1 lr_policy: "multistep" stepvalue: 2 stepvalue: 3 gamma: 0.1 momentum: 0.9'

    def batch():
        return {"data": Blob.asarray(DATA_OF_FIT), "target": Blob.asarray(TARGET)}

    through = Solver(settings(text), Net(model(FIT), training=True))
    for _ in range(3):
        through.step(batch)
    syncblob.save_model(through.net.model, tmp_path / "three.caffemodel", write_diff=False)
    syncblob.save_solver_state(through.state, tmp_path / "three.solverstate")
    resumed = Solver(settings(text), Net(model(FIT), training=True))
    resumed.net.model.copy_trained_layers_from(tmp_path / "three.caffemodel")
    resumed.state = syncblob.open_solver_state(tmp_path / "three.solverstate")
    assert resumed.state.current_step == 1
    for solver in (through, resumed):
        for _ in range(2):
            solver.step(batch)
    for one, other in zip(*(s.net.model["ip"].blobs for s in (through, resumed)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_shared_and_fixed_blobs(model, settings):
    """A shared blob is updated once, by the rate of the layer that sets it; BatchNorm's are not."""
    net = model(
        """
layer { name: "a" type: "InnerProduct" bottom: "data" top: "a" param { name: "w" lr_mult: 2 }
  inner_product_param { num_output: 3 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "norm" type: "BatchNorm" bottom: "a" top: "n"
  batch_norm_param { use_global_stats: true } }
layer { name: "b" type: "InnerProduct" bottom: "n" top: "b" param { name: "w" }
  inner_product_param { num_output: 3 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "sum" type: "Reduction" bottom: "b" top: "sum" loss_weight: 1 }
""",
        data=(1, 3),
    )
    net["norm"].blobs[1][...] = 1
    net["norm"].blobs[2][...] = 1
    weight = net["a"].blobs[0]
    before = np.array(weight)
    solver = Solver(settings('base_lr: 0.1 lr_policy: "fixed"'), Net(net, training=True))
    assert [blob.shape for blob in solver.state.history] == [(3, 3), (3,), (3,), (1,)]
    ones = torch.ones(1, 3)
    solver.step(lambda: {"data": ones})
    # The sum of W W x, with x of ones: both uses of W add to the gradient.
    first, again = before @ np.ones(3), np.ones(3) @ before
    gradient = np.outer(np.ones(3), first) + np.outer(again, np.ones(3))
    np.testing.assert_allclose(before - np.asarray(weight), 0.2 * gradient, rtol=1e-3, atol=1e-5)
    assert net["norm"].blobs[1].tolist() == [1, 1, 1]


# --- the program ----------------------------------------------------------------------------------

DEPLOY = """
name: "Mean" input: "data" input_dim: 10 input_dim: 3 input_dim: 4 input_dim: 6
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"
  pooling_param { pool: AVE global_pooling: true } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip"
  inner_product_param { num_output: 3 } }
"""


@pytest.fixture
def program():
    """Import the program."""
    pytest.importorskip("PIL.Image")
    return importlib.import_module("run_net")


@pytest.fixture
def files(tmp_path, model):
    """Files of a net that returns the mean of each channel, less that of a file."""
    from PIL import Image

    net = model(DEPLOY, "TEST")
    net["ip"].blobs[0][...] = np.eye(3)
    syncblob.save_model(net, tmp_path / "net.caffemodel")
    mean = np.broadcast_to(np.float32([[[[1]], [[2]], [[3]]]]).reshape(1, 3, 1, 1), (1, 3, 4, 6))
    message = Blob.asarray(mean.copy()).to_proto()
    (tmp_path / "mean.binaryproto").write_bytes(message.SerializeToString())
    Image.new("RGB", (30, 20), (100, 50, 10)).save(tmp_path / "image.png")
    return [str(tmp_path / name) for name in ("net.prototxt", "net.caffemodel", "image.png")]


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_it_prints_the_highest_results(program, files, tmp_path, capsys, device):
    mean = str(tmp_path / "mean.binaryproto")
    program.main([*files, "--mean", mean, "--top", "2", "--device", device])
    # Red is the last channel: 100 less 3; green is the middle: 50 less 2.
    assert capsys.readouterr().out.splitlines() == ["ip[2] 97.0000", "ip[1] 48.0000"]
