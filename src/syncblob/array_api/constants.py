"""Constants (array API standard 2025.12): Python floats, and None under the name ``newaxis``.

https://data-apis.org/array-api/2025.12/API_specification/constants.html
"""

from math import e, inf, nan, pi

__all__ = ["e", "inf", "nan", "newaxis", "pi"]

newaxis: None = None
