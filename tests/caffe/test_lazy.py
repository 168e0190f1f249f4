"""Parts of Blobs that are in a file, and the bytes that are read for them."""

import h5py
import numpy as np
import pytest

from syncblob import record_transfers
from syncblob.caffe import blob_values, open_model, read_blob, save_model
from syncblob.caffe._pb.caffe_pb2 import BlobProto, BlobShape, LayerParameter, NetParameter
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.wire import length_field, varint
from syncblob.devices import use_device
from syncblob.memory import Head

# They count the bytes that are read for parts of small Blobs.
pytestmark = pytest.mark.usefixtures("exact_parts")

ROWS, COLUMNS = 40, 25
COUNT = ROWS * COLUMNS
VALUES = np.arange(COUNT, dtype=np.float32)
MATRIX = VALUES.reshape(ROWS, COLUMNS)
PART = slice(10, 20)

SHAPE = length_field(7, BlobShape(dim=[ROWS, COLUMNS]).SerializeToString())


@pytest.fixture
def reads(monkeypatch):
    """The offset and length of each read of a file."""
    ranges = []
    read_into = OpenFile.read_into

    def spy(self, target, offset):
        ranges.append((offset, len(target)))
        read_into(self, target, offset)

    monkeypatch.setattr(OpenFile, "read_into", spy)
    return ranges


def packed(dtype, number):
    """A field with all values in one payload."""
    return length_field(number, VALUES.astype(dtype).tobytes())


def unpacked(dtype, number):
    """One field for each value."""
    head = varint(number << 3 | (5 if dtype == "<f4" else 1))
    return b"".join(head + value.tobytes() for value in VALUES.astype(dtype))


FLOAT_FIELD, DOUBLE_FIELD, RAW_TYPE_FIELD, RAW_FIELD = 5, 8, 10, 12
HALF = varint(RAW_TYPE_FIELD << 3) + b"\x02"

# The message, the distance between values, and the size of a value, in bytes.
MESSAGES = {
    "packed": (packed("<f4", FLOAT_FIELD), 4, 4),
    "unpacked": (unpacked("<f4", FLOAT_FIELD), 5, 4),
    "double": (packed("<f8", DOUBLE_FIELD), 8, 8),
    "unpacked double": (unpacked("<f8", DOUBLE_FIELD), 9, 8),
    "half": (HALF + packed("<f2", RAW_FIELD), 2, 2),
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_parts_read_these_bytes_once(write, reads, kind):
    message, stride, itemsize = MESSAGES[kind]
    path = write(SHAPE + message, "mean.binaryproto")
    blob = read_blob(path)
    rows = blob[PART]
    np.testing.assert_array_equal(rows.cpu_data(), MATRIX[PART])
    # The read ends before the tag that follows the last value.
    assert [length for _, length in reads] == [10 * COLUMNS * stride - (stride - itemsize)]
    first = reads[0][0]
    contents = path.read_bytes()
    start = first + COLUMNS * stride
    assert np.frombuffer(contents[start : start + itemsize], f"<f{itemsize}") == MATRIX[11, 0]
    assert (rows.head, blob[:10].head, blob.head) == (
        Head.HEAD_AT_CPU,
        Head.UNINITIALIZED,
        Head.SPLIT,
    )
    assert blob[32, 3].item() == MATRIX[32, 3]
    assert [length for _, length in reads[1:]] == [itemsize]
    assert blob[32].head is Head.UNINITIALIZED
    reads.clear()
    np.testing.assert_array_equal(blob[5:25].cpu_data(), MATRIX[5:25])
    assert len(reads) == 2
    np.testing.assert_array_equal(blob.cpu_data(), MATRIX)
    assert len(reads) == 4
    assert sum(length for _, length in reads) <= (ROWS - 10) * COLUMNS * (itemsize + 1)
    assert blob.head is Head.HEAD_AT_CPU


def test_values_in_several_pieces(write, reads):
    """Part of a row, a gap with other fields, single values, and a row: three reads."""
    cut = 260
    contents = (
        SHAPE
        + length_field(FLOAT_FIELD, VALUES[:cut].tobytes())
        + b"\xca\x3e\x03abc"
        + b"".join(b"\x2d" + value.tobytes() for value in VALUES[cut : cut + 3])
        + length_field(FLOAT_FIELD, VALUES[cut + 3 :].tobytes())
    )
    blob = read_blob(write(contents, "mean.binaryproto"))
    np.testing.assert_array_equal(blob[PART].cpu_data(), MATRIX[PART])
    assert [length for _, length in reads] == [10 * 4, 3 * 5 - 1, (250 - 13) * 4]


def test_numbers_that_begin_within_a_value(write):
    """The plain bytes of a memory can be requested from any offset."""
    expected = VALUES.view(np.uint8)
    for message, _, itemsize in MESSAGES.values():
        blob = read_blob(write(SHAPE + message, "mean.binaryproto"))
        source = blob.memory.source
        expected = VALUES.astype(f"<f{itemsize}").view(np.uint8)
        for start, stop in ((1, 2), (3, 17), (4, 15), (len(expected) - 5, len(expected))):
            buffer = np.empty(stop - start, np.uint8)
            source.fill(buffer, start)
            assert buffer.tolist() == expected[start:stop].tolist()


def net_of(*names):
    weights = BlobProto(shape=BlobShape(dim=[ROWS, COLUMNS]), data=VALUES)
    return NetParameter(layer=[LayerParameter(name=name, blobs=[weights]) for name in names])


def test_rows_of_one_layer(write, reads, saved):
    """An access to rows of one layer reads nothing else of it, and nothing of the others."""
    path = write(net_of("a", "b"))
    model = open_model(path)
    (blob,) = model["b"].blobs
    np.testing.assert_array_equal(blob[PART].cpu_data(), MATRIX[PART])
    assert [length for _, length in reads] == [10 * COLUMNS * 4]
    assert model["a"].blobs[0].head is Head.UNINITIALIZED
    # A part that was only read is written as it was in the file. A changed part is written anew.
    before = path.read_bytes()
    save_model(model, path)
    assert path.read_bytes() == before
    assert blob.head is Head.SPLIT  # the rest was copied from file to file
    blob[PART].mutable_cpu_data()[...] = 0
    changed = MATRIX.copy()
    changed[PART] = 0
    assert saved(model).layer[1].blobs[0].data == changed.ravel().tolist()


def test_the_device_gets_the_rows_alone(write):
    with use_device("simulated:0"):
        blob = read_blob(write(SHAPE + MESSAGES["packed"][0], "mean.binaryproto"))
    with record_transfers() as log:
        np.testing.assert_array_equal(blob[PART].gpu_data(), MATRIX[PART])
    assert [(transfer.offset, transfer.nbytes) for transfer in log] == [
        (10 * COLUMNS * 4, 10 * COLUMNS * 4)
    ]
    assert not blob.memory.windows(0)  # the host has no buffer


# --- HDF5 -----------------------------------------------------------------------------------------


@pytest.fixture
def h5(tmp_path):
    """Make a model of one blob in HDF5 and open it."""

    def made(values, **layout):
        path = tmp_path / "net.caffemodel.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("data/a/0", data=values, **layout)
        return open_model(path)["a"].blobs[0]

    return made


@pytest.fixture
def selections(monkeypatch):
    """The parts of chunked datasets that are requested from h5py."""
    asked = []
    read_direct = h5py.Dataset.read_direct

    def spy(self, target, *selection):
        asked.append((target.shape, *selection))
        read_direct(self, target, *selection)

    monkeypatch.setattr(h5py.Dataset, "read_direct", spy)
    return asked


@pytest.mark.parametrize(
    "layout",
    [
        {"chunks": (4, 25)},
        {"chunks": (7, 6), "compression": "gzip", "shuffle": True},
        {"chunks": (1, 5), "fletcher32": True},
    ],
)
def test_hdf5_in_chunks(h5, selections, layout):
    blob = h5(MATRIX, **layout)
    np.testing.assert_array_equal(blob[PART].cpu_data(), MATRIX[PART])
    assert selections == [((10, COLUMNS), PART)]
    # One element reads its row.
    assert blob[30, 7].item() == MATRIX[30, 7]
    assert selections[1:] == [((1, COLUMNS), slice(30, 31))]
    # A part of several rows that begins and ends inside a row.
    np.testing.assert_array_equal(blob.reshape(-1)[3:60].cpu_data(), VALUES[3:60])
    np.testing.assert_array_equal(blob.cpu_data(), MATRIX)
    assert blob.head is Head.HEAD_AT_CPU


def test_values_without_keeping_them(write):
    blob = read_blob(write(SHAPE + MESSAGES["packed"][0], "mean.binaryproto"))
    np.testing.assert_array_equal(blob_values(blob), MATRIX)
    assert blob.head is Head.UNINITIALIZED
    blob.mutable_cpu_data()[0, 0] = 7
    assert blob_values(blob)[0, 0] == 7
