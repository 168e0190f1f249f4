"""The scenarios of the fault campaign with PyTorch and Dask."""

import dask.array as da
import torch
from fault_scenarios import SHAPE, made, one, two
from fault_states import Scenario

from syncblob.integrations.torch_data import collate


def trained(state):
    """Take a step: a loss, its gradient, an update."""
    parameter = state["a"].as_parameter()
    parameter.grad = None
    (parameter * 2).sum().backward()
    return parameter.grad.clone()


_PAIRS = (("host", "device"), ("device", "host"), ("both", "both"), ("split", "split"))
_BINARY = {
    "torch.add": lambda a, _: torch.add(a, torch.ones(SHAPE)),
    "torch.add of two": torch.add,
    "torch.add with out": lambda a, b: torch.add(a, 1, out=b.to_torch()),
    "torch.aminmax with out": lambda a, b: torch.aminmax(
        torch.ones((*SHAPE, 2)), dim=2, out=(a, b)
    ),
    "linear": torch.nn.functional.linear,
    "torch.cat": lambda a, b: torch.cat([a, b]),
    "torch.from_dlpack": lambda a, _: torch.from_dlpack(a).clone(),
    "torch.as_tensor of a side": lambda a, _: torch.as_tensor(a.cpu).clone(),
    "to_torch": lambda a, _: a.to_torch().clone(),
    "collate": lambda a, b: collate([a, b]),
    "dask, a chunk": lambda a, _: da.from_array(a, chunks=(1, 3)).sum().compute(scheduler="sync"),
}

OF_TORCH_AND_DASK = {
    f"{name}, {first} and {second}": Scenario(
        two(first, second),
        lambda state, act=act: act(state["a"], state["b"]),
        # Dask first tries functions on empty chunks, to infer the type of the results.
        tolerant=name.startswith("dask, a chunk"),
    )
    for name, act in _BINARY.items()
    for first, second in _PAIRS
}
for _where in ("host", "device"):
    OF_TORCH_AND_DASK[f"a step of training, {_where}"] = Scenario(one(_where), trained)
OF_TORCH_AND_DASK["torch.mul_"] = Scenario(
    lambda _: {"a": made("device")}, lambda state: state["a"].to_torch().mul_(2).clone()
)
