"""Writing models and blobs: what is copied, what is new, and what is refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from syncblob.blob import Blob
from syncblob.caffe import (
    Layer,
    ModelFile,
    open_model,
    read_blob,
    save_model,
    write_blob,
)
from syncblob.caffe._disk import MappedFile
from syncblob.caffe._pb.caffe_pb2 import (
    BlobProto,
    BlobShape,
    LayerParameter,
    NetParameter,
)
from syncblob.caffe._wire import length_header, varint
from syncblob.memory import Head

FLOATS = np.array([1, 2], "<f4").tobytes()
UNPACKED = b"\x3a\x02\x08\x02" + b"\x2d" + FLOATS[:4] + b"\x2d" + FLOATS[4:]
UNKNOWN = b"\xca\x3e\x03abc"  # field 1001


def field(number, payload):
    return length_header(number, len(payload)) + payload


def long_length(number, payload):
    """Encode a field whose length takes one byte more than it need take."""
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
    for path in sorted(real_files.glob("*.caffemodel")):
        model = open_model(path)
        if touched:
            for blob in (blob for layer in model.layers for blob in layer.blobs):
                blob.cpu_data()
        save_model(model, tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == path.read_bytes()
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


def test_values_that_are_in_memory_are_not_read_again(write, tmp_path, monkeypatch):
    blob = BlobProto(shape=BlobShape(dim=[1000]), data=range(1000))
    path = write(NetParameter(layer=[LayerParameter(name="a", blobs=[blob])]))
    model = open_model(path)
    model["a"].blobs[0].cpu_data()
    read = []
    read_into = MappedFile.read_into

    def spy(file, target, offset):
        read.append(len(target))
        read_into(file, target, offset)

    monkeypatch.setattr(MappedFile, "read_into", spy)
    save_model(model, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert sum(read) < 100


@pytest.mark.skipif(sys.platform == "win32", reason="Windows replaces no file that is mapped")
def test_saving_over_the_file_that_is_mapped(write, v2_net):
    path = write(v2_net)
    model = open_model(path)
    model["conv1"].blobs[0].mutable_cpu_data()[...] += 1
    del model["data"]
    save_model(model, path)
    model["ip"].blobs[0].mutable_cpu_data()[...] += 1
    save_model(model, path)
    again = open_model(path)
    assert list(again) == ["conv1", "ip"]
    assert again["conv1"].blobs[0].cpu_data().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert again["conv1"].blobs[1].cpu_data().tolist() == [0, 1]
    assert again["ip"].blobs[0].cpu_data().tolist() == [2, 3]


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


def test_a_blob_whose_file_has_changed_is_written_anew(write, tmp_path):
    path = write(UNPACKED, "mean.binaryproto")
    blob = read_blob(path)
    blob.cpu_data()
    path.write_bytes(UNPACKED[:-4] + FLOATS[:4] + UNKNOWN)
    write_blob(blob, tmp_path / "again")
    assert BlobProto.FromString((tmp_path / "again").read_bytes()) == BlobProto(
        shape=BlobShape(dim=[2]), data=[1, 2]
    )


# --- what has changed -----------------------------------------------------------------------------


def test_only_the_changed_blob_is_new(write, saved):
    model = open_model(write(field(100, ODD_LAYER) + field(1, b"net")))
    with_changed_blob = model["a"].blobs[1]
    with_changed_blob.mutable_cpu_data()[...] = 9
    save = saved(model)
    assert save.layer[0].SerializeToString() == (
        field(1, b"a")
        + field(7, BlobProto(data=[1, 2], shape=BlobShape(dim=[2])).SerializeToString())
        + field(7, b"\x2a\x04" + np.float32(9).tobytes())
        + UNKNOWN
    )


def test_signed_zeros_and_nans_are_compared_by_their_bits(write, saved):
    blob = BlobProto(shape=BlobShape(dim=[2]), data=[0, np.nan])
    model = open_model(write(NetParameter(layer=[LayerParameter(name="a", blobs=[blob])])))
    array = model["a"].blobs[0].mutable_cpu_data()
    array[0] = -0.0
    assert np.signbit(saved(model).layer[0].blobs[0].data[0])


def test_v1_layers_stay_v1_when_they_are_edited(write, v1_net, saved):
    model = open_model(write(v1_net))
    model["conv1"].blobs[0].mutable_cpu_data()[...] = 5
    model.rename("loss", "costs")
    model[""] = model["untyped"]
    del model["untyped"]
    model.name = "new"
    v1_net.layers[0].blobs[0].data[:] = [5] * 6
    v1_net.layers[1].name = "costs"
    v1_net.layers[2].name = ""
    v1_net.name = "new"
    assert saved(model) == v1_net


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


def test_a_resized_blob(write, v2_net, saved):
    model = open_model(write(v2_net))
    model["conv1"].blobs[0].resize(3, 1)
    model["ip"].blobs[0].resize(5)
    for layer, shapes in (("conv1", r"\(2, 3\).*got \(3, 1\)"), ("ip", r"\(2,\).*got \(5,\)")):
        with pytest.raises(
            ValueError,
            match=rf"'{layer}', blob 0: expected shape {shapes}, .*replace_blob\(0, layer.*resize",
        ):
            saved(model)
        model[layer].replace_blob(0, model[layer].blobs[0], resize=True)
    layers = saved(model).layer
    assert list(layers[1].blobs[0].shape.dim) == [3, 1]
    assert list(layers[1].blobs[0].data) == [0, 1, 2]
    assert list(layers[2].blobs[0].double_data) == [0] * 5


def test_structural_edits(write, v2_net, saved):
    model = open_model(write(v2_net))
    model["conv1"].blobs.append([4.0, 5.0])
    del model["ip"].blobs[0]
    model.rename("conv1", "first")
    model.add(Layer("top", "Input"), before="data")
    model["again"] = model["first"]
    model.name = "edited"
    net = saved(model)
    assert net.name == "edited"
    assert [layer.name for layer in net.layer] == ["top", "data", "first", "ip", "again"]
    first = net.layer[2]
    assert (first.loss_weight, first.bottom, first.top) == ([1, 2], ["data"], ["conv1"])
    assert [len(blob.data or blob.double_data) for blob in first.blobs] == [6, 2, 2]
    assert len(net.layer[3].blobs) == 0
    assert net.layer[4].blobs == first.blobs


def test_fields_of_the_net_keep_their_place_around_the_layers(write, tmp_path):
    content = field(1, b"n") + field(100, field(1, b"a")) + UNKNOWN + field(100, field(1, b"b"))
    model = open_model(write(content))
    model.add(Layer("new"), before="a")
    del model["b"]
    save_model(model, tmp_path / "again")
    expected = field(1, b"n") + field(100, field(1, b"new")) + field(100, field(1, b"a")) + UNKNOWN
    assert (tmp_path / "again").read_bytes() == expected


def test_a_net_without_a_name_gets_one(write, saved):
    model = open_model(write(field(100, field(1, b"a"))))
    model.name = "n"
    model.rename("a", "\udcff")
    assert saved(model).name == "n"
    (layer,) = saved(model).layer
    assert layer.SerializeToString() == field(1, b"\xff")


def test_a_layer_without_a_name_gets_one(write, saved):
    model = open_model(write(field(100, field(2, b"X"))))
    model.rename("", "x")
    assert saved(model).layer[0] == LayerParameter(name="x", type="X")


def test_layers_of_another_file(write, v2_net, saved):
    model = open_model(write(v2_net))
    other = open_model(write(field(100, ODD_LAYER), "other.caffemodel"))
    model["a"] = other["a"]
    model["b"] = other["a"]
    net = saved(model)
    assert (
        net.layer[3].SerializeToString() == LayerParameter.FromString(ODD_LAYER).SerializeToString()
    )
    assert net.layer[4].name == "b"
    assert list(net.layer[4].blobs[0].data) == [1, 2]
    assert other["a"].blobs[0].head is Head.UNINITIALIZED


def test_a_made_model(saved):
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    layer = Layer("ip", "InnerProduct", ["data"], ["ip"], [weights.T, np.float64([1, 2])])
    net = saved(ModelFile("made", [layer, Layer("loss")]))
    assert net.name == "made"
    assert [layer.name for layer in net.layer] == ["ip", "loss"]
    transposed, doubles = net.layer[0].blobs
    assert (list(transposed.shape.dim), list(transposed.data)) == ([3, 2], [0, 3, 1, 4, 2, 5])
    assert list(doubles.double_data) == [1, 2]


def test_a_made_layer_is_laid_out_in_the_order_of_field_numbers(saved):
    proto = LayerParameter(name="x", loss_weight=[1])
    proto.blobs.add(data=[1])
    proto.convolution_param.num_output = 1
    (written,) = saved(ModelFile("", [Layer.from_proto(proto)])).layer
    assert written.SerializeToString() == proto.SerializeToString()


def test_what_is_newest_on_the_accelerator(saved):
    blob = Blob((2,), device="simulated:0")
    blob.mutable_gpu_data()[...] = 4
    net = saved(ModelFile("", [Layer("a", blobs=[blob])]))
    assert list(net.layer[0].blobs[0].data) == [4, 4]
    assert blob.head is Head.SYNCED


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


def test_a_changed_gradient(write, v2_net, saved):
    model = open_model(write(v2_net))
    model["ip"].blobs[0].mutable_cpu_diff()[1] = 9
    assert list(saved(model).layer[2].blobs[0].double_diff) == [3, 9]


def test_zeros_are_written_without_a_gradient_being_made(tmp_path):
    blob = Blob((3,))
    blob.mutable_cpu_data()[...] = 1
    write_blob(blob, tmp_path / "x", write_diff=True)
    assert list(BlobProto.FromString((tmp_path / "x").read_bytes()).diff) == [0, 0, 0]
    assert blob._existing_diff() is None
