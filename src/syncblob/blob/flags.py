"""Flags: the memory layout and writability of a Blob, like ndarray's ``flags``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from syncblob.blob.core import BlobCore

# The names that NumPy shows, with the bits of `num`.
_BITS = {
    "c_contiguous": 1,
    "f_contiguous": 2,
    "owndata": 4,
    "writeable": 0x400,
    "aligned": 0x100,
    "writebackifcopy": 0x2000,
}

# fmt: off
_SHORT = {
    "C": "c_contiguous", "F": "f_contiguous", "O": "owndata", "W": "writeable", "A": "aligned",
    "X": "writebackifcopy", "B": "behaved", "CA": "carray", "FA": "farray",
}
# fmt: on


def _flag(value: Callable[[Flags], bool], description: str) -> Any:
    return property(value, doc=f"Whether {description}.")


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
    def aligned(self) -> bool:
        """Whether the elements are aligned for their dtype."""
        layout = self._blob._layout
        return layout.aligned(layout.dtype)

    contiguous: Final[bool] = c_contiguous  # type: ignore[assignment]  # the same property
    fortran: Final[bool] = f_contiguous  # type: ignore[assignment]  # the same property
    fnc: Final[bool] = _flag(
        lambda flags: flags.f_contiguous and not flags.c_contiguous,
        "the elements are contiguous in Fortran order, but not in C order",
    )
    forc: Final[bool] = _flag(
        lambda flags: flags.c_contiguous or flags.f_contiguous,
        "the elements are contiguous in C or Fortran order",
    )
    behaved: Final[bool] = _flag(
        lambda flags: flags.aligned and flags.writeable, "`aligned` and `writeable` are True"
    )
    carray: Final[bool] = _flag(
        lambda flags: flags.behaved and flags.c_contiguous, "`behaved` and `c_contiguous` are True"
    )
    farray: Final[bool] = _flag(
        lambda flags: flags.behaved and flags.fnc, "`behaved` and `fnc` are True"
    )
    writebackifcopy: Final[bool] = _flag(
        lambda _flags: False, "writes go to another array later; always False"
    )

    @property
    def owndata(self) -> bool:
        """Whether this Blob is not a view."""
        return self._blob._base is None

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

    @property
    def num(self) -> int:
        """All flags in one number, as NumPy has them."""
        return sum(bit for name, bit in _BITS.items() if self[name])

    def __getitem__(self, name: str) -> bool:
        """Return a flag by one of NumPy's names: ``"C_CONTIGUOUS"``, ``"C"`` …."""
        attribute = _SHORT.get(name, name.lower())
        if attribute == "num" or not isinstance(vars(Flags).get(attribute), property):
            raise KeyError(f"expected one of {', '.join(_BITS)}, got {name!r}")
        return bool(getattr(self, attribute))

    def __setitem__(self, name: str, value: bool) -> None:
        """Set ``flags["WRITEABLE"]``."""
        if _SHORT.get(name, name.lower()) != "writeable":
            raise KeyError(f"expected WRITEABLE, the only flag that can be set, got {name!r}")
        self.writeable = value

    def __repr__(self) -> str:
        """Return one line for each flag, as NumPy does."""
        return "\n".join(f"  {name.upper()} : {self[name]}" for name in _BITS)
