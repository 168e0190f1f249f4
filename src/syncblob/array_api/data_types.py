"""Data types: NumPy's scalar classes; float16 is an addition.

The dtype of a Blob is a ``numpy.dtype``, which equals its scalar class.
"""

# ruff: noqa: PLC0414  # exported

from numpy import bool as bool
from numpy import complex64 as complex64
from numpy import complex128 as complex128
from numpy import float16 as float16
from numpy import float32 as float32
from numpy import float64 as float64
from numpy import int8 as int8
from numpy import int16 as int16
from numpy import int32 as int32
from numpy import int64 as int64
from numpy import uint8 as uint8
from numpy import uint16 as uint16
from numpy import uint32 as uint32
from numpy import uint64 as uint64
