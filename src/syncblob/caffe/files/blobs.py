"""Files of blobs without layers: ``.binaryproto``, and the ``.solverstate`` of a training."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from syncblob.caffe._pb import caffe_pb2 as messages
from syncblob.caffe.files.caffe_hdf5 import plan_state_hdf5, read_state
from syncblob.caffe.files.file_types import is_hdf5, require_path
from syncblob.caffe.files.recognise import plan_message, require_message
from syncblob.caffe.messages.file_objects import Source, Target, open_source, open_target
from syncblob.caffe.messages.lazy_blobs import lazy_blob
from syncblob.caffe.messages.pieces import Piece, blob_field, blob_pieces, write_pieces
from syncblob.caffe.messages.read_blobproto import MessageIndex
from syncblob.caffe.messages.string_fields import (
    at_place,
    decode_text,
    encode_text,
    put_texts,
    require_list,
    require_type,
)
from syncblob.caffe.messages.wire import WireReader
from syncblob.caffe.nets.layer import as_named_blob
from syncblob.formats import Blob


def read_blob(path: Source) -> Blob:
    """Open a ``.binaryproto`` file, which holds one array, such as the mean of a data set.

    The values are not read before the Blob is accessed; the file stays open until then. The dtype
    is float32, or float64 if the file has double precision. A gradient in the file becomes
    ``blob.diff``.

    Parameters
    ----------
    path
        The file, or an open binary file, as for `open_model`, whose errors apply.
    """
    file = open_source(path)
    with WireReader.of_file(file) as reader:
        require_message(reader, "binaryproto")
        parsed = MessageIndex(reader, messages.BlobProto)
        index = parsed.blob(parsed.message)
    return lazy_blob(file, index)


def write_blob(blob: Any, path: Target, *, write_diff: bool | None = None) -> None:
    """Write a Blob to a ``.binaryproto`` file, which is replaced as a whole or not at all.

    If the Blob is unchanged since it was read from a file, the new file has the same bytes. Caffe
    expects the mean of a data set in shape (1, channels, height, width).

    Parameters
    ----------
    blob
        The Blob, or an array of any library. A Blob whose newest values are on an accelerator is
        read on the host.
    path
        The file, usually with the extension ``.binaryproto``. Extensions of other formats are
        refused. Or an open binary file, as for `save_model`.
    write_diff
        Whether to write the gradient too; None writes it if the file had one.

    Raises
    ------
    TypeError
        If the dtype is not float32, float64, float16 or bfloat16. The latter two are widened.
    ValueError
        If the extension is that of another format, the message would have 2 GiB or more, or there
        are more than 32 axes.
    """
    if isinstance(blob, (str, os.PathLike, Mapping)):
        raise TypeError(
            f"expected a Blob or an array, then the path, got {type(blob).__name__}; save_model "
            f"writes a model"
        )
    require_path(path, "binaryproto")
    pieces = blob_pieces(Blob.asarray(blob), write_diff=write_diff)
    with open_target(path) as temporary:
        write_pieces(pieces, temporary)


# --- states of solvers ----------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class SolverState:
    """The contents of a ``.solverstate`` file. All of it can be changed and saved.

    Parameters
    ----------
    iter
        The number of iterations done.
    learned_net
        The file with the matching weights; ``""`` if none is named.
    current_step
        The number of steps that the learning rate has taken.
    history
        A list of one Blob for each learnable parameter, in the order of the net. AdaDelta and Adam
        have two: the first ones of all parameters come before the second ones. Values from a file
        are not read before they are accessed.
    """

    iter: int = 0
    learned_net: str = ""
    current_step: int = 0
    history: list[Blob] = field(default_factory=list)

    def __post_init__(self) -> None:
        require_list(self.history, "arrays as history")


def open_solver_state(path: Source) -> SolverState:
    """Open a ``.solverstate`` or ``.solverstate.h5`` file, recognised by its contents.

    Parameters
    ----------
    path
        The file, or an open binary file, as for `open_model`, whose errors apply.
    """
    file = open_source(path)
    with WireReader.of_file(file) as reader:
        if is_hdf5(file):
            return SolverState(**read_state(file))
        require_message(reader, "solverstate")
        parsed = MessageIndex(reader, messages.SolverState)
        state = parsed.message
        indexes = [
            parsed.blob(blob, f"history {number}") for number, blob in enumerate(state.history)
        ]
    history = [lazy_blob(file, index) for index in indexes]
    return SolverState(state.iter, decode_text(state.learned_net), state.current_step, history)


def save_solver_state(state: SolverState, path: Target) -> None:
    """Write the state of a solver to a file, which is replaced as a whole or not at all.

    Parameters
    ----------
    state
        The state. Its history may have arrays of any library in place of Blobs. Blobs whose newest
        values are on an accelerator are read on the host. Unchanged Blobs are copied from the file
        that was opened.
    path
        The file. The extensions ``.h5`` and ``.hdf5`` select Caffe's HDF5 format, which needs h5py.
        All others, and none, select ``.solverstate``, but extensions of other formats are refused.
        Or an open binary file, as for `save_model`.

    Raises
    ------
    TypeError
        If a number, name or array in it has the wrong type. Arrays must be float32 or float64;
        float16 and bfloat16 are widened.
    ValueError
        If a number is not an int32, the file would have 2 GiB or more and is not HDF5, or the
        extension is that of another format.
    """
    require_type(state, SolverState, "save_model(model, path) writes a model")
    hdf5 = require_path(path, "solverstate")
    first, last = messages.SolverState(), messages.SolverState()
    for message, name in (first, "iter"), (last, "current_step"):
        with at_place(name):
            setattr(message, name, operator.index(getattr(state, name)))
    require_type(state.learned_net, str, "learned_net is the name of a file")
    state.__post_init__()  # the history may have been assigned
    history = [
        as_named_blob(f"history {number}", array) for number, array in enumerate(state.history)
    ]
    if hdf5:
        facts: dict[str, int | bytes] = {
            "iter": first.iter,
            "learned_net": encode_text(state.learned_net),
            "current_step": last.current_step,
        }
        write = plan_state_hdf5(facts, history)
    else:
        put_texts(first, "learned_net", [state.learned_net])
        # protobuf writes fields in the order of their numbers; so does Caffe.
        pieces: list[Piece] = [first.SerializeToString()]
        for number, blob in enumerate(history):
            place = f"history {number}"
            pieces += blob_field(first.HISTORY_FIELD_NUMBER, place, blob, write_diff=None)
        pieces.append(last.SerializeToString())
        write = plan_message(pieces, "solverstate", "this state")
    with open_target(path) as temporary:
        write(temporary)
