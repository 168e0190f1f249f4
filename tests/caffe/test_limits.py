"""What is written can be opened, or is refused before anything is written, at every limit."""

import numpy as np
import pytest
from comparable_models import need_library_of

import syncblob
from syncblob import Layer, ModelFile, SolverState
from syncblob.caffe.convert import convert, open_weights, pytorch, safetensors
from syncblob.caffe.files import caffe_hdf5
from syncblob.caffe.messages import read_blobproto, wire

ONE = np.ones(1, np.float32)


def of_layers(count):
    return ModelFile("", [Layer(f"layer{number}", blobs=[ONE]) for number in range(count)])


def save_layers(count, path):
    syncblob.save_model(of_layers(count), path)


def save_settings(count, path):
    layer = Layer("a", "Concat", [f"bottom{number}" for number in range(count)], ["top"])
    syncblob.save_model(ModelFile("", [layer]), path)


def save_changed(count, path):
    """Save a model whose other layers are copied from their file."""
    save_layers(count - 2, path.with_name("old.caffemodel"))
    model = syncblob.open_model(path.with_name("old.caffemodel"))
    model.add(Layer("new", blobs=[ONE]))
    syncblob.save_model(model, path)


def save_deep(count, path):
    model = ModelFile("", [Layer("a/" * (count - 1) + "a", blobs=[ONE])])
    syncblob.save_model(model, path)


def save_state(count, path):
    syncblob.save_solver_state(SolverState(1, "net", 0, [ONE] * count), path)


def save_text(count, path):
    syncblob.save_solver_state(SolverState(1, "n" * count), path)


def convert_tensors(count, path):
    source = path.with_name("source.npz")
    np.savez(source, **{f"{number}.weight": ONE for number in range(count)})
    convert(source, path)


def convert_deep(count, path):
    source = path.with_name("source.npz")
    np.savez(source, **{"a/" * (count - 1) + "b": ONE})
    convert(source, path)


LIMITS = {
    "layers and blobs": (save_layers, "x.caffemodel", 25),
    "layers and blobs, changed": (save_changed, "x.caffemodel", 25),
    "fields": (save_settings, "x.caffemodel", 200),
    "groups and datasets": (save_layers, "x.caffemodel.h5", 25),
    "levels of a model": (save_deep, "x.caffemodel.h5", 31),
    "a tree of datasets": (convert_tensors, "x.h5", 50),
    "levels of a tree": (convert_deep, "x.h5", 32),
    "history": (save_state, "x.solverstate", 50),
    "history in HDF5": (save_state, "x.solverstate.h5", 48),
    "text in HDF5": (save_text, "x.solverstate.h5", 100),
    "entries": (convert_tensors, "x.pt", 40),
    "header": (convert_tensors, "x.safetensors", 40),
}


@pytest.mark.parametrize("name", LIMITS)
def test_what_is_written_can_be_opened(tmp_path, monkeypatch, name):
    save, target, about = LIMITS[name]
    need_library_of(target.partition(".")[2].removeprefix("solverstate."))
    for module in (read_blobproto, caffe_hdf5):
        monkeypatch.setattr(module, "MOST_OBJECTS", 50)
    monkeypatch.setattr(wire, "MOST_FIELDS", 205)
    monkeypatch.setattr(caffe_hdf5, "_MOST_TEXT", 100)
    monkeypatch.setattr(pytorch, "_MOST_ENTRIES", 40)
    monkeypatch.setattr(safetensors, "_MOST_HEADER", 5500)
    path, refused = tmp_path / target, []
    for count in range(about - 9, about + 9):
        path.write_bytes(b"before")
        try:
            save(count, path)
        except ValueError as error:
            refused.append((count, str(error), path.read_bytes()))
            continue
        if "solverstate" in target:
            syncblob.open_solver_state(path)
        elif "caffemodel" in target:
            syncblob.open_model(path)
        if "solverstate" not in target:
            open_weights(path).close()
    assert 0 < len(refused) < 18
    assert [count for count, _, _ in refused] == [*range(refused[0][0], about + 9)]
    for _, error, contents in refused:
        assert contents == b"before"
        assert any(map(str.isdigit, error)), error


@pytest.mark.long
def test_sixteen_thousand_layers_are_within_the_limits(tmp_path):
    for name in ("x.caffemodel", "x.caffemodel.h5"):
        save_layers(16_000, tmp_path / name)
        assert len(syncblob.open_model(tmp_path / name)) == 16_000
