"""The operators of the array API: elementwise, except ``@``.

Each returns a new Blob, computed on the accelerator if one of the operands is there. The other
operand may be a Python scalar or an array of any library, on either side of the operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from syncblob import _corrected as corrected
from syncblob._made_functions import name_made_functions
from syncblob.blob.core import AnyBlob, BlobCore
from syncblob.calls.elementwise import plans_in_place, plans_of_kernel, plans_of_operator

if TYPE_CHECKING:
    from collections.abc import Callable


class _OfOne:
    """An operator of one Blob. A method takes its place as soon as it has a name."""

    def __init__(self, kernel: Callable[..., Any], text: str) -> None:
        self._kernel: Callable[..., Any] = kernel
        self._text: str = text

    def __set_name__(self, owner: type, name: str) -> None:
        plans = plans_of_kernel(self._kernel)

        def operator(self: Any) -> Any:
            return plans[type(self)](self)

        operator.__doc__ = f"Return ``{self._text}``."
        setattr(owner, name, operator)

    if TYPE_CHECKING:

        def __get__(self, blob: AnyBlob, owner: Any, /) -> Callable[[], AnyBlob]: ...


class _OfTwo:
    """An operator of a Blob and another operand: itself, reflected or in place by its name."""

    def __init__(self, name: str, kernel: Callable[..., Any], sign: str) -> None:
        # Python's name, such as "add".
        self._name: str = name
        self._kernel: Callable[..., Any] = kernel
        self._sign: str = sign

    def __set_name__(self, owner: type, name: str) -> None:
        reflected, in_place = name == f"__r{self._name}__", name == f"__i{self._name}__"
        sign, kernel = self._sign, self._kernel
        if in_place:
            plans = plans_in_place(self._name, kernel)
        else:
            plans = plans_of_operator(self._name, kernel, mirrored=reflected)

        def operator(self: Any, other: Any, /) -> Any:
            return plans[type(other)](self, other)

        def mirrored(self: Any, other: Any, /) -> Any:
            return plans[type(other)](other, self)

        text = f"other {sign} self" if reflected else f"self {sign} other"
        method = mirrored if reflected else operator
        method.__doc__ = f"Compute ``self {sign}= other``." if in_place else f"Return ``{text}``."
        setattr(owner, name, method)

    if TYPE_CHECKING:

        def __get__(self, blob: AnyBlob, owner: Any, /) -> Callable[[Any], AnyBlob]: ...


class Operators(BlobCore):
    """The operators. In-place operators keep dtype and shape, and need no temporary array."""

    __slots__ = ()

    # Not hashable, because contents change and ``==`` is elementwise.
    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as Python documents it

    __neg__ = _OfOne(np.negative, "-self")
    __pos__ = _OfOne(np.positive, "+self")
    __abs__ = _OfOne(np.absolute, "abs(self)")
    __invert__ = _OfOne(np.invert, "~self")

    __eq__ = _OfTwo("eq", np.equal, "==")  # type: ignore[assignment]  # elementwise, as in NumPy
    __ne__ = _OfTwo("ne", np.not_equal, "!=")  # type: ignore[assignment]  # as ``==``
    __lt__ = _OfTwo("lt", np.less, "<")
    __le__ = _OfTwo("le", np.less_equal, "<=")
    __gt__ = _OfTwo("gt", np.greater, ">")
    __ge__ = _OfTwo("ge", np.greater_equal, ">=")

    __add__ = __radd__ = __iadd__ = _OfTwo("add", np.add, "+")
    __sub__ = __rsub__ = __isub__ = _OfTwo("sub", np.subtract, "-")
    __mul__ = __rmul__ = __imul__ = _OfTwo("mul", np.multiply, "*")
    __truediv__ = __rtruediv__ = __itruediv__ = _OfTwo("truediv", np.true_divide, "/")
    __floordiv__ = __rfloordiv__ = __ifloordiv__ = _OfTwo("floordiv", corrected.floor_divide, "//")
    __mod__ = __rmod__ = __imod__ = _OfTwo("mod", corrected.remainder, "%")
    __matmul__ = __rmatmul__ = _OfTwo("matmul", np.matmul, "@")
    __imatmul__ = _OfTwo("matmul", corrected.matmul, "@")
    __and__ = __rand__ = __iand__ = _OfTwo("and", np.bitwise_and, "&")
    __or__ = __ror__ = __ior__ = _OfTwo("or", np.bitwise_or, "|")
    __xor__ = __rxor__ = __ixor__ = _OfTwo("xor", np.bitwise_xor, "^")
    __lshift__ = __rlshift__ = __ilshift__ = _OfTwo("lshift", np.left_shift, "<<")
    __rshift__ = __rrshift__ = __irshift__ = _OfTwo("rshift", np.right_shift, ">>")
    # It takes no modulus, like NumPy's.
    __pow__ = __rpow__ = __ipow__ = _OfTwo("pow", corrected.power, "**")

    def __divmod__(self, other: Any, /) -> tuple[Self, Self]:
        """Return the floored quotient and the remainder: ``(self // other, self % other)``."""
        return self // other, self % other

    def __rdivmod__(self, other: Any, /) -> tuple[Self, Self]:
        """Return the floored quotient and the remainder: ``(other // self, other % self)``."""
        return other // self, other % self


name_made_functions(vars(Operators), "Blob")
