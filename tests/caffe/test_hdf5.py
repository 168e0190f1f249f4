"""Caffe's HDF5 files: reading, errors, and writing, compared with h5py."""

import subprocess
import sys
import tracemalloc

import h5py
import numpy as np
import pytest

from syncblob._blob import Blob
from syncblob.caffe import Layer, ModelFile, open_model, open_solver_state, read_blob, save_model
from syncblob.caffe.messages import open_file
from syncblob.caffe.messages.fields import MOST_OBJECTS
from syncblob.errors import ModelFileError
from syncblob.memory import Head

WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)
BIAS = np.array([7, 8], np.float32)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "net.caffemodel.h5"


@pytest.fixture
def h5(path):
    """An open file to write to. `opened` closes it."""
    file = h5py.File(path, "w")
    file.create_group("data")
    yield file
    file.close()


def opened(h5, reader=open_model):
    path = h5.filename
    h5.close()
    return reader(path)


def refused(h5, words, reader=open_model):
    path = h5.filename
    h5.close()
    with pytest.raises(ModelFileError, match=words) as caught:
        reader(path)
    assert caught.value.path == path
    return caught.value


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("<f4", "float32"),
        (">f4", "float32"),
        ("<f8", "float64"),
        ("<f2", "float16"),
        ("u1", "float32"),
        (">i2", "float32"),
        ("<i4", "float64"),
        ("<i8", "float64"),
    ],
)
def test_dtypes(h5, stored, expected):
    h5["data/a/0"] = WEIGHTS.astype(stored)
    (blob,) = opened(h5)["a"].blobs
    assert blob.dtype == expected
    assert blob.cpu_data().tolist() == WEIGHTS.tolist()


def test_values_within_the_description(h5):
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.COMPACT)
    space, group = h5py.h5s.create(h5py.h5s.SCALAR), h5.create_group("data/a")
    dataset = h5py.h5d.create(group.id, b"0", h5py.h5t.IEEE_F32LE, space, properties)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array(5, np.float32))
    (blob,) = opened(h5)["a"].blobs
    assert (blob.shape, blob.tolist()) == ((), 5)


# --- solver states --------------------------------------------------------------------------------


def test_a_solver_state_with_little_in_it(h5):
    del h5["data"]
    h5.create_group("history")
    state = opened(h5, open_solver_state)
    assert (state.iter, state.current_step, state.learned_net, state.history) == (0, 0, "", [])


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("iter", np.array([1, 2]), "expected one integer in 'iter'"),
        ("iter", np.array([1.5]), "expected one integer in 'iter'"),
        ("learned_net", np.array([1]), "expected a string of fixed length"),
        ("learned_net", "of any length", "expected a string of fixed length"),
        ("learned_net", np.bytes_(b"x" * 70_000), "expected a string of fixed length, at most"),
        ("learned_net/group", np.array([1]), "expected a string of fixed length"),
        ("history/inner/0", BIAS, "got groups within it"),
        ("history", BIAS, "expected a group, got a dataset"),
    ],
)
def test_a_solver_state_of_another_make(h5, name, value, words):
    del h5["data"]
    if not name.startswith("history"):
        h5.create_group("history")
    h5[name] = value
    refused(h5, words, open_solver_state)


def test_models_and_solver_states_are_told_apart(h5, tmp_path):
    refused(h5, "a group 'history' with the state of a solver; use open_model", open_solver_state)
    other = h5py.File(tmp_path / "state.h5", "w")
    other.create_group("history")
    refused(other, "a group 'data' with the layers of a model; use open_solver_state")
    with h5py.File(tmp_path / "third.h5", "w") as third:
        third.create_group("weights")
    for reader in (open_model, open_solver_state):
        with pytest.raises(ModelFileError, match=r"HDF5 in another layout.*convert\.open_weights"):
            reader(tmp_path / "third.h5")
    with pytest.raises(ModelFileError, match=r"this is an HDF5 file .* open Caffe's"):
        read_blob(tmp_path / "third.h5")


# --- errors ---------------------------------------------------------------------------------------


def contain_each_other(h5):
    """Make 30 groups with a billion paths through them."""
    group = h5["data"]
    for _ in range(30):
        inner = group.create_group("a")
        group["b"] = inner
        group = inner


def virtual_dataset(h5):
    layout = h5py.VirtualLayout((2,), "f4")
    layout[:] = h5py.VirtualSource("other.h5", "0", (2,))
    h5.create_virtual_dataset("data/a/0", layout)


def short_chunk(h5):
    """HDF5 would fill it with arbitrary bytes of its memory."""
    dataset = h5.create_dataset("data/a/0", (30, 10), "f4", chunks=(10, 10))
    dataset.id.write_direct_chunk((10, 0), np.ones(99, np.float32).tobytes())


def bad_compression(h5):
    """Claim more values than the filter can make of the stored bytes."""
    h5.create_dataset("data/a/0", (10**6, 10**3), "f4", chunks=(1, 1000), compression="gzip")
    h5["data/a/0"][0] = 1


def datasets(**arrays):
    """Return a function that makes them; two underscores in a name are a slash."""

    def make(h5):
        for name, array in arrays.items():
            h5[name.replace("__", "/")] = array

    return make


def data_for_a_layer(h5):
    del h5["data"]
    h5["data"] = np.zeros((8, 1, 4, 4), "f4")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (datasets(data__b=h5py.SoftLink("/data/a")), "'b' is a link to another file or dataset"),
        (
            datasets(data__a__1=h5py.ExternalLink("other.h5", "/0")),
            "layer 'a/1': '1' is a link to another file or dataset, which is not followed",
        ),
        (
            lambda h5: h5.create_dataset("data/a/0", (2,), "f4", external="elsewhere"),
            "the values of dataset '/data/a/0' are in another file",
        ),
        (virtual_dataset, "the values of dataset '/data/a/0' are in another file"),
        (lambda h5: h5["data"].__setitem__("b", h5["data"]), "contains itself"),
        (contain_each_other, f"expected at most {MOST_OBJECTS} groups and datasets, got more"),
        (lambda h5: h5.create_group("data/" + "a/" * 40), "nested more than 32 deep"),
        (short_chunk, "chunks of dataset '/data/a/0' are not as long as it says: the file is dam"),
        (bad_compression, "dataset '/data/a/0' claims 4000000000 bytes, but only"),
        (
            lambda h5: h5.create_dataset("data/a/0", (10**5, 10**5), "f4"),
            "dataset '/data/a/0' claims 40000000000 bytes, but only",
        ),
        (
            datasets(data__a__0=WEIGHTS, diff__a__0=BIAS),
            r"expected a diff of shape \(2, 3\), as the data, got \(2,\)",
        ),
        (data_for_a_layer, r"expected a group, got a dataset; .*convert\.open_weights opens it"),
        (
            datasets(data__images=WEIGHTS, data__labels=BIAS),
            r"datasets '0' to '1', got \['images', 'labels'\].* or this is HDF5 in another layout",
        ),
        *(
            (
                datasets(**{f"data__a__{name}": BIAS for name in names}),
                r"expected datasets '0' to .* got .*: perhaps one is shared with another layer",
            )
            for names in ("1", "02", "0x")
        ),
        *(
            (datasets(data__a__0=value), "expected floats of 2 to 8 bytes or integers")
            for value in (np.bytes_(b"text"), [1j], [True], np.array([1], np.longdouble))
        ),
        (datasets(data__a__0=h5py.Empty("f4")), "expected a dataset with a shape, got an empty"),
    ],
)
def test_contents_that_are_no_model_or_hostile(h5, make, words):
    make(h5)
    refused(h5, words)


def test_numbers_that_numpy_does_not_have(h5):
    """HDF5 converts them. Their bytes do not have the dtype that h5py reports."""
    bfloat16 = h5py.h5t.IEEE_F16LE.copy()
    bfloat16.set_fields(15, 7, 8, 0, 7)
    bfloat16.set_ebias(127)
    values = np.arange(1, 7).reshape(2, 3)
    space = h5py.h5s.create_simple(values.shape)
    dataset = h5py.h5d.create(h5.create_group("data/a").id, b"0", bfloat16, space)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    (blob,) = opened(h5)["a"].blobs
    np.testing.assert_array_equal(blob[1:].cpu_data(), values[1:])
    np.testing.assert_array_equal(blob.cpu_data(), values)


def test_a_file_that_is_cut_off(h5, path):
    h5["data/a/0"] = np.ones(1000)
    h5.close()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelFileError, match="the HDF5 library finds the file damaged"):
        open_model(path)


def test_a_file_that_is_replaced_before_its_values_are_read(h5, path):
    h5.create_dataset("data/a/0", data=WEIGHTS, chunks=(1, 1))
    h5["data/a/1"] = BIAS
    chunked, contiguous = opened(h5)["a"].blobs
    path.rename(path.with_suffix(".old"))
    with h5py.File(path, "w") as other:
        other["data/a/0"] = np.ones(1000)
    np.testing.assert_array_equal(chunked.cpu_data(), WEIGHTS)
    np.testing.assert_array_equal(contiguous.cpu_data(), BIAS)


def test_closing_while_h5py_reads(h5, path, monkeypatch):
    h5.create_dataset("data/a/0", data=WEIGHTS, chunks=(1, 1))
    h5.close()
    model = open_model(path)
    read_into = open_file.Stream.readinto

    def close_then_read(contents, buffer):
        model.close()
        return read_into(contents, buffer)

    monkeypatch.setattr(open_file.Stream, "readinto", close_then_read)
    with pytest.raises(ValueError, match="was closed before this part of it was read") as caught:
        model["a"].blobs[0].cpu_data()
    assert not isinstance(caught.value, ModelFileError)


def test_what_h5py_remembers_of_a_file(h5, path):
    """Another process may rewrite a file that this process has open in h5py."""
    h5["data/a/0"] = BIAS
    h5.close()
    with h5py.File(path, "r") as mine:
        assert list(mine["data"]) == ["a"]
        rewrite = (
            "import h5py, sys\n"
            "h5py.File(sys.argv[1], 'w', locking=False)['data/longer/0'] = [1.0, 2.0]"
        )
        subprocess.run([sys.executable, "-c", rewrite, path], check=True)
        assert open_model(path)["longer"].blobs[0].tolist() == [1, 2]


def test_without_h5py(h5, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    for use in (lambda: opened(h5), lambda: save_model(ModelFile(), "unwritten.h5")):
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'syncblob\[hdf5\]'"):
            use()


# --- writing -------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    """Save a model, and return its groups as dictionaries of arrays."""

    def saved(model, **options):
        path = tmp_path / "saved.caffemodel.h5"
        save_model(model, path, **options)
        with h5py.File(path) as file:
            return {
                root: {
                    name: {number: blob[()] for number, blob in layer.items()}
                    for name, layer in group.items()
                }
                for root, group in file.items()
            }

    return saved


def test_as_caffe_lays_it_out(tmp_path):
    save_model(ModelFile("", [Layer("a", blobs=[[1.0]])]), tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5") as file:
        dataset = file["data/a/0"]
        assert (dataset.chunks, dataset.compression, len(dataset.attrs)) == (None, None, 0)
        # It does not note when it was written, so the same model gives the same bytes.
        assert h5py.h5o.get_info(dataset.id).ctime == 0


@pytest.mark.parametrize("write_diff", [None, True, False])
def test_gradients_are_written(write, v2_net, saved, write_diff):
    model = open_model(write(v2_net))
    groups = saved(model, write_diff=write_diff)
    counts = {name: len(layer) for name, layer in groups["data"].items()}
    assert counts == {"data": 0, "conv1": 2, "ip": 1}
    assert {blob.head for layer in model.layers for blob in layer.blobs} == {Head.UNINITIALIZED}
    if write_diff is False:
        assert list(groups) == ["data"]
        return
    assert groups["diff"]["ip"]["0"].tolist() == [3, 4]
    assert list(groups["diff"]) == list(groups["data"])
    assert list(groups["diff"]["conv1"]) == (["0", "1"] if write_diff else [])


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        *(
            ([Layer(name)], "'data/.*rename it")
            for name in ("", ".", "a/", "/a", "a//b", "a/./b", "a\0b")
        ),
        ([Layer("a", blobs=[[0.0]]), Layer("a/0/b")], "'data/a/0'"),
        ([Layer("a"), Layer("b"), Layer("a")], "'data/a' twice"),
    ],
)
def test_names_that_hdf5_cannot_hold(old_file, layers, words):
    with pytest.raises(ValueError, match=f"cannot hold {words}"):
        save_model(ModelFile("", layers), old_file.with_suffix(".H5"))


def test_names_with_slashes_are_read_back(tmp_path):
    names = ["conv1/7x7_s2", "conv1", "conv1/7x7_s2/bn", "b", "empty/a"]
    layers = [
        Layer(name, blobs=[np.full(2, number, "f4")] * (name != "empty/a"))
        for number, name in enumerate(names)
    ]
    save_model(ModelFile("", layers), tmp_path / "x.caffemodel.h5")
    found = open_model(tmp_path / "x.caffemodel.h5")
    assert {name: [blob.tolist() for blob in layer.blobs] for name, layer in found.items()} == {
        name: [[number] * 2] * (name != "empty/a") for number, name in enumerate(names)
    }


@pytest.mark.parametrize(
    ("blob", "error", "message"),
    [
        (Blob(2, "int32"), TypeError, "holds floats, got a Blob of dtype int32"),
        (Blob((1,) * 33), ValueError, "at most 32 axes"),
        (Blob(2**31), ValueError, "at most 2147483647 elements, got shape"),
    ],
)
def test_blobs_that_caffe_cannot_hold(old_file, blob, error, message):
    with pytest.raises(error, match=f"layer 'a', blob 1: .*{message}"):
        save_model(ModelFile("", [Layer("a", blobs=[[1.0], blob])]), old_file.with_suffix(".H5"))
    assert blob.head is Head.UNINITIALIZED


# --- files that are read and written back -----------------------------------------------------


@pytest.mark.parametrize("touched", [False, True])
@pytest.mark.parametrize(
    "stored",
    [
        ({"chunks": (1, 2)}, {"chunks": (2, 1)}),
        ({"chunks": (1, 2), "compression": "gzip"}, {}),
        ({}, {"chunks": (1, 2)}),
        ({"dtype": "i2"}, {"dtype": "i2"}),
    ],
)
def test_gradients_of_any_storage_are_kept(h5, path, saved, stored, touched):
    h5.create_dataset("data/a/0", data=WEIGHTS, **stored[0])
    h5.create_dataset("diff/a/0", data=WEIGHTS + 1, **stored[1])
    model = opened(h5)
    (blob,) = model["a"].blobs
    if touched:
        assert blob.mutable_cpu_data()[1].tolist() == WEIGHTS[1].tolist()
        assert blob.mutable_cpu_diff()[1].tolist() == (WEIGHTS + 1)[1].tolist()
    again = path.with_name("again.caffemodel.h5")
    save_model(model, again)
    assert again.read_bytes() == path.read_bytes()
    if touched:
        blob[0, 0] = 9
    else:
        model["b"] = Layer("b", blobs=[BIAS])
    groups = saved(model)
    assert groups["data"]["a"]["0"].tolist() == blob.tolist()
    assert groups["diff"]["a"]["0"].tolist() == (WEIGHTS + 1).tolist()


def test_saving_an_edited_chunked_blob_takes_no_second_copy(h5, path, tmp_path):
    values = np.arange(1 << 22, dtype=np.float32).reshape(4096, 1024)
    h5.create_dataset("data/a/0", data=values, chunks=(64, 1024))
    h5.close()
    model = open_model(path)
    model["a"].blobs[0][4000] += 1  # the rest stays in the file
    save_model(model, tmp_path / "imports.caffemodel")
    tracemalloc.start()
    save_model(model, tmp_path / "edited.caffemodel")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < values.nbytes * 3 / 4
    values[4000] += 1
    assert np.array_equal(open_model(tmp_path / "edited.caffemodel")["a"].blobs[0], values)
