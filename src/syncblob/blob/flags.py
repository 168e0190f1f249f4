"""Flags: the memory layout and writability of a Blob, like ndarray's ``flags``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncblob.blob.core import BlobCore

_SHOWN = ("c_contiguous", "f_contiguous", "owndata", "writeable", "aligned", "writebackifcopy")

# NumPy's bit for OWNDATA in `num`.
_OWNDATA = 4


class Flags:
    """The memory layout and writability of a Blob, under NumPy's names. Causes no transfer.

    ``writeable`` can be set to False. ``flags["C_CONTIGUOUS"]`` equals ``flags.c_contiguous``.
    NumPy's other names, such as ``forc``, ``behaved`` and ``num``, have NumPy's values.
    """

    __slots__ = ("_blob",)

    def __init__(self, blob: BlobCore) -> None:
        self._blob = blob

    @property
    def c_contiguous(self) -> bool:
        """Whether the elements are contiguous in C order."""
        return self._blob.layout.contiguous

    @property
    def f_contiguous(self) -> bool:
        """Whether the elements are contiguous in Fortran order."""
        return self._of_array().f_contiguous

    @property
    def owndata(self) -> bool:
        """Whether this Blob is not a view."""
        return self._blob.base is None

    @property
    def aligned(self) -> bool:
        """Whether the elements are aligned for their dtype."""
        layout = self._blob.layout
        return layout.aligned(layout.dtype)

    @property
    def writeable(self) -> bool:
        """Whether this Blob is not const.

        Setting it to False makes this Blob, and views taken later, const; views taken earlier stay
        writable. Setting it to True raises a ValueError if the Blob is const.
        """
        return not self._blob.readonly

    @writeable.setter
    def writeable(self, value: bool) -> None:
        if value:
            self._blob.require_writable("flags.writeable = True")
        else:
            self._blob.make_const()

    @property
    def num(self) -> int:
        """All flags in one number."""
        return self._of_array().num | _OWNDATA * self.owndata

    def __getattr__(self, name: str) -> bool:
        """Return another flag of NumPy's."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._of_array(), name)

    def _of_array(self) -> Any:
        """Return the flags of an ndarray with this layout and writability."""
        array = self._blob.layout.dummy()
        array.flags.writeable = self.writeable
        return array.flags

    def __getitem__(self, name: str) -> bool:
        """Return a flag by NumPy's name: ``"C_CONTIGUOUS"``, ``"C"`` …."""
        name = name.upper()
        try:
            return self.owndata if name in {"O", "OWNDATA"} else self._of_array()[name]
        except KeyError:
            raise KeyError(f"expected one of {', '.join(_SHOWN)}, got {name!r}") from None

    def __setitem__(self, name: str, value: bool) -> None:
        """Set ``flags["WRITEABLE"]``."""
        if name.upper() not in {"W", "WRITEABLE"}:
            raise KeyError(f"expected WRITEABLE, the only flag that can be set, got {name!r}")
        self.writeable = value

    def __repr__(self) -> str:
        """Return one line for each flag, as NumPy does."""
        return "\n".join(f"  {name.upper()} : {getattr(self, name)}" for name in _SHOWN)
