"""Solver states and rows of blobs."""

import h5py
import numpy as np
import pytest

import syncblob
from syncblob.caffe import open_model, open_solver_state, read_blob, save_solver_state
from syncblob.caffe._pb.caffe_pb2 import BlobProto, BlobShape, SolverState
from syncblob.caffe.messages.wire import length_field
from syncblob.errors import ModelFileError
from syncblob.memory import Head

BLOBS = [
    BlobProto(shape=BlobShape(dim=[2]), data=[0, 1]),
    BlobProto(num=1, channels=1, height=1, width=3, data=[2, 3, 4], diff=[5, 6, 7]),
    BlobProto(shape=BlobShape(dim=[1]), double_data=[8]),
]
VALUES = [[0, 1], [2, 3, 4], [8]]


def values(blobs):
    return [blob.cpu_data().ravel().tolist() for blob in blobs]


def c3d_mean(values):
    """Return a BlobProto of C3D: num, channels, length, height, width and data, 1 to 6."""
    dims = b"".join(bytes([number << 3, dim]) for number, dim in enumerate((1, 3, 1, 2, 2), 1))
    return dims + length_field(6, np.asarray(values, "<f4").tobytes())


def test_the_mean_of_c3d_is_no_solver_state_and_no_model(write):
    path = write(c3d_mean(range(12)))
    for reader in (open_solver_state, open_model):
        with pytest.raises(ModelFileError, match=r"this is one blob .* use read_blob"):
            reader(path)
    with pytest.raises(ModelFileError, match=r"field 5 \(data\) .* such as C3D"):
        read_blob(path)


def test_errors_name_the_place(write):
    damaged = BlobProto(shape=BlobShape(dim=[2]), data=[0])
    with pytest.raises(ModelFileError, match=r"needs 2 values of data, got 1") as caught:
        open_solver_state(write(SolverState(iter=1, history=[BLOBS[0], damaged])))
    assert caught.value.layer == "history 1"
    assert caught.value.offset == 2 + 2 + BLOBS[0].ByteSize() + 2


@pytest.mark.parametrize(
    "message",
    [
        SolverState(iter=7, learned_net="net", history=BLOBS, current_step=3),
        SolverState(iter=-1, learned_net="", current_step=-(2**31)),
    ],
)
def test_what_is_unchanged_is_written_as_it_was(write, tmp_path, message):
    state = open_solver_state(write(message))
    save_solver_state(state, tmp_path / "again.solverstate")
    assert (tmp_path / "again.solverstate").read_bytes() == message.SerializeToString()
    assert {blob.head for blob in state.history} <= {Head.UNINITIALIZED}


def test_a_state_is_edited(write, tmp_path):
    state = open_solver_state(write(SolverState(iter=7, learned_net="net", history=BLOBS)))
    state.iter, state.current_step, state.learned_net = 0, 2, "other.caffemodel"
    state.history[0].data[...] = 0
    state.history[1] = np.full((2, 2), 0.5)
    del state.history[2]
    save_solver_state(state, tmp_path / "x.solverstate")
    written = SolverState.FromString((tmp_path / "x.solverstate").read_bytes())
    assert (written.iter, written.current_step, written.learned_net) == (0, 2, "other.caffemodel")
    assert [list(blob.shape.dim) for blob in written.history] == [[2], [2, 2]]
    assert list(written.history[0].data) == [0, 0]
    assert list(written.history[1].double_data) == [0.5] * 4
    made = syncblob.SolverState(np.int64(-5), "made", history=[np.ones(2, np.float32)])
    save_solver_state(made, tmp_path / "x.solverstate")
    again = open_solver_state(tmp_path / "x.solverstate")
    assert (again.iter, values(again.history)) == (-5, [[1, 1]])


@pytest.mark.parametrize("name", ["x.solverstate.h5", "x.h5"])
def test_a_state_in_hdf5(write, tmp_path, name):
    state = open_solver_state(
        write(SolverState(iter=-7, learned_net="größe", history=BLOBS, current_step=3))
    )
    save_solver_state(state, tmp_path / name)
    again = open_solver_state(tmp_path / name)
    assert (again.iter, again.learned_net, again.current_step) == (-7, "größe", 3)
    assert {blob.head for blob in again.history} == {Head.UNINITIALIZED}
    assert values(again.history) == VALUES


def test_hdf5_is_laid_out_as_caffe_does(tmp_path):
    state = syncblob.SolverState(5, "net", 2, [np.ones((2, 3), np.float32)])
    save_solver_state(state, tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5") as file:
        assert set(file) == {"iter", "learned_net", "current_step", "history"}
        assert (file["iter"].shape, file["iter"].dtype) == ((1,), np.int32)
        kind = file["learned_net"].id.get_type()
        assert (file["learned_net"].shape, kind.get_size()) == ((), 4)
        assert kind.get_strpad() == h5py.h5t.STR_NULLTERM
        assert file["learned_net"][()] == b"net"
        assert (file["history/0"].shape, file["history/0"].dtype) == ((2, 3), np.float32)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"iter": 2**31}, ValueError, "iter: .*2147483648"),
        ({"iter": 1.5}, TypeError, "iter: "),
        ({"current_step": "2"}, TypeError, "current_step: "),
        ({"learned_net": b"net"}, TypeError, "got bytes; learned_net is"),
        ({"history": [np.arange(2)]}, TypeError, "history 0: .*int64"),
    ],
)
def test_a_state_that_no_file_can_hold(tmp_path, change, error, words):
    state = syncblob.SolverState()
    for name, value in change.items():
        setattr(state, name, value)
    for name in ("x.solverstate", "x.solverstate.h5"):
        with pytest.raises(error, match=words):
            save_solver_state(state, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_would_not_be_recognised_is_refused(tmp_path):
    with pytest.raises(ValueError, match="this state could not be opened again"):
        save_solver_state(syncblob.SolverState(1, "\n\x01a"), tmp_path / "x.solverstate")
    assert not list(tmp_path.iterdir())
