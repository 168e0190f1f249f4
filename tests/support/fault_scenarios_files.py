"""The scenarios of the fault campaign with files: opening, editing, saving, converting."""

from importlib.util import find_spec

import numpy as np
from fault_scenarios import made
from fault_states import Scenario

import syncblob
from syncblob import Layer, ModelFile, open_model, read_blob, save_model, write_blob
from syncblob.caffe.convert import convert, open_weights, writable_extensions


def _net():
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    return ModelFile(
        "net",
        [
            Layer("ip", "InnerProduct", ["data"], ["ip"], [values, values[0]]),
            Layer("scale", "Scale", ["ip"], ["out"], [values[1]]),
        ],
    )


def opened(name, *, edited=False):
    """Save a net, open it, and edit it on the device."""

    def make(folder):
        save_model(_net(), folder / name)
        with syncblob.use_device("simulated"):
            model = open_model(folder / name)
        if edited:
            model["ip"].blobs[0].mutable_gpu_data()[...] = 5
            model.add(Layer("new", blobs=[np.ones(3, np.float32)]))
        return {"folder": folder, "model": model}

    return make


def reads(side, name):
    def act(state):
        with syncblob.use_device("simulated"), open_model(state["folder"] / name) as model:
            return [getattr(blob, side)().copy() for blob in model["ip"].blobs]

    return act


def reads_in_parts(state):
    """Read some rows of a lazy Blob, and then all of it."""
    blob = state["model"]["ip"].blobs[0]
    rows = [blob[1].cpu_data().copy(), blob[2:].gpu_data().copy(), np.array(blob[:, 1:3])]
    return [*rows, blob.cpu_data().copy(), blob.gpu_data().copy()]


def saves(name):
    return lambda state: save_model(state["model"], state["folder"] / name)


def converts(name, target):
    def act(state):
        convert(state["folder"] / name, state["folder"] / target)
        with open_weights(state["folder"] / target) as weights:
            return [weights.tensors[name].tolist() for name in sorted(weights.tensors)]

    return act


def _with_old_file(folder, name):
    (folder / name).write_bytes(b"old")
    return {"folder": folder, "a": made("device")}


OF_FILES = {}
for _name in ("net.caffemodel", "net.caffemodel.h5"):
    for _side in ("cpu_data", "gpu_data", "mutable_cpu_data"):
        OF_FILES[f"{_side} of a lazy Blob, {_name}"] = Scenario(opened(_name), reads(_side, _name))
    OF_FILES[f"parts of a lazy Blob, {_name}"] = Scenario(opened(_name), reads_in_parts)
    OF_FILES[f"save unchanged, {_name}"] = Scenario(opened(_name), saves(_name))
    OF_FILES[f"save edited, {_name}"] = Scenario(opened(_name, edited=True), saves(_name))
    OF_FILES[f"save under a new name, {_name}"] = Scenario(
        opened(_name, edited=True), saves(f"new.{_name}")
    )
OF_FILES["save in the other format"] = Scenario(
    opened("net.caffemodel", edited=True), saves("net.caffemodel.h5")
)
OF_FILES["write_blob and read_blob"] = Scenario(
    lambda folder: _with_old_file(folder, "a.binaryproto"),
    lambda state: (
        write_blob(state["a"], state["folder"] / "a.binaryproto"),
        read_blob(state["folder"] / "a.binaryproto").tolist(),
    )[1],
)
_NEED_TORCH = (".pt", ".pth")
for _extension in writable_extensions():
    if _extension in _NEED_TORCH and find_spec("torch") is None:
        continue
    OF_FILES[f"convert to {_extension}"] = Scenario(
        opened("net.caffemodel"), converts("net.caffemodel", f"out{_extension}")
    )
