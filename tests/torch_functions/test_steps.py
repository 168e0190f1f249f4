"""Steps of optimizers and of Caffe over Blobs apply to both the parameter and the Blob."""

from __future__ import annotations

import numpy as np
import pytest
from made_blobs import blob_in, values

import syncblob
from syncblob import Head

torch = pytest.importorskip("torch")
nn = torch.nn

NONE, CPU, GPU, SYNCED, SPLIT = PAIR = [*Head][:5]  # with one accelerator


def made(head=CPU, dtype="float32", shape=(2, 3)):
    """Make a Blob that counts up, its parameter, and an equal parameter of torch's own."""
    blob = blob_in(head, dtype, shape)
    ordinary = nn.Parameter(torch.from_numpy(values(dtype, shape)))
    return blob, blob.as_parameter(), ordinary


def is_over(parameter, blob):
    """Return whether a parameter's storage and gradient are the Blob's, on its device."""
    on_host = blob.device == "cpu"
    data, diff = blob.data, blob.diff
    arrays = (x.cpu_data() if on_host else x.gpu_data() for x in (data, diff))
    addresses = [array.__array_interface__["data"][0] for array in arrays]
    return addresses == [parameter.data_ptr(), parameter.grad.data_ptr()]


# --- steps ---------------------------------------------------------------------------------------

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "SGD, fused": {"lr": 0.1, "fused": True},
    "SGD, foreach": {"lr": 0.1, "foreach": True},
    "Adam": {},
    "Adam, fused": {"fused": True},
    "AdamW": {"amsgrad": True},
    "RMSprop": {},
    "Adagrad": {},
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


def test_an_optimizer_that_evaluates_several_times():
    blob, parameter, _ = made()
    optimizer = torch.optim.LBFGS([parameter])

    def evaluate():
        optimizer.zero_grad()
        loss = ((parameter - 1) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(evaluate)
    np.testing.assert_allclose(blob, np.ones((2, 3)), atol=1e-5)


@pytest.mark.parametrize("head", [CPU, GPU])
def test_update_is_a_step_that_the_parameter_sees(head):
    blob, parameter, _ = made(head)
    (3 * parameter).sum().backward()
    with syncblob.no_transfers():
        blob.update()
    assert parameter.tolist() == blob.tolist() == (values() - 3).tolist()


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


def test_gradients_are_clipped_and_unscaled_in_diff():
    blob, parameter, _ = made()
    (parameter**2).sum().backward()
    nn.utils.clip_grad_value_([parameter], 8.0)
    assert blob.diff.tolist() == [[0, 2, 4], [6, 8, 8]]
    nn.utils.clip_grad_norm_([parameter], 1.0)
    assert np.linalg.norm(blob.diff) == pytest.approx(1, rel=1e-4)
    blob.diff[...] = 0
    scaler = torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD([parameter], lr=1)
    scaler.scale(parameter.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert blob.diff.tolist() == [[1] * 3] * 2
    assert blob.tolist() == (values() - 1).tolist()
