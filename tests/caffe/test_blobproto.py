"""Conversion of BlobProto messages to Blobs and back."""

import ml_dtypes
import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from syncblob._blob import Blob
from syncblob.caffe import read_blob, write_blob
from syncblob.caffe._pb import caffe_pb2
from syncblob.caffe._pb.caffe_pb2 import BlobProto, BlobShape
from syncblob.errors import ModelFileError
from syncblob.memory import Head


def proto_of(shape, **fields):
    return BlobProto(shape=BlobShape(dim=shape), **fields)


def blob_of(values, dtype="float32"):
    values = np.array(values, dtype)
    blob = Blob(values.shape, values.dtype)
    blob.overwrite_cpu_data()[...] = values
    return blob


# --- from_proto -----------------------------------------------------------------------------------


def test_from_a_message_of_another_module():
    """Caffe's own Python package has a different BlobProto class."""
    file = descriptor_pb2.FileDescriptorProto()
    caffe_pb2.DESCRIPTOR.CopyToProto(file)
    renamed = descriptor_pb2.FileDescriptorProto.FromString(
        file.SerializeToString().replace(b".syncblob.caffe.", b".elsewhere.nets.")
    )
    renamed.package = "elsewhere.nets"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(renamed)
    other = message_factory.GetMessageClass(pool.FindMessageTypeByName("elsewhere.nets.BlobProto"))
    assert other is not BlobProto
    assert Blob.from_proto(other(data=[7])).cpu_data() == 7


@pytest.mark.parametrize("value", [None, 3, "net.caffemodel", np.zeros(3), BlobShape(dim=[1])])
def test_other_things_are_refused(value):
    with pytest.raises(TypeError, match="expected a BlobProto message or its bytes, got"):
        Blob.from_proto(value)


# --- load_proto -----------------------------------------------------------------------------------


def test_load_writes_on_the_host():
    blob = Blob((2,), device="simulated:0")
    blob.load_proto(proto_of([2], data=[3, 4]))
    assert blob.diff_head is Head.UNINITIALIZED
    blob.mutable_gpu_data()[...] = 9
    blob.mutable_gpu_diff()[...] = 8
    blob.load_proto(proto_of([2], data=[1, 2]))
    assert (blob.head, blob.diff_head) == (Head.HEAD_AT_CPU, Head.HEAD_AT_GPU)
    assert (blob.tolist(), blob.diff.tolist()) == ([1, 2], [8, 8])
    blob.load_proto(proto_of([2], data=[1, 2], diff=[3, 4]))
    assert (blob.head, blob.diff_head) == (Head.HEAD_AT_CPU, Head.HEAD_AT_CPU)


LEGACY_2 = BlobProto(num=1, channels=1, height=3, width=2, data=range(6))


@pytest.mark.parametrize(
    ("shape", "proto", "equal"),
    [
        ((3, 2), LEGACY_2, True),
        ((1, 3, 2), LEGACY_2, True),
        ((1, 1, 3, 2), LEGACY_2, True),
        ((3, 2, 1, 1), LEGACY_2, False),
        ((6,), LEGACY_2, False),
        ((1, 1, 1, 3, 2), LEGACY_2, False),
        ((3, 2), proto_of([3, 2], data=range(6)), True),
        ((1, 3, 2), proto_of([3, 2], data=range(6)), False),
        ((), BlobProto(data=[1]), True),
        ((1,), BlobProto(data=[1]), False),
        ((), BlobProto(num=1, channels=1, height=1, width=1, data=[1]), True),
        ((0, 2), BlobProto(width=2), False),
        ((0, 0, 0, 2), BlobProto(width=2, shape=BlobShape(dim=[5])), True),
    ],
)
def test_shape_equals(shape, proto, equal):
    blob = Blob(shape)
    assert blob.shape_equals(proto) is equal
    if equal:
        blob.load_proto(proto, resize=False)
        assert blob.shape == shape
        assert blob.cpu_data().ravel().tolist() == list(proto.data)
    else:
        with pytest.raises(ValueError, match="resize=True"):
            blob.load_proto(proto, resize=False)


@pytest.mark.parametrize(
    "proto",
    [
        proto_of([3], data=[1, 2]),
        proto_of([2], data=[1, 2], diff=[1]),
        proto_of([-2], data=[1, 2]),
        b"\xff",
        None,
    ],
)
def test_nothing_changes_when_the_message_is_bad(proto):
    blob = Blob((2,), device="simulated:0")
    blob.mutable_gpu_data()[...] = 9
    with pytest.raises((ModelFileError, TypeError)):
        blob.load_proto(proto)
    assert (blob.shape, blob.head, blob.diff_head) == ((2,), Head.HEAD_AT_GPU, Head.UNINITIALIZED)
    assert blob.cpu_data().tolist() == [9, 9]


# --- to_proto -------------------------------------------------------------------------------------


def test_every_half_precision_value_is_widened_exactly():
    bits = np.arange(2**16, dtype=np.uint16)
    for dtype in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
        values = bits.view(dtype)
        blob = blob_of(values, dtype)
        widened = np.array(blob.to_proto().data, np.float32)
        np.testing.assert_array_equal(widened, values.astype(np.float32))


def test_a_view_that_is_newest_on_a_device():
    blob = Blob.asarray(np.arange(1.0, 7, dtype=np.float32).reshape(2, 3), device="simulated:0")
    blob.diff[...] = -blob
    proto = blob.T.to_proto(write_diff=True)
    assert list(proto.data) == [1, 4, 2, 5, 3, 6]
    assert list(proto.diff) == [-1, -4, -2, -5, -3, -6]
    assert (blob.head, blob.diff_head) == (Head.SYNCED, Head.SYNCED)


@pytest.mark.parametrize(
    ("shape", "dtype", "write_diff"),
    [
        ((2**29,), "float32", False),
        ((2**28,), "float32", True),
        # The values take 4 bytes less than 2 GiB, but the message with its other bytes takes more.
        ((2**29 - 1,), "float32", False),
    ],
)
def test_messages_of_2_gib_are_refused_unread(shape, dtype, write_diff):
    blob = Blob(shape, dtype)
    with pytest.raises(ValueError, match="a BlobProto holds at most 2147483647 bytes"):
        blob.to_proto(write_diff=write_diff)
    assert (blob.head, blob.diff_head) == (Head.UNINITIALIZED, Head.UNINITIALIZED)


def test_a_gradient_of_higher_precision_keeps_its_range(write, tmp_path):
    proto = BlobProto(shape=BlobShape(dim=[2]), data=[1, 2], double_diff=[1e300, 0.1])
    path = write(proto)
    for blob in (Blob.from_proto(proto), read_blob(path)):
        assert (blob.dtype, blob.tolist()) == (np.float64, [1, 2])
        assert blob.diff.tolist() == [1e300, 0.1]
    write_blob(blob, tmp_path / "same.binaryproto")
    assert (tmp_path / "same.binaryproto").read_bytes() == path.read_bytes()
    blob.diff[0] = 5
    write_blob(blob, tmp_path / "new.binaryproto")
    new = BlobProto.FromString((tmp_path / "new.binaryproto").read_bytes())
    assert (list(new.double_data), list(new.double_diff)) == ([1, 2], [5, 0.1])
