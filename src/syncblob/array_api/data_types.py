"""Data types (array API standard 2025.12): NumPy's scalar classes; float16 is an addition.

https://data-apis.org/array-api/2025.12/API_specification/data_types.html

The dtype of a Blob is a ``numpy.dtype``, which equals its scalar class.
"""

from __future__ import annotations

from numpy import bool as bool  # noqa: PLC0414  # exported
from numpy import (
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

__all__ = [
    "bool",
    "complex64",
    "complex128",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
