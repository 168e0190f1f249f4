"""A net that runs: the layers of a model in order, with tops by name."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from itertools import dropwhile
from typing import Any

import torch
from torch import Tensor

from caffe_nets.layers import LAYERS, Node
from syncblob import Blob, ModelFile

__all__ = ["Net", "leave_out_mismatches"]


class Net:
    """A Caffe net on the Blobs of a model.

    Parameters
    ----------
    model
        The layers of one phase, with their weights.
    training
        Whether to make a parameter of each Blob, so that a backward pass adds to its `diff`, and to
        run Dropout and BatchNorm as in the phase ``TRAIN``. Layers that share a Blob share its
        parameter.
    """

    def __init__(self, model: ModelFile, *, training: bool = False) -> None:
        used: dict[int, Any] = {}
        for blob in (blob for layer in model.layers for blob in layer.blobs):
            if id(blob) not in used:
                used[id(blob)] = blob.as_parameter() if training else blob
        self.model = model
        self.nodes = [
            Node(
                layer.name,
                layer.type,
                layer.bottoms,
                layer.tops,
                layer.proto,
                [used[id(blob)] for blob in layer.blobs],
                training,
            )
            for layer in model.layers
        ]

    @property
    def inputs(self) -> list[str]:
        """The names of the blobs that layers read and none computes."""
        inputs, computed = {}, set()
        for node in self._computing():
            inputs.update((name, None) for name in node.bottoms if name not in computed)
            computed.update(node.tops)
        return list(inputs)

    def _computing(self) -> Iterable[Node]:
        """Return all layers but those that read data: the caller brings it."""
        return [node for node in self.nodes if node.bottoms or node.type == "Parameter"]

    def computable(self, *inputs: str) -> Net:
        """Return the same net with only the layers that can be computed from some inputs."""
        known, nodes = set(inputs), []
        for node in self._computing():
            if known.issuperset(node.bottoms):
                nodes.append(node)
                known.update(node.tops)
        net = copy.copy(self)
        net.nodes = nodes
        return net

    def forward(
        self, start: str | None = None, end: str | None = None, **inputs: Blob | Tensor
    ) -> dict[str, Tensor]:
        """Run the layers and return all tops by name, and the inputs.

        Parameters
        ----------
        start, end
            The first and the last layer to run, by name; None for all.
        **inputs
            Blobs, which are copied, or tensors, of the dtype of the weights. The gradient reaches
            tensors that require one, such as `blob.as_parameter()`.

        Raises
        ------
        ValueError
            If an input is missing, or a layer has a type that is not in `LAYERS`.
        """
        values: dict[str, Tensor] = {
            name: torch.clone(x) if isinstance(x, Blob) else x for name, x in inputs.items()
        }
        for node in dropwhile(lambda node: start not in {None, node.name}, self._computing()):
            if node.type not in LAYERS:
                raise ValueError(f"layer {node.name!r}: no function for the type {node.type!r}")
            if missing := [name for name in node.bottoms if name not in values]:
                raise ValueError(
                    f"layer {node.name!r} needs {', '.join(missing)}: pass it as an input, stop "
                    "before that layer, or take only the layers that are computable without it"
                )
            tops = LAYERS[node.type](node, *(values[name] for name in node.bottoms))
            tops = tops if isinstance(tops, tuple) else (tops,)
            values.update(zip(node.tops, tops, strict=True))
            if node.name == end:
                break
        return values

    def loss(self, values: Mapping[str, Tensor]) -> Tensor:
        """Return the sum of the tops of losses, times their `loss_weight`.

        As in Caffe, by default the weight is 1 for the first top of a loss layer, and else 0.
        """
        total = torch.zeros(())
        for node in self.nodes:
            weights = node.proto.loss_weight or ([1] if node.type.endswith("Loss") else [])
            for top, weight in zip(node.tops, weights, strict=False):
                if weight and top in values:
                    total = total.to(values[top].device) + weight * values[top].sum()
        return total


def leave_out_mismatches(model: ModelFile, source: ModelFile) -> list[str]:
    """Remove layers from a model of trained weights whose shapes another net does not have.

    Otherwise, `copy_trained_layers_from` raises for them, as Caffe does.

    Parameters
    ----------
    model
        The net that will get the weights. Its blobs are allocated, by `fill`.
    source
        The trained weights. Only the object changes, not its file.

    Returns
    -------
    names : list of str
        The names of the layers that were removed.
    """

    def shapes(layer: Any) -> list[tuple[int, ...]]:
        # In older files every blob has four axes, the first of them of length 1.
        return [tuple(dropwhile(lambda size: size == 1, blob.shape)) for blob in layer.blobs]

    names = [
        name for name in source if name in model and shapes(model[name]) != shapes(source[name])
    ]
    for name in names:
        del source[name]
    return names
