"""Model files and mean files: what is found in them, and when their values are read."""

from __future__ import annotations

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from syncblob.caffe import Layer, ModelFile, files, open_model, read_blob, save_model
from syncblob.caffe._blob_index import Values
from syncblob.caffe._disk import MappedFile
from syncblob.caffe._pb.caffe_pb2 import BlobProto, BlobShape, LayerParameter, NetParameter
from syncblob.devices import use_device
from syncblob.memory import Head

BLOB = BlobProto(shape=BlobShape(dim=[2]), data=[0, 1])


def proto_of(*shape, **fields):
    return BlobProto(shape=BlobShape(dim=shape), **fields)


@pytest.fixture
def reads(monkeypatch):
    """Every time that values are read from a file: the array that they come in, or go to."""
    calls = []
    read, read_into = Values.read, Values.read_into

    def spy_read(self, buffer, dtype):
        calls.append(read(self, buffer, dtype))
        return calls[-1]

    def spy_read_into(self, file, target, **part):
        calls.append(target)
        read_into(self, file, target, **part)

    monkeypatch.setattr(Values, "read", spy_read)
    monkeypatch.setattr(Values, "read_into", spy_read_into)
    return calls


# --- what is found --------------------------------------------------------------------------------


def test_v2(write, v2_net):
    path = write(v2_net)
    net = open_model(path)
    assert isinstance(net, ModelFile)
    assert (net.path, net.name, net.version) == (str(path), "net", 2)
    assert list(net) == ["data", "conv1", "ip"]
    assert len(net) == 3
    data, conv1, ip = net.layers
    assert (data.name, data.type, data.bottoms, data.tops) == (
        "data",
        "Input",
        (),
        ("data", "label"),
    )
    assert len(data.blobs) == 0
    assert net["conv1"] is conv1
    assert (conv1.type, conv1.bottoms, conv1.tops) == ("Convolution", ("data",), ("conv1",))
    assert [blob.shape for blob in conv1.blobs] == [(2, 3), (2,)]
    assert conv1.blobs[0].cpu_data().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert ip.blobs[0].dtype == np.float64
    assert ip.blobs[0].cpu_data().tolist() == [1, 2]


def test_v1(write, v1_net):
    net = open_model(write(v1_net))
    assert (net.name, net.version) == ("old", 1)
    conv1, loss, untyped = net.layers
    assert (conv1.name, conv1.type, conv1.bottoms) == ("conv1", "Convolution", ("data",))
    assert (loss.type, loss.tops, untyped.type) == ("SoftmaxWithLoss", ("l",), "")
    assert conv1.blobs[0].shape == (1, 1, 2, 3)
    assert conv1.blobs[0].cpu_data().ravel().tolist() == list(range(6))


def test_unpacked_values(write):
    blob = b"\x3a\x02\x08\x02" + b"\x2d\x00\x00\x80\x3f" + b"\x2d\x00\x00\x00\x40"
    layer = b"\x0a\x01a" + b"\x3a" + bytes([len(blob)]) + blob
    net = open_model(write(b"\xa2\x06" + bytes([len(layer)]) + layer))
    assert net["a"].blobs[0].cpu_data().tolist() == [1, 2]


def test_the_gradient_in_a_file(write, v2_net):
    (blob,) = open_model(write(v2_net))["ip"].blobs
    assert blob.diff_head is Head.UNINITIALIZED
    assert blob.diff.cpu_data().tolist() == [3, 4]
    assert blob.head is Head.UNINITIALIZED
    assert blob.cpu_diff().dtype == np.float64


def test_no_gradient_in_a_file(write, v2_net):
    blob = open_model(write(v2_net))["conv1"].blobs[1]
    assert blob.cpu_diff().tolist() == [0, 0]


def test_an_empty_net(tmp_path):
    save_model(ModelFile(), tmp_path / "x.caffemodel")
    net = open_model(tmp_path / "x.caffemodel")
    assert (net.name, net.version, net.layers, dict(net)) == ("", 2, (), {})


def test_the_first_of_several_layers_of_one_name(write):
    layers = [LayerParameter(name="a", type="First"), LayerParameter(name="a", type="Second")]
    net = open_model(write(NetParameter(layer=layers)))
    assert net["a"].type == "First"
    assert [layer.type for layer in net.layers] == ["First", "Second"]
    assert len(net) == 1


def test_a_missing_layer(write, v2_net):
    net = open_model(write(v2_net))
    assert "conv9" not in net
    assert net.get("conv9") is None
    with pytest.raises(KeyError, match=r"net\.caffemodel has no layer 'conv9'"):
        net["conv9"]


def test_names_that_are_not_utf_8(write):
    net = open_model(write(b"\x0a\x02\xff\x41" + b"\xa2\x06\x04" + b"\x0a\x02\xe9z"))
    assert net.name.encode(errors="surrogateescape") == b"\xffA"
    assert list(net) == ["\udce9z"]


def test_of_repeated_scalars_the_last_counts(write):
    layer = b"\x0a\x01a\x12\x01X\x0a\x01b\x12\x01Y"
    net = open_model(write(b"\x0a\x01n\xa2\x06" + bytes([len(layer)]) + layer + b"\x0a\x01m"))
    assert (net.name, net.layers[0].name, net.layers[0].type) == ("m", "b", "Y")


def test_v1_types_that_caffe_does_not_know(write):
    net = open_model(write(b"\x12\x02\x28\x63" + b"\x12\x04\x28\x04\x28\x63"))
    assert [layer.type for layer in net.layers] == ["", "Convolution"]


def test_fields_of_the_wrong_wire_type_are_skipped(write):
    # Name, type, bottom and blobs as numbers, in a layer that has a name besides.
    layer = b"\x0a\x01a" + b"\x08\x01\x10\x04\x18\x01\x38\x01"
    # The name of the net and another layer as numbers, and the name of an input.
    content = b"\x08\x41\x1a\x01x" + b"\xa2\x06" + bytes([len(layer)]) + layer + b"\xa0\x06\x05"
    net = open_model(write(content))
    assert (net.name, len(net.layers)) == ("", 1)
    assert open_model(write(b"\x12\x00" + b"\x3a\x00")).version == 1
    (layer,) = net.layers
    assert (layer.name, layer.type, layer.bottoms, len(layer.blobs)) == ("a", "", (), 0)


def test_reprs(write, v2_net):
    path = write(v2_net)
    net = open_model(path)
    assert repr(net) == (
        f"<ModelFile {str(path)!r}, net 'net', format V2: 3 layers, 3 blobs, 10 values>"
    )
    assert repr(net["conv1"]) == "<Layer 'conv1' Convolution, blobs: (2, 3), (2,)>"
    assert repr(Layer("x")) == "<Layer 'x' of no type, blobs: none>"
    assert repr(net["data"].blobs) == "[]"
    assert (
        repr(ModelFile("made")) == "<ModelFile net 'made', format V2: 0 layers, 0 blobs, 0 values>"
    )


@pytest.mark.parametrize("name", ["mean.binaryproto", "größe.binaryproto"])
def test_read_blob(write, name):
    path = write(proto_of(2, 2, data=[1, 2, 3, 4], diff=[5, 6, 7, 8]), name)
    for argument in (path, str(path)):
        blob = read_blob(argument)
        assert (blob.shape, blob.dtype, blob.head) == ((2, 2), np.float32, Head.UNINITIALIZED)
        assert blob.cpu_data().tolist() == [[1, 2], [3, 4]]
        assert blob.cpu_diff().tolist() == [[5, 6], [7, 8]]


def test_read_blob_of_doubles_without_legacy_dims(write):
    assert read_blob(write(proto_of(2, double_data=[1, 2]))).cpu_data().tolist() == [1, 2]


def test_read_blob_with_fields_of_a_fork(write):
    content = BLOB.SerializeToString() + b"\xa2\x06\x01x"
    assert read_blob(write(content)).cpu_data().tolist() == [0, 1]


# --- when it is read ------------------------------------------------------------------------------


def test_opening_reads_no_values(write, reads, v2_net):
    net = open_model(write(v2_net))
    blobs = [blob for layer in net.layers for blob in layer.blobs]
    assert {blob.head for blob in blobs} == {Head.UNINITIALIZED}
    repr(net)
    assert reads == []
    weights, bias = net["conv1"].blobs
    weights.cpu_data()
    assert len(reads) == 1
    assert weights.head is Head.HEAD_AT_CPU
    weights.cpu_data()
    assert len(reads) == 1
    assert bias.head is Head.UNINITIALIZED


def test_the_host_side_is_read_into_directly(write, reads, v2_net):
    (weights, _) = open_model(write(v2_net))["conv1"].blobs
    assert np.shares_memory(weights.cpu_data(), reads[0])


def test_the_accelerator_is_filled_from_the_mapping_itself(write, reads, v2_net):
    with use_device("simulated:0"):
        net = open_model(write(v2_net))
    net["conv1"].blobs[0].gpu_data()
    assert np.shares_memory(reads[0], net._record.source.array())


def test_the_accelerator_is_filled_from_the_file(write, v2_net):
    with use_device("simulated:0"):
        (weights, _) = open_model(write(v2_net))["conv1"].blobs
    assert weights.gpu_data().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert weights.head is Head.HEAD_AT_GPU


def test_weights_can_be_changed_and_the_file_does_not_change(write, v2_net):
    path = write(v2_net)
    before = path.read_bytes()
    (weights, _) = open_model(path)["conv1"].blobs
    weights.mutable_cpu_data()[...] = 9
    assert path.read_bytes() == before
    assert open_model(path)["conv1"].blobs[0].cpu_data()[0, 1] == 1


def test_blobs_outlive_the_model(write, v2_net):
    weights, bias = open_model(write(v2_net))["conv1"].blobs
    gc.collect()
    assert weights.cpu_data().sum() == 15
    assert bias.cpu_data().tolist() == [0, 1]


def test_the_file_is_let_go_when_everything_has_been_read(write, monkeypatch):
    opened = []

    class Spy(MappedFile):
        __slots__ = ()

        def __init__(self, path):
            super().__init__(path)
            opened.append(weakref.ref(self))

    monkeypatch.setattr(files, "MappedFile", Spy)
    blob = read_blob(write(BLOB))
    gc.collect()
    assert opened[0]() is not None
    blob.cpu_data()
    gc.collect()
    assert opened[0]() is None


def test_many_threads_read_once(write, reads, v2_net):
    (weights, _) = open_model(write(v2_net))["conv1"].blobs
    with ThreadPoolExecutor(8) as pool:
        sums = list(pool.map(lambda _: float(weights.cpu_data().sum()), range(64)))
    assert sums == [15] * 64
    assert len(reads) == 1


def test_closing(write, v2_net):
    with open_model(write(v2_net)) as net:
        weights, bias = net["conv1"].blobs
        weights.cpu_data()
    assert weights.cpu_data().sum() == 15
    with pytest.raises(ValueError, match=r"net\.caffemodel was closed before this part of it was"):
        bias.cpu_data()
    assert bias.head is Head.UNINITIALIZED
    net.close()
    assert list(net) == ["data", "conv1", "ip"]


def test_closing_while_an_array_is_in_use(write, v2_net):
    file = MappedFile(write(v2_net))
    array = file.array()
    expected = array.tobytes()
    file.close()
    assert array.tobytes() == expected
    with pytest.raises(ValueError, match="was closed"):
        file.array()


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files through /proc")
def test_the_file_is_not_kept_open(write, v2_net):
    path = write(v2_net)
    net = open_model(path)
    net.close()
    with open("/proc/self/maps", encoding="utf-8") as maps:  # noqa: PTH123  # no file to join paths to
        assert str(path) not in maps.read()
