"""The script of the tour: what is done to the Blob, and what the rules say must come of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncblob.memory import Head

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    _Floats = NDArray[np.floating[Any]]

__all__ = ["STEPS", "Library", "Place", "Step"]


class Place(enum.Enum):
    """Where an array lies."""

    HOST = "host"
    ACCELERATOR = "accelerator"
    OWN_COPY = "own copy"


class Library(enum.Enum):
    """What a step can need besides NumPy. The values are what the code of the steps calls them."""

    CUPY = "cupy"
    TORCH = "torch"
    # The same module, where it can also use the accelerator.
    TORCH_ON_ACCELERATOR = "torch on the accelerator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step, and what it should do.

    Attributes
    ----------
    chapter, title
        What it is about.
    code
        What is executed. Its variables stay alive, as in a session at the prompt. The arrays that
        it binds names to are looked at.
    place
        Where those should lie; None if there are none.
    moves
        The transfers it should cause, in order.
    head
        The head it should leave.
    alias
        The side on which it should leave a writable alias alive; None if on neither.
    compute
        What it does to the contents.
    needs
        The library it needs besides NumPy.
    refusable
        Whether older versions of the library refuse it.
    """

    chapter: str
    title: str
    code: str
    place: Place | None = None
    moves: tuple[str, ...] = ()
    head: Head
    alias: Place | None = None
    compute: Callable[[_Floats], _Floats] | None = None
    needs: Library | None = None
    refusable: bool = False


def _halve(values: _Floats) -> _Floats:
    return values * values.dtype.type(0.5)


def _double(values: _Floats) -> _Floats:
    return values * values.dtype.type(2)


def _raise(values: _Floats) -> _Floats:
    return values + values.dtype.type(1)


def _decay(values: _Floats) -> _Floats:
    return values - values.dtype.type(0.1) * values


_FIRST = "NumPy opens the weights"
_SECOND = "The accelerator takes over"
_THIRD = "An alias stays coherent"
_FOURTH = "Back on the host"
_FIFTH = "A step of training"

STEPS = (
    Step(
        chapter=_FIRST,
        title="NumPy reads",
        code="weights = np.asarray(blob)",
        place=Place.HOST,
        head=Head.HEAD_AT_CPU,
    ),
    Step(
        chapter=_FIRST,
        title="NumPy again",
        code="weights = np.asarray(blob)",
        place=Place.HOST,
        head=Head.HEAD_AT_CPU,
    ),
    Step(
        chapter=_FIRST,
        title="NumPy copies",
        code="private = np.array(blob)",
        place=Place.OWN_COPY,
        head=Head.HEAD_AT_CPU,
    ),
    Step(
        chapter=_SECOND,
        title="accelerator reads",
        code="gpu = blob.gpu_data()",
        place=Place.ACCELERATOR,
        moves=("upload",),
        head=Head.SYNCED,
    ),
    Step(
        chapter=_SECOND,
        title="accelerator again",
        code="gpu = blob.gpu_data()",
        place=Place.ACCELERATOR,
        head=Head.SYNCED,
    ),
    Step(
        chapter=_SECOND,
        title="accelerator writes",
        code="gpu = blob.mutable_gpu_data(); gpu *= 0.5",
        place=Place.ACCELERATOR,
        head=Head.HEAD_AT_GPU,
        compute=_halve,
    ),
    Step(
        chapter=_SECOND,
        title="CuPy takes it",
        code="array = cupy.asarray(blob.gpu)",
        place=Place.ACCELERATOR,
        head=Head.HEAD_AT_GPU,
        alias=Place.ACCELERATOR,
        needs=Library.CUPY,
    ),
    Step(
        chapter=_SECOND,
        title="CuPy lets go",
        code="del array",
        head=Head.HEAD_AT_GPU,
        needs=Library.CUPY,
    ),
    Step(
        chapter=_SECOND,
        title="NumPy reads",
        code="weights = np.asarray(blob)",
        place=Place.HOST,
        moves=("download",),
        head=Head.SYNCED,
    ),
    Step(
        chapter=_THIRD,
        title="torch takes it",
        code="tensor = torch.from_dlpack(blob)",
        place=Place.ACCELERATOR,
        head=Head.HEAD_AT_GPU,
        alias=Place.ACCELERATOR,
        needs=Library.TORCH_ON_ACCELERATOR,
    ),
    Step(
        chapter=_THIRD,
        title="NumPy reads",
        code="weights = np.asarray(blob)",
        place=Place.HOST,
        moves=("download",),
        head=Head.HEAD_AT_GPU,
        alias=Place.ACCELERATOR,
        needs=Library.TORCH_ON_ACCELERATOR,
    ),
    Step(
        chapter=_THIRD,
        title="torch computes",
        code="tensor.mul_(2)",
        head=Head.HEAD_AT_GPU,
        alias=Place.ACCELERATOR,
        compute=_double,
        needs=Library.TORCH_ON_ACCELERATOR,
    ),
    Step(
        chapter=_THIRD,
        title="NumPy sees it",
        code="weights = np.asarray(blob)",
        place=Place.HOST,
        moves=("download",),
        head=Head.HEAD_AT_GPU,
        alias=Place.ACCELERATOR,
        needs=Library.TORCH_ON_ACCELERATOR,
    ),
    Step(
        chapter=_THIRD,
        title="torch lets go",
        code="del tensor",
        head=Head.HEAD_AT_GPU,
        needs=Library.TORCH_ON_ACCELERATOR,
    ),
    Step(
        chapter=_THIRD,
        title="NumPy reads",
        code="weights = np.asarray(blob)",
        place=Place.HOST,
        moves=("download",),
        head=Head.SYNCED,
        needs=Library.TORCH_ON_ACCELERATOR,
    ),
    Step(
        chapter=_THIRD,
        title="NumPy again",
        code="weights = np.asarray(blob)",
        place=Place.HOST,
        head=Head.SYNCED,
        needs=Library.TORCH_ON_ACCELERATOR,
    ),
    Step(
        chapter=_FOURTH,
        title="NumPy writes",
        code="weights = blob.mutable_cpu_data(); weights += 1",
        place=Place.HOST,
        head=Head.HEAD_AT_CPU,
        compute=_raise,
    ),
    Step(
        chapter=_FOURTH,
        title="torch takes it",
        code="tensor = torch.from_dlpack(blob.cpu)",
        place=Place.HOST,
        head=Head.HEAD_AT_CPU,
        alias=Place.HOST,
        needs=Library.TORCH,
    ),
    Step(
        chapter=_FOURTH,
        title="torch computes",
        code="tensor.mul_(0.5); seen = np.asarray(blob)",
        place=Place.HOST,
        head=Head.HEAD_AT_CPU,
        alias=Place.HOST,
        compute=_halve,
        needs=Library.TORCH,
    ),
    Step(
        chapter=_FOURTH,
        title="torch lets go",
        code="del tensor",
        head=Head.HEAD_AT_CPU,
        needs=Library.TORCH,
    ),
    Step(
        chapter=_FIFTH,
        title="accelerator reads",
        code="gpu = blob.gpu_data()",
        place=Place.ACCELERATOR,
        moves=("upload",),
        head=Head.SYNCED,
    ),
    Step(
        chapter=_FIFTH,
        title="torch only reads",
        code="tensor = torch.from_dlpack(blob.cpu.const)",
        place=Place.HOST,
        head=Head.SYNCED,
        needs=Library.TORCH,
        # Read-only capsules came with DLPack 1.0, and to torch after 2.7.
        refusable=True,
    ),
    Step(
        chapter=_FIFTH,
        title="gradient written",
        code="blob.diff[...] = 0.1 * np.asarray(blob)",
        moves=("upload",),
        head=Head.SYNCED,
    ),
    Step(
        chapter=_FIFTH,
        title="update",
        code="blob.update()",
        head=Head.HEAD_AT_GPU,
        compute=_decay,
    ),
    Step(
        chapter=_FIFTH,
        title="NumPy reads",
        code="weights = np.asarray(blob)",
        place=Place.HOST,
        moves=("download",),
        head=Head.SYNCED,
    ),
)
