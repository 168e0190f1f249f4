"""Flags: the memory layout and writability of a Blob, like ndarray's ``flags``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncblob.blob.core import BlobCore


class Flags:
    """The memory layout and writability of a Blob, under NumPy's names. Causes no transfer.

    ``writeable`` can be set to False: this makes the Blob, and views taken later, const; views
    taken earlier stay writable. Setting it to True raises a ValueError if the Blob is const.
    ``owndata`` tells whether the Blob is not a view. ``flags["C_CONTIGUOUS"]`` equals
    ``flags.c_contiguous``.
    """

    __slots__ = ("_blob",)

    c_contiguous: bool
    f_contiguous: bool
    aligned: bool
    owndata: bool
    writeable: bool

    def __init__(self, blob: BlobCore) -> None:
        object.__setattr__(self, "_blob", blob)

    def __getattr__(self, name: str) -> Any:
        """Return a flag by its attribute's name."""
        if name.startswith("_"):
            raise AttributeError(name)
        return self._blob.base is None if name == "owndata" else getattr(self._of_array(), name)

    def __setattr__(self, name: str, value: bool) -> None:
        """Set `writeable`, the only flag that can be set."""
        if name != "writeable":
            raise AttributeError(f"expected writeable, the only flag that can be set, got {name!r}")
        if value:
            self._blob.require_writable("flags.writeable = True")
        else:
            self._blob.make_const()

    def _of_array(self) -> Any:
        """Return the flags of an ndarray with this layout and writability."""
        array = self._blob.layout.dummy()
        array.flags.writeable = not self._blob.readonly
        return array.flags

    def __getitem__(self, name: str) -> bool:
        """Return a flag by NumPy's name: ``"C_CONTIGUOUS"``, ``"C"`` …."""
        flag: bool = self.owndata if name in {"O", "OWNDATA"} else self._of_array()[name]
        return flag

    def __repr__(self) -> str:
        """Return one line for each flag, as NumPy does."""
        owned = f"OWNDATA : {self.owndata}"
        return re.sub("OWNDATA : [A-Za-z]+", owned, repr(self._of_array()).rstrip())
