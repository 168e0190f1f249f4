"""Constants (array API standard 2025.12): Python floats, and None under the name ``newaxis``.

https://data-apis.org/array-api/2025.12/API_specification/constants.html
"""

from __future__ import annotations

import math

__all__ = ["e", "inf", "nan", "newaxis", "pi"]

e: float = math.e
inf: float = math.inf
nan: float = math.nan
newaxis: None = None
pi: float = math.pi
