"""How a Blob lies in memory, as ndarray's ``flags`` say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncblob.blob.core import BlobCore

__all__ = ["Flags", "flags_of"]


@dataclass(frozen=True)
class Flags:
    """How data lies in memory, by NumPy's names. The fields cannot be set."""

    c_contiguous: bool
    """Whether the elements follow each other in C order."""
    f_contiguous: bool
    """Whether they do in Fortran order."""
    owndata: bool
    """Whether this is no view."""
    writeable: bool
    """Whether this is not const."""
    aligned: bool
    """Whether the elements lie at multiples of their alignment."""

    @property
    def fnc(self) -> bool:
        """Whether the elements follow each other in Fortran order, and not in C order."""
        return self.f_contiguous and not self.c_contiguous

    def __getitem__(self, name: str) -> bool:
        """Return a flag by NumPy's name: ``"C_CONTIGUOUS"`` …."""
        flag: bool = getattr(self, name.lower())
        return flag


def flags_of(blob: BlobCore) -> Flags:
    """Return how a Blob lies in memory. Nothing moves."""
    layout = blob._layout
    backwards = blob._derived(lambda a: a.transpose())._layout
    return Flags(
        layout.contiguous,
        backwards.contiguous,
        blob._base is None,
        not blob._readonly,
        all(step % layout.dtype.alignment == 0 for step in (layout.offset, *layout.strides)),
    )
