"""Where training stopped: Caffe's ``.solverstate`` files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncblob.caffe._blob_index import index_blob, require_few
from syncblob.caffe._disk import OpenFile
from syncblob.caffe._fields import CURRENT_STEP, HISTORY, ITER, LEARNED_NET
from syncblob.caffe._lazy import lazy_blob
from syncblob.caffe._other_formats import is_hdf5, require_message
from syncblob.caffe._wire import WireReader

if TYPE_CHECKING:
    import os

    from syncblob.blob import Blob

__all__ = ["SolverState", "open_solver_state"]


@dataclass(frozen=True, slots=True, eq=False)
class SolverState:
    """The contents of a ``.solverstate`` file.

    Parameters
    ----------
    iter
        Iterations done.
    learned_net
        The file with the weights that belong to it; ``""`` where the file names none.
    current_step
        Steps that the learning rate has taken.
    history
        One Blob for each learnable parameter, two for AdaDelta and Adam, in the order of the net.
        Their values stay in the file until they are touched.
    """

    iter: int
    learned_net: str
    current_step: int
    history: tuple[Blob, ...]


def open_solver_state(path: str | os.PathLike[str]) -> SolverState:
    """Open a ``.solverstate`` or ``.solverstate.h5`` file; which of them is seen from its contents.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ModelFileError
        If it is no such file, or is damaged.
    ModuleNotFoundError
        If it is HDF5 and h5py is not installed (``pip install 'syncblob[hdf5]'``).
    OSError
        If it cannot be opened.
    """
    file = OpenFile(path)
    with WireReader.of_file(file) as reader:
        if is_hdf5(reader):
            from syncblob.caffe._hdf5 import read_state  # needs h5py

            return SolverState(*read_state(file))
        require_message(reader, "solver state")
        numbers = {ITER: 0, CURRENT_STEP: 0}
        learned_net = ""
        history = []
        for field in reader.fields(0, reader.size):
            kind = field.number, field.wire_type
            if kind in numbers:
                numbers[kind] = field.int32
            elif kind == LEARNED_NET:
                learned_net = reader.text(field)
            elif kind == HISTORY:
                history.append(field)
        require_few(reader, len(history))
        indexes = [
            index_blob(reader.within(f"history {number}"), blob.start, blob.stop, depth=1)
            for number, blob in enumerate(history)
        ]
    return SolverState(
        numbers[ITER],
        learned_net,
        numbers[CURRENT_STEP],
        tuple(lazy_blob(file, index) for index in indexes),
    )
