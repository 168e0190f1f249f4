"""The committed protobuf code matches `proto/caffe.proto` and does not conflict with Caffe's."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import descriptor_pb2

from syncblob.caffe._pb import caffe_pb2
from syncblob.caffe.messages.upgrade_old_nets import V1_LAYER_TYPES

GENERATE = Path(__file__).resolve().parents[2] / "proto" / "generate.py"
GENERATED = Path(caffe_pb2.__file__).parent


@pytest.fixture(scope="module")
def script():
    """The names that `proto/generate.py` defines."""
    pytest.importorskip("grpc_tools", reason="grpcio-tools, which brings protoc, is missing")
    if not GENERATE.is_file():
        pytest.skip("proto/generate.py is in the source tree only")
    return runpy.run_path(str(GENERATE), run_name="generate")


def comparable(file):
    """Remove the parts of a descriptor set that protoc does not write into Python code.

    Releases of protoc also differ in the number of digits of a default.
    """
    for message in file.message_type:
        for field in message.field:
            if field.type == field.TYPE_FLOAT and field.default_value:
                field.default_value = str(np.float32(field.default_value))
    text = re.sub(r'\s*json_name: "\w*"', "", str(file))
    assert "json_name" not in text
    return text


def test_committed_code_matches_the_proto(script, tmp_path):
    compiled = tmp_path / "caffe.binpb"
    script["run_protoc"](f"--descriptor_set_out={compiled}")
    (fresh,) = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes()).file
    committed = descriptor_pb2.FileDescriptorProto.FromString(caffe_pb2.DESCRIPTOR.serialized_pb)
    assert comparable(committed) == comparable(fresh)


def test_v1_layer_types_are_those_of_the_enum():
    names = {"NONE": "", "SOFTMAX_LOSS": "SOFTMAXWITHLOSS"}
    expected = {
        value.number: names.get(value.name, value.name.replace("_", ""))
        for value in caffe_pb2.V1LayerParameter.LayerType.DESCRIPTOR.values
    }
    assert {number: name.upper() for number, name in V1_LAYER_TYPES.items()} == expected


@pytest.mark.parametrize("first", ["caffe", "syncblob"])
def test_caffes_own_messages_can_be_imported_too(first):
    """Caffe's Python package has its own `caffe.proto`, with messages of the same names."""
    program = (
        "from google.protobuf import descriptor_pb2, descriptor_pool\n"
        "def caffe():\n"
        "    file = descriptor_pb2.FileDescriptorProto(name='caffe.proto', package='caffe')\n"
        "    file.message_type.add(name='BlobProto')\n"
        "    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())\n"
        "def syncblob():\n"
        "    import syncblob.caffe._pb.caffe_pb2\n"
        f"both = [caffe, syncblob] if {first!r} == 'caffe' else [syncblob, caffe]\n"
        "for register in both: register()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
