"""Solver states and rows of blobs."""

from __future__ import annotations

import pytest

from syncblob.caffe import open_model, read_blob, read_blobs
from syncblob.caffe._pb.caffe_pb2 import (
    BlobProto,
    BlobProtoVector,
    BlobShape,
    NetParameter,
    SolverState,
)
from syncblob.caffe.solver_state import open_solver_state
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


def test_a_solver_state(write):
    path = write(SolverState(iter=7, learned_net="net", history=BLOBS, current_step=3))
    state = open_solver_state(path)
    assert (state.iter, state.learned_net, state.current_step) == (7, "net", 3)
    assert {blob.head for blob in state.history} == {Head.UNINITIALIZED}
    assert values(state.history) == VALUES


def test_an_old_solver_state_has_no_step(write):
    state = open_solver_state(write(SolverState(iter=7, history=BLOBS[:1])))
    assert (state.iter, state.learned_net, state.current_step) == (7, "", 0)


def test_numbers_are_int32(write):
    state = open_solver_state(write(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12\x00"))
    assert state.iter == -1


def test_rows_of_blobs(write):
    blobs = read_blobs(write(BlobProtoVector(blobs=BLOBS)))
    assert {blob.head for blob in blobs} == {Head.UNINITIALIZED}
    assert values(blobs) == VALUES
    assert blobs[1].cpu_diff().ravel().tolist() == [5, 6, 7]
    assert read_blobs(write(b"")) == ()


@pytest.mark.parametrize(
    ("reader", "message", "words"),
    [
        (read_blobs, BLOBS[0], "this is one blob .*, not a row of blobs; use read_blob"),
        (read_blobs, SolverState(iter=1, history=BLOBS), "use open_solver_state"),
        (read_blobs, NetParameter(layer=[{}]), "this is a whole model, not a row of blobs"),
        (read_blob, SolverState(iter=1, history=BLOBS), "use open_solver_state"),
        (
            open_model,
            SolverState(iter=1, history=BLOBS),
            "not a whole model; use open_solver_state",
        ),
        (open_solver_state, BLOBS[0], "this is one blob .*, not the state of a solver"),
        (open_solver_state, NetParameter(layer=[{}]), "not the state of a solver; use open_model"),
        (
            open_solver_state,
            NetParameter(name="n", layers=[{"name": "a"}]),
            "this is a whole model, not the state of a solver; use open_model",
        ),
        (open_solver_state, b"", "expected a .solverstate file, got an empty file"),
    ],
)
def test_one_kind_of_file_for_another(write, reader, message, words):
    with pytest.raises(ModelFileError, match=words):
        reader(write(message))


def test_errors_name_the_place(write):
    damaged = BlobProto(shape=BlobShape(dim=[2]), data=[0])
    with pytest.raises(ModelFileError, match=r"needs 2 values of data, got 1") as caught:
        open_solver_state(write(SolverState(iter=1, history=[BLOBS[0], damaged])))
    assert caught.value.layer == "history 1"
    assert caught.value.offset == 2 + 2 + BLOBS[0].ByteSize() + 2
    with pytest.raises(ModelFileError, match=r"needs 2 values of data, got 1"):
        read_blobs(write(BlobProtoVector(blobs=[damaged])))
