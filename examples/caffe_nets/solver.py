"""Caffe's solver of type SGD: its learning rates, its momentum, and its state."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from caffe_nets.net import Net
from syncblob import Blob, SolverState

__all__ = ["Solver", "learning_rate"]


def learning_rate(settings: Any, iteration: int, steps: int = 0) -> float:
    """Return the learning rate of an iteration, as ``SGDSolver::GetLearningRate`` does.

    Parameters
    ----------
    settings
        The solver's definition, from `read_solver_prototxt`.
    iteration
        The number of iterations before.
    steps
        For the policy ``multistep``: how many values of `stepvalue` have been reached.

    Raises
    ------
    ValueError
        If Caffe has no such policy.
    """
    gamma, power = settings.gamma, settings.power
    match settings.lr_policy:
        case "fixed":
            factor = 1.0
        case "step":
            factor = gamma ** (iteration // settings.stepsize)
        case "exp":
            factor = gamma**iteration
        case "inv":
            factor = (1 + gamma * iteration) ** -power
        case "multistep":
            factor = gamma**steps
        case "poly":
            factor = (1 - iteration / settings.max_iter) ** power
        case "sigmoid":
            factor = 1 / (1 + math.exp(-gamma * (iteration - settings.stepsize)))
        case policy:
            raise ValueError(
                "expected an lr_policy of fixed, step, exp, inv, multistep, poly and sigmoid, got "
                f"{policy!r}"
            )
    return settings.base_lr * factor


class Solver:
    """Caffe's stochastic gradient descent, ``v = momentum * v + rate * diff; data -= v``.

    Parameters
    ----------
    settings
        The solver's definition, from `read_solver_prototxt`.
    net
        A net with ``training=True``.

    Attributes
    ----------
    state : SolverState
        The number of iterations, and the velocities: what a ``.solverstate`` holds. Assign the
        contents of such a file to continue.

    Raises
    ------
    ValueError
        If the definition asks for another type of solver.
    """

    def __init__(self, settings: Any, net: Net) -> None:
        if settings.type != "SGD":
            raise ValueError(f"expected a solver of type SGD, got {settings.type!r}")
        self.settings = settings
        self.net = net
        self._multipliers = _multipliers(net)
        self.state = SolverState(history=[Blob(b.shape, b.dtype) for b in self._blobs()])

    def _blobs(self) -> list[Blob]:
        """Return the Blobs in the order of Caffe's history, those that are shared once."""
        blobs = {id(blob): blob for layer in self.net.model.layers for blob in layer.blobs}
        return list(blobs.values())

    def step(self, batch: Callable[[], Mapping[str, Any]]) -> float:
        """Make one iteration and return its loss.

        Parameters
        ----------
        batch
            Returns the inputs of the net by name. Called `iter_size` times.
        """
        for blob in self._blobs():
            blob.diff[...] = 0
        total = 0.0
        for _ in range(self.settings.iter_size):
            loss = self.net.loss(self.net.forward(**batch()))
            loss.backward()
            total += loss.item()
        self.update()
        return total / self.settings.iter_size

    def update(self) -> None:
        """Change the weights by the gradients in `diff`, as ``SGDSolver::ApplyUpdate`` does."""
        settings, state = self.settings, self.state
        if settings.lr_policy == "step":
            state.current_step = state.iter // settings.stepsize
        elif settings.lr_policy == "multistep":
            reached = settings.stepvalue[state.current_step : state.current_step + 1]
            state.current_step += any(state.iter >= value for value in reached)
        rate = learning_rate(settings, state.iter, state.current_step)
        blobs = self._blobs()
        norm = math.sqrt(sum(blob.sumsq_diff() for blob in blobs))
        # Caffe clips the sum of `iter_size` gradients, not their mean.
        clipped = settings.clip_gradients / norm if norm > settings.clip_gradients >= 0 else 1
        for blob, velocity in zip(blobs, state.history, strict=True):
            lr_mult, decay_mult = self._multipliers[id(blob)]
            blob.scale_diff(clipped / settings.iter_size)
            if decay := settings.weight_decay * decay_mult:
                l1 = settings.regularization_type == "L1"
                blob.diff[...] += decay * (np.sign(blob) if l1 else blob)
            velocity[...] = settings.momentum * velocity + rate * lr_mult * blob.diff
            blob.diff[...] = velocity
            blob.update()
        state.iter += 1


def _multipliers(net: Net) -> dict[int, tuple[float, float]]:
    """Return `lr_mult` and `decay_mult` of each Blob.

    They are 1 without a `param`. The blobs of BatchNorm are not learned. Of layers that share a
    Blob, one sets them: Caffe refuses nets in which two set different values.
    """
    found: dict[int, tuple[float, float]] = {}
    for layer in net.model.layers:
        for number, blob in enumerate(layer.blobs):
            rate, decay = found.get(id(blob), (1.0, 1.0))
            for spec in layer.proto.param[number : number + 1]:
                rate = spec.lr_mult if spec.HasField("lr_mult") else rate
                decay = spec.decay_mult if spec.HasField("decay_mult") else decay
            found[id(blob)] = (0.0, 0.0) if layer.type == "BatchNorm" else (rate, decay)
    return found
