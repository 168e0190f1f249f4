"""Flags: the memory layout and writability of a Blob, like ndarray's ``flags``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncblob.blob.core import BlobCore

_NAMES = ("c_contiguous", "f_contiguous", "owndata", "writeable", "aligned", "fnc")


class Flags:
    """The memory layout and writability of a Blob, under NumPy's names. Causes no transfer.

    ``writeable`` can be set to False. ``flags["C_CONTIGUOUS"]`` equals ``flags.c_contiguous``.
    """

    __slots__ = ("_blob",)

    def __init__(self, blob: BlobCore) -> None:
        self._blob = blob

    @property
    def c_contiguous(self) -> bool:
        """Whether the elements are contiguous in C order."""
        return self._blob._layout.contiguous

    @property
    def f_contiguous(self) -> bool:
        """Whether the elements are contiguous in Fortran order."""
        return self._blob._derived(lambda a: a.transpose())._layout.contiguous

    @property
    def fnc(self) -> bool:
        """Whether the elements are contiguous in Fortran order, but not in C order."""
        return self.f_contiguous and not self.c_contiguous

    @property
    def owndata(self) -> bool:
        """Whether this Blob is not a view."""
        return self._blob._base is None

    @property
    def aligned(self) -> bool:
        """Whether the elements are aligned for their dtype."""
        layout = self._blob._layout
        return layout.aligned(layout.dtype)

    @property
    def writeable(self) -> bool:
        """Whether this Blob is not const.

        Setting it to False makes this Blob, and views taken later, const; views taken earlier stay
        writable. Setting it to True raises a ValueError if the Blob is const.
        """
        return not self._blob._readonly

    @writeable.setter
    def writeable(self, value: bool) -> None:
        if value:
            self._blob._require_writable("flags.writeable = True")
        else:
            self._blob._make_const()

    def __getitem__(self, name: str) -> bool:
        """Return a flag by NumPy's name: ``"C_CONTIGUOUS"`` …."""
        if name.lower() not in _NAMES:
            raise KeyError(f"expected one of {', '.join(_NAMES)}, got {name!r}")
        return getattr(self, name.lower())

    def __setitem__(self, name: str, value: bool) -> None:
        """Set ``flags["WRITEABLE"]``."""
        if name.lower() != "writeable":
            raise KeyError(f"expected WRITEABLE, the only flag that can be set, got {name!r}")
        self.writeable = value

    def __repr__(self) -> str:
        """Return one line for each flag, as NumPy does."""
        return "\n".join(f"  {name.upper()} : {self[name]}" for name in _NAMES[:-1])
