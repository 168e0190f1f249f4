"""Saving models: unchanged bytes are copied, older formats are kept, other contents are refused."""

import numpy as np
import pytest

from syncblob._blob import Blob
from syncblob.caffe import (
    Layer,
    ModelFile,
    SolverState,
    open_model,
    read_blob,
    save_model,
    save_solver_state,
    write_blob,
)
from syncblob.caffe._pb.caffe_pb2 import BlobProto, BlobShape, LayerParameter, NetParameter
from syncblob.caffe.messages import pieces
from syncblob.caffe.messages import values as values_in_files
from syncblob.caffe.messages.wire import length_field as field
from syncblob.caffe.messages.wire import varint
from syncblob.memory import Head

FLOATS = np.array([1, 2], "<f4").tobytes()
UNPACKED = b"\x3a\x02\x08\x02" + b"\x2d" + FLOATS[:4] + b"\x2d" + FLOATS[4:]
UNKNOWN = b"\xca\x3e\x03abc"  # field 1001


def long_length(number, payload):
    """Encode a field whose length takes one byte more than necessary."""
    length = len(payload)
    return varint(number << 3 | 2) + bytes([length & 0x7F | 0x80, length >> 7 | 0x80, 0]) + payload


# --- byte for byte --------------------------------------------------------------------------------

ODD_LAYER = field(7, UNPACKED) + field(1, b"a") + UNKNOWN + field(7, b"\x2a\x04" + FLOATS[:4])
ODD_NETS = {
    "an empty name": b"\x0a\x00",
    "unpacked values, unknown fields, odd order": field(100, ODD_LAYER) + field(1, b"net"),
    "long lengths": long_length(100, long_length(7, UNPACKED) + field(1, b"a")),
    "fields between layers": field(100, b"\x0a\x01a") + UNKNOWN + field(100, b"") + UNKNOWN,
    "V1": field(2, field(6, UNPACKED) + field(4, b"a") + b"\x28\x04" + UNKNOWN) + field(1, b"n"),
    "raw values": field(100, field(7, b"\x3a\x02\x08\x02\x50\x02" + field(12, FLOATS[:4]))),
    "names that are not UTF-8": field(1, b"\xff") + field(100, field(1, b"\xfe")),
    "a name given twice": field(1, b"x") + field(1, b"y") + field(100, field(1, b"b") * 2),
}


@pytest.mark.parametrize("touched", [False, True])
@pytest.mark.parametrize("content", ODD_NETS.values(), ids=list(ODD_NETS))
def test_an_unchanged_model_gives_the_same_bytes(write, tmp_path, content, touched):
    model = open_model(write(content))
    if touched:
        for blob in (blob for layer in model.layers for blob in layer.blobs):
            blob.mutable_cpu_data()
    save_model(model, tmp_path / "again.caffemodel")
    assert (tmp_path / "again.caffemodel").read_bytes() == content


@pytest.mark.parametrize("touched", [False, True])
def test_real_files_give_the_same_bytes(real_files, tmp_path, touched):
    for path in sorted(real_files.glob("*.caffemodel*")):
        model = open_model(path)
        if touched:
            for blob in (blob for layer in model.layers for blob in layer.blobs):
                blob.cpu_data()
        again = tmp_path / path.name
        save_model(model, again)
        assert again.read_bytes() == path.read_bytes()
    for path in sorted(real_files.glob("mean*.binaryproto")):
        blob = read_blob(path)
        if touched:
            blob.cpu_data()
        write_blob(blob, tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_saving_reads_no_blob_that_was_not_touched(write, v2_net, saved):
    model = open_model(write(v2_net))
    assert saved(model) == v2_net
    assert {blob.head for layer in model.layers for blob in layer.blobs} == {Head.UNINITIALIZED}


def test_saving_fills_no_blob_that_has_a_source_of_its_own(saved):
    expected = np.arange(6, dtype=np.float32).reshape(2, 3)
    blob = Blob.from_source((2, 3), "float32", lambda: expected.reshape(-1).view(np.uint8))
    turned = Blob.from_source((2, 3), "float32", lambda: expected.reshape(-1).view(np.uint8)).T
    (layer,) = saved(ModelFile("n", [Layer("a", blobs=[blob, turned])])).layer
    assert blob.head is Head.UNINITIALIZED
    assert [list(one.data) for one in layer.blobs] == [[0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5]]


@pytest.mark.parametrize("touched", [False, True])
@pytest.mark.parametrize("content", [UNPACKED, UNPACKED + UNKNOWN, b"\x08\x02\x10\x01" + UNPACKED])
def test_an_unchanged_blob_gives_the_same_bytes(write, tmp_path, content, touched):
    if content.startswith(b"\x08"):
        content += b"\x18\x01\x20\x01"
    blob = read_blob(write(content, "mean.binaryproto"))
    if touched:
        blob.mutable_cpu_data()
    write_blob(blob, tmp_path / "again.binaryproto")
    assert (tmp_path / "again.binaryproto").read_bytes() == content


# --- changes --------------------------------------------------------------------------------------


def test_signed_zeros_and_nans_are_compared_by_their_bits(write, saved):
    blob = BlobProto(shape=BlobShape(dim=[2]), data=[0, np.nan])
    model = open_model(write(NetParameter(layer=[LayerParameter(name="a", blobs=[blob])])))
    array = model["a"].blobs[0].mutable_cpu_data()
    array[0] = -0.0
    assert np.signbit(saved(model).layer[0].blobs[0].data[0])


def test_legacy_dims_stay_legacy(write, tmp_path):
    proto = BlobProto(num=1, channels=1, height=1, width=2, data=[1, 2], diff=[3, 4])
    blob = read_blob(write(proto))
    blob.mutable_cpu_data()[...] = 7
    write_blob(blob, tmp_path / "again")
    proto.data[:] = [7, 7]
    assert (tmp_path / "again").read_bytes() == proto.SerializeToString()
    blob.resize(2)
    write_blob(blob, tmp_path / "again")
    again = BlobProto.FromString((tmp_path / "again").read_bytes())
    assert list(again.shape.dim) == [2]
    assert not again.HasField("num")


# --- gradients ------------------------------------------------------------------------------------


GRADIENTS = {None: ([], [], [3, 4]), True: ([0] * 6, [0, 0], [3, 4]), False: ([], [], [])}


@pytest.mark.parametrize("write_diff", list(GRADIENTS))
@pytest.mark.parametrize("touched", [False, True])
def test_gradients(write, v2_net, saved, write_diff, touched):
    model = open_model(write(v2_net))
    if touched:
        model["ip"].blobs[0].mutable_cpu_data()
    layers = saved(model, write_diff=write_diff).layer
    written = (*layers[1].blobs, *layers[2].blobs)
    assert tuple([*blob.diff, *blob.double_diff] for blob in written) == GRADIENTS[write_diff]
    assert list(layers[2].blobs[0].double_data) == [1, 2]


def test_zeros_are_written_without_a_gradient_being_made(tmp_path):
    blob = Blob((3,))
    blob.mutable_cpu_data()[...] = 1
    write_blob(blob, tmp_path / "x", write_diff=True)
    assert list(BlobProto.FromString((tmp_path / "x").read_bytes()).diff) == [0, 0, 0]
    assert blob.existing_diff() is None


# --- older formats -------------------------------------------------------------------------------


@pytest.mark.parametrize("edit", ["blob", "remove", "rename", "settings", "tops", "upgrade"])
def test_an_edited_net_of_the_previous_format_is_upgraded(write, v1_net, saved, edit):
    v1_net.input.append("data")
    v1_net.input_dim.extend([1, 3, 8, 8])
    v1_net.layers[0].convolution_param.pad.append(2)
    model = open_model(write(v1_net))
    if edit == "blob":
        model["conv1"].blobs[0].mutable_cpu_data().flat[:3] = 7
    elif edit == "remove":
        del model["loss"]
    elif edit == "rename":
        model.rename("loss", "other")
    elif edit == "settings":
        model["conv1"].proto.convolution_param.num_output = 3
    elif edit == "tops":
        model["conv1"].tops = ["new"]
    net = saved(model, upgrade=edit == "upgrade")
    assert (net.name, list(net.input), list(net.input_dim)) == ("old", ["data"], [1, 3, 8, 8])
    assert not net.layers
    conv1 = net.layer[0]
    assert (conv1.name, conv1.type, conv1.bottom) == ("conv1", "Convolution", ["data"])
    assert conv1.convolution_param.pad == [2]
    assert conv1.convolution_param.num_output == 3 * (edit == "settings")
    assert conv1.top == ["new"] * (edit == "tops")
    expected = [7, 7, 7, 3, 4, 5] if edit == "blob" else [0, 1, 2, 3, 4, 5]
    assert list(conv1.blobs[0].data) == expected
    assert conv1.blobs[0].num == 1
    names = {"remove": [], "rename": ["other"]}.get(edit, ["loss"])
    assert [layer.name for layer in net.layer[1:]] == [*names, "untyped"]


# --- NVCaffe ------------------------------------------------------------------------------------


def test_changed_raw_values_are_written_as_caffe_can_read_them(write, saved):
    values = np.array([1, 2, 0.5], "<f2").tobytes()
    blob = BlobProto(shape=BlobShape(dim=[3]), raw_data_type=2, raw_data=values)
    model = open_model(write(NetParameter(layer=[LayerParameter(name="a", blobs=[blob])])))
    model["a"].blobs[0].mutable_cpu_data()[0] = 7
    (blob,) = saved(model).layer[0].blobs
    assert blob == BlobProto(shape=BlobShape(dim=[3]), data=[7, 2, 0.5])


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blob", "error", "words"),
    [
        *(
            (Blob(2, dtype), TypeError, f"a BlobProto holds floats.*{dtype}")
            for dtype in ("int32", "bool", "complex64")
        ),
        (Blob((1,) * 33), ValueError, "Caffe's blobs have at most 32 axes"),
    ],
)
def test_what_caffe_does_not_have(old_file, blob, error, words):
    with pytest.raises(error, match=f"layer 'a': blob 1: {words}"):
        save_model(ModelFile("", [Layer("a", blobs=[Blob(2), blob])]), old_file)
    with pytest.raises(error, match=words):
        write_blob(blob, old_file.with_suffix(""))


def test_blobs_and_models_of_2_gib(old_file):
    half = [Blob(2**28 - 100) for _ in range(2)]
    model = ModelFile("", [Layer("a", blobs=half)])
    model["b"] = Layer("b", blobs=[Blob(1000)])
    with pytest.raises(ValueError, match=r"a \.caffemodel holds at most 2147483647 bytes.*h5"):
        save_model(model, old_file)
    with pytest.raises(ValueError, match="layer 'a': blob 0: a BlobProto holds at most"):
        save_model(ModelFile("", [Layer("a", blobs=[Blob(2**29)])]), old_file)
    state = SolverState(history=[*half, Blob(1000)])
    with pytest.raises(ValueError, match=r"a \.solverstate holds at most 2147483647 bytes.*h5"):
        save_solver_state(state, old_file.with_suffix(""))
    assert half[0].head is Head.UNINITIALIZED


def test_the_announced_size_of_a_model_is_its_size(monkeypatch, tmp_path, write, v2_net):
    path = write(v2_net)
    model = open_model(path)
    model.name = "met"
    size = path.stat().st_size
    monkeypatch.setattr(pieces, "MAX_MESSAGE", size)
    save_model(model, tmp_path / "again")
    monkeypatch.setattr(pieces, "MAX_MESSAGE", size - 1)
    with pytest.raises(ValueError, match=f"this model needs {size}"):
        save_model(model, tmp_path / "again")


def test_a_model_that_was_closed(write, v2_net, old_file):
    path = write(v2_net)
    model = open_model(path)
    model.close()
    with pytest.raises(ValueError, match="was closed before this part of it was read"):
        save_model(model, old_file)
    path.unlink()


SAVERS = {
    ".caffemodel": lambda path: save_model(ModelFile(), path),
    ".binaryproto": lambda path: write_blob(Blob(3), path),
    ".solverstate": lambda path: save_solver_state(SolverState(), path),
}


@pytest.mark.parametrize(
    ("expected", "names", "advice"),
    [
        (".caffemodel", "x.prototxt", "to_net"),
        (".caffemodel", "x.BinaryProto", "write_blob"),
        (".caffemodel", "x.npz x.safetensors x.pt x.PTH", "'syncblob convert'"),
        (".caffemodel", "x.onnx x.json x.npy x.py x.txt", "does not write this"),
        (".binaryproto", "x.caffemodel x.CaffeModel.h5", "save_model writes a model"),
        (".binaryproto", "x.solverstate x.solverstate.h5", "save_solver_state writes the state"),
        (".solverstate", "x.npz", ""),
    ],
)
def test_extensions_of_other_formats(tmp_path, expected, names, advice):
    """They would be opened as files of another format."""
    for name in names.split():
        with pytest.raises(ValueError, match=rf"expected the extension \{expected}.*{advice}"):
            SAVERS[expected](tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_pieces_larger_than_a_chunk(monkeypatch, tmp_path, write):
    monkeypatch.setattr(values_in_files.Values, "longest_chunk", 64)
    values = np.random.default_rng(3).standard_normal((7, 30)).astype(np.float32)
    proto = BlobProto(shape=BlobShape(dim=[7, 30]), data=values.ravel())
    path = write(NetParameter(layer=[LayerParameter(name="a", blobs=[proto])]))
    model = open_model(path)
    save_model(model, tmp_path / "copied")
    assert (tmp_path / "copied").read_bytes() == path.read_bytes()
    model["half"] = Layer("half", blobs=[model["a"].blobs[0].astype("float16"), Blob((99,))])
    model["turned"] = Layer("turned", blobs=[model["a"].blobs[0].T])
    model["a"].blobs[0].mutable_cpu_data()[-1, -1] = 5
    save_model(model, tmp_path / "changed", write_diff=True)
    net = NetParameter.FromString((tmp_path / "changed").read_bytes())
    values[-1, -1] = 5
    assert list(net.layer[0].blobs[0].data) == values.ravel().tolist()
    half = net.layer[1].blobs[0].data
    assert half[:209] == values.astype(np.float16).astype(np.float32).ravel().tolist()[:209]
    assert list(net.layer[1].blobs[1].diff) == [0] * 99
    assert list(net.layer[2].blobs[0].data) == values.T.ravel().tolist()
