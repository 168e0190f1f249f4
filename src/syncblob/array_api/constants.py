"""Constants: Python floats, and None under the name ``newaxis``."""

from math import e, inf, nan, pi

__all__ = ["e", "inf", "nan", "newaxis", "pi"]

newaxis: None = None
