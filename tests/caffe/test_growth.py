"""The work of edits and commands grows with the number of layers, and not with its square."""

import sys

import numpy as np
import pytest

from syncblob import Layer, ModelFile, open_model, save_model
from syncblob.caffe.commands import main
from syncblob.caffe.convert import convert
from syncblob.caffe.messages.open_file import Descriptor

ONE = np.ones(1, np.float32)


def of_layers(count, name="layer{}"):
    layers = [Layer(name.format(n), "Scale", ["x"], ["x"], [ONE]) for n in range(count)]
    return ModelFile("net", layers)


def saved(folder, count, name="layer{}"):
    path = folder / "x.caffemodel"
    save_model(of_layers(count, name), path)
    return path


def add(_folder, count):
    model = of_layers(2)
    yield
    for number in range(count):
        model.add(Layer(f"new{number}"), before="layer1" if number % 2 else None)


def change(_folder, count, name="layer{}"):
    model = of_layers(count, name)
    yield
    for number in range(0, count, 3):
        model.rename(name.format(number), f"new{number}")
        model[name.format(number + 1)] = model[f"new{number}"]
        del model[name.format(number + 2)]


def save(folder, count):
    model = open_model(saved(folder, count))
    model.add(Layer("new"))
    yield
    save_model(model, folder / "y.caffemodel")
    open_model(folder / "y.caffemodel")


def command(*arguments, name="layer{}"):
    def run(folder, count):
        paths = {"X": saved(folder, count, name)}
        main(["inspect", str(paths["X"])])  # imports
        yield
        assert main([str(paths.get(each, each)) for each in arguments]) == 0

    return run


def conversion(extension, name="layer{}"):
    def run(folder, count):
        path = saved(folder, count, name)
        yield
        convert(path, folder / f"y.{extension}")
        convert(folder / f"y.{extension}", folder / "z.npz")

    return run


WORK = {
    "add": add,
    "change": change,
    "change layers of one name": lambda folder, count: change(folder, count, "a"),
    "save": save,
    "inspect": command("inspect", "X", "--stats"),
    "diff": command("diff", "X", "X"),
    "diff layers of one name": command("diff", "X", "X", name="a"),
    "convert layers of one name": conversion("npz", "a"),
    "convert to safetensors": conversion("safetensors"),
    "convert to caffemodel.h5": conversion("caffemodel.h5"),
}


def calls(work, folder, count):
    """Return the number of functions that are called, also of those in C."""
    steps, found = work(folder, count), 0
    next(steps)

    def note(_frame, event, _argument):
        nonlocal found
        found += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        next(steps, None)
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("name", WORK)
def test_four_times_the_layers_are_four_times_the_work(tmp_path, name):
    calls(WORK[name], tmp_path, 30)  # imports, and whatever is cached
    few, many = (calls(WORK[name], tmp_path, count) for count in (60, 240))
    assert many < 4.4 * few


def test_a_large_layer_is_looked_for_few_times(tmp_path, monkeypatch):
    path = tmp_path / "x.caffemodel"
    large = np.ones(1 << 14, np.float32)
    save_model(ModelFile("net", [Layer(f"a{n}", "Scale", blobs=[large]) for n in range(50)]), path)
    reads, read = [], Descriptor.read

    def note(*args):
        reads.append(args)
        read(*args)

    monkeypatch.setattr(Descriptor, "read", note)
    open_model(path)
    assert len(reads) < 50 * 5
