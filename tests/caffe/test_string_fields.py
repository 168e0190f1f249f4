"""Names that are not UTF-8, which Caffe accepts, in files of every format of layers."""

import copy
import pickle

import numpy as np
import pytest

from syncblob.caffe import Layer, ModelFile, open_model, read_prototxt, save_model, write_prototxt
from syncblob.caffe._pb.caffe_pb2 import BlobProto, NetParameter
from syncblob.caffe.messages.string_fields import encode_text, parse
from syncblob.caffe.messages.wire import length_field, varint
from syncblob.errors import ModelFileError

NAME, DATA = "\N{CJK UNIFIED IDEOGRAPH-5377}".encode("gbk"), b"\xca\xfd"
NAME_HERE, DATA_HERE = (text.decode(errors="surrogateescape") for text in (NAME, DATA))
BLOB = BlobProto(num=1, channels=1, height=1, width=2, data=[1, 2]).SerializeToString()


def number(field, value):
    return varint(field << 3) + varint(value)


V1_CONNECTIONS = length_field(2, DATA) + length_field(3, NAME)
NETS = {
    2: length_field(
        100,
        length_field(1, NAME)
        + length_field(2, b"Power")
        + length_field(3, DATA)
        + length_field(4, NAME)
        + length_field(7, BLOB),
    ),
    1: length_field(
        2, V1_CONNECTIONS + length_field(4, NAME) + number(5, 26) + length_field(6, BLOB)
    ),
}


@pytest.fixture(params=NETS)
def path(request, write):
    return write(length_field(1, NAME) + NETS[request.param])


def test_names_come_and_go_byte_for_byte(path, tmp_path):
    model = open_model(path)
    assert (model.name, list(model)) == (NAME_HERE, [NAME_HERE])
    layer = model[NAME_HERE]
    assert (layer.bottoms, layer.tops) == ((DATA_HERE,), (NAME_HERE,))
    assert layer.blobs[0].name == "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}[0]"
    save_model(model, tmp_path / "same")
    assert (tmp_path / "same").read_bytes() == path.read_bytes()
    for kept in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert list(kept) == [NAME_HERE]
    # Edit the layer after its message was made, and save it in the current format.
    assert list(map(encode_text, layer.proto.top)) == [NAME]
    layer.bottoms, layer.tops = [NAME_HERE, "data"], [DATA_HERE]
    model.rename(NAME_HERE, DATA_HERE)
    save_model(model, tmp_path / "changed", upgrade=True)
    changed = open_model(tmp_path / "changed")[DATA_HERE]
    assert (changed.bottoms, changed.tops) == ((NAME_HERE, "data"), (DATA_HERE,))
    save_model(model, tmp_path / "net.h5")
    assert list(open_model(tmp_path / "net.h5")) == [DATA_HERE]


def test_definitions(path, tmp_path):
    net = open_model(path).to_net()
    assert (encode_text(net.name), encode_text(net.layer[0].name)) == (NAME, NAME)
    write_prototxt(net, tmp_path / "net.prototxt")
    again = read_prototxt(tmp_path / "net.prototxt")
    assert again == net
    assert list(ModelFile.from_net(again, phase="TEST")) == [NAME_HERE]


def test_a_definition_in_another_encoding(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_bytes(b'# \xff\nname: "' + NAME + b'"\ninput: "caf\xc3\xa9" input_dim: [1, 2]')
    net = read_prototxt(path)
    assert encode_text(net.name) == NAME
    assert (list(net.input), list(net.input_dim)) == (["caf\xe9"], [1, 2])
    path.write_bytes(b'name: "' + NAME + b'"\nlayer { fork: 1 }')
    with pytest.raises(ModelFileError, match=r'line 2, column 9: .* no field named "fork"'):
        read_prototxt(path)
    assert encode_text(read_prototxt(path, ignore_unknown=True).name) == NAME


def test_an_input_of_an_older_net(write):
    inputs = length_field(3, DATA) + b"".join(number(4, dim) for dim in (1, 2, 3, 4))
    net = parse(NetParameter, length_field(1, NAME) + inputs + NETS[1])
    assert ModelFile.from_net(net)["input"].tops == (DATA_HERE,)
    assert ModelFile.from_net(open_model(write(net)).to_net())["input"].tops == (DATA_HERE,)


def test_layers_that_are_made(tmp_path):
    made = ModelFile(NAME_HERE, [Layer(NAME_HERE, "Power", [DATA_HERE], blobs=[np.ones(2)])])
    assert encode_text(made[NAME_HERE].proto.bottom[0]) == DATA
    save_model(made, tmp_path / "made")
    assert open_model(tmp_path / "made")[NAME_HERE].bottoms == (DATA_HERE,)
