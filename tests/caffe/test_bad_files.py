"""Files of other formats and damaged files: the errors and the places that they name."""

import os
import time
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy
from caffe_agreement import MESSAGES, READ
from google.protobuf.internal import api_implementation

from syncblob.caffe import open_model, open_solver_state, read_blob
from syncblob.caffe._pb.caffe_pb2 import (
    BlobProto,
    BlobShape,
    LayerParameter,
    NetParameter,
    SolverState,
    V1LayerParameter,
)
from syncblob.caffe.messages import wire
from syncblob.caffe.messages.wire import length_field as field
from syncblob.caffe.messages.wire import varint
from syncblob.errors import ModelFileError

BLOB = BlobProto(shape=BlobShape(dim=[2]), data=[0, 1])


# --- files of other formats -----------------------------------------------------------------------


def both_refuse(path, words):
    for reader in (open_model, read_blob):
        with pytest.raises(ModelFileError, match=words) as caught:
            reader(path)
        assert caught.value.path == str(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        (b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        ", "AppleDouble"),
        (b"PK\x03\x04\x14\x00", "a zip archive, such as an .npz .*; syncblob.caffe.convert.open_"),
        (b"PK\x05\x06" + bytes(18), "a zip archive"),
        # No header of a safetensors file is this long.
        (b"\x00\x00\x00\x00\x01\x00\x00\x00{}", "byte 0: expected a field number"),
        (b"\x1f\x8b\x08\x00", r"a gzip archive; unpack it, or pass gzip\.open"),
        (b"\n<!DOCTYPE html>\n<html>", "a web page"),
        (b'<?xml version="1.0"?>', "a web page"),
        (b'name: "net"\nlayer {\n  name: "data"\n}\n', r"\.prototxt"),
        (b'# a comment\n\ninput: "data"\ninput_dim: 1\n' + b"# more\n" * 200, r"\.prototxt"),
        (b"404: Not Found", "expected a file of weights, got a text"),
        (b'name: "net"\x00', "byte 0: field 13 has wire type 6"),
        (b"\x00" * 50, "byte 0: expected a field number"),
        (b"\x0a\x04text\x0f", "byte 6: field 1 has wire type 7.* no protobuf message at all"),
    ],
)
def test_other_formats(write, content, words):
    both_refuse(write(content), words)


def test_files_of_weights_of_other_libraries(tmp_path):
    torch = pytest.importorskip("torch")
    ones = {"a": np.ones(2, np.float32)}
    safetensors.numpy.save_file(ones, tmp_path / "safetensors")
    torch.save({"a": torch.ones(2)}, tmp_path / "old", _use_new_zipfile_serialization=False)
    both_refuse(tmp_path / "safetensors", "a .safetensors file; syncblob.caffe.convert.open_w")
    both_refuse(tmp_path / "old", "a file of PyTorch's; syncblob.caffe.convert.open_weights")


STATE = SolverState(iter=5, history=[BLOB])
V2_NET, V1_NET = (NetParameter(**{name: [{"name": "a"}]}) for name in ("layer", "layers"))


@pytest.mark.parametrize(
    ("reader", "words", "messages"),
    [
        (
            open_model,
            "this is one blob .* use read_blob",
            [
                BLOB,
                BlobProto(shape=BlobShape(dim=[2]), double_data=[1, 2]),
                BlobProto(num=1, channels=1, height=1, width=1, data=[1]),
                BlobProto(data=[1]),
                b"\x2d\x00\x00\x00\x00",
            ],
        ),
        (
            open_model,
            "not a whole model; use open_solver_state",
            [STATE, SolverState(iter=5, learned_net="x.caffemodel", history=[BLOB])],
        ),
        (
            read_blob,
            "this is a whole model, not one blob; use open_model",
            [
                NetParameter(name="net"),
                V2_NET,
                V1_NET,
                NetParameter(layer=[LayerParameter(name="a", blobs=[BLOB])]),
                NetParameter(layers=[V1LayerParameter(name="a", blobs=[BLOB])]),
                NetParameter(name="net", input=["data"], input_dim=[1, 3, 4, 4]),
                NetParameter(name="net", input=["data"], input_shape=[BlobShape(dim=[1, 3])]),
            ],
        ),
        (read_blob, "use open_solver_state", [STATE]),
        (open_solver_state, "this is one blob .*, not the state of a solver", [BLOB]),
        (
            open_solver_state,
            "this is a whole model, not the state of a solver; use open_model",
            [V2_NET, NetParameter(name="n", layers=[{"name": "a"}])],
        ),
        *(
            (reader, "got an empty file; copy or download it again", [b""])
            for reader in (open_model, read_blob, open_solver_state)
        ),
    ],
)
def test_one_kind_of_file_for_another(write, reader, words, messages):
    for message in messages:
        path = write(message)
        with pytest.raises(ModelFileError, match=words):
            reader(path)
        if "open_model" in words:
            open_model(path)


def test_what_the_system_refuses(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_model(tmp_path / "missing")
    with pytest.raises(OSError, match=r"directory|Permission"):
        open_model(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")  # is not waited for
        with pytest.raises(OSError, match="expected a file, got a pipe or a device"):
            open_model(tmp_path / "pipe")


# --- damaged files --------------------------------------------------------------------------------


# The bytes of a file around a field of each message.
PLACES = {
    "NetParameter": lambda end: b"\xa2\x06\x03\x0a\x01a" + end,
    "LayerParameter": lambda end: field(100, b"\x0a\x01a" + end),
    "V1LayerParameter": lambda end: field(2, b"\x22\x01a" + end),
    "V0LayerParameter": lambda end: field(2, field(1, end)),
    "BlobProto": lambda begin: begin + BLOB.SerializeToString(),
    "BlobShape": lambda end: BLOB.SerializeToString() + field(7, end),
    "SolverState": lambda end: STATE.SerializeToString() + end,
}
READERS = {"BlobProto": read_blob, "BlobShape": read_blob, "SolverState": open_solver_state}


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        (name, entry)
        for name in PLACES
        for entry in MESSAGES[name].DESCRIPTOR.fields
        if entry.name in READ
    ],
)
def test_a_field_of_caffes_with_another_wire_type_is_named(write, name, entry):
    """protobuf would skip it, and the rest would be taken for all that there is."""
    integer = entry.cpp_type in {entry.CPPTYPE_INT32, entry.CPPTYPE_INT64, entry.CPPTYPE_ENUM}
    kind, payload = (5, bytes(4)) if integer else (0, b"A")
    wrong = varint(entry.number << 3 | kind) + payload
    with pytest.raises(ModelFileError, match=rf"field {entry.number} \({entry.name}\) has wire "):
        READERS.get(name, open_model)(write(PLACES[name](wrong)))


def test_cut_off_anywhere(write, v2_net):
    """A cut can go unnoticed only between two fields of the net itself."""
    whole = v2_net.SerializeToString()
    boundaries = {0, 5}
    for layer in v2_net.layer:
        boundaries.add(max(boundaries) + 3 + layer.ByteSize())
    assert max(boundaries) == len(whole)
    for size in range(len(whole)):
        path = write(whole[:size])
        if size in boundaries - {0}:
            assert len(open_model(path).layers) < 3
        else:
            words = ("got an empty file", "got a text")[size] if size < 2 else "is truncated"
            with pytest.raises(ModelFileError, match=words):
                open_model(path)


VALUE = b"\x2a\x04\x00\x00\x00\x00"


# --- files that ask for too much ------------------------------------------------------------------

MANY = 300_000


ONE_OF_MANY = field(7, field(1, varint(MANY)))

EXCESSES = {
    "numbers": b"\x28\x00" * MANY,
    "layers": b"\xa2\x06\x00" * MANY,
    "V1 layers": b"\x12\x00" * MANY,
    "blobs": field(100, field(7, VALUE) * MANY),
    "V0 blobs": field(2, field(1, field(50, VALUE) * MANY)),
    "packed pieces": field(100, field(7, ONE_OF_MANY + VALUE * MANY)),
    "unpacked pieces": field(100, field(7, ONE_OF_MANY + b"\x2d\0\0\0\0\x35\0\0\0\0" * MANY)),
    "names": field(100, b"\x22\x00" * MANY),
    "groups": b"\xfb\x01\xfc\x01" * MANY,
    "dimensions": field(100, field(7, field(7, b"\x08\x01" * MANY))),
    "packed dimensions": field(100, field(7, field(7, field(1, b"\x01" * MANY)))),
    "a claim": field(100, field(7, field(7, field(1, varint(10**10))) + VALUE)),
    "many claims": field(100, field(7, field(7, field(1, varint(2**62) * 60)) + VALUE)),
}


@pytest.mark.parametrize("content", EXCESSES.values(), ids=EXCESSES)
def test_a_file_that_asks_for_too_much(write, monkeypatch, content):
    """Use a part of the limit, because measuring memory is slow."""
    path = write(content)
    start = time.thread_time()
    with pytest.raises(ModelFileError, match=r"damaged|got 1|got more|are unknown"):
        open_model(path)
    assert time.thread_time() - start < 10
    monkeypatch.setattr(wire, "MOST_FIELDS", wire.MOST_FIELDS // 32)
    tracemalloc.start()
    with pytest.raises(ModelFileError, match=r"damaged|got 1|got more|are unknown"):
        open_model(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # protobuf in pure Python makes an object of each dimension.
    assert peak < (5_000_000 if api_implementation.Type() == "upb" else 10_000_000)


def test_damaged_settings_of_the_net(write):
    state = b"\x32\x02\x0a\x05"  # a length that goes beyond its message
    with pytest.raises(ModelFileError, match="settings of the net or of its layers, or"):
        open_model(write(b"\x0a\x03net" + state))
