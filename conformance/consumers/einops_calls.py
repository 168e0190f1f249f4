"""Calls of einops: its array API functions, and its own functions."""

from __future__ import annotations

import einops
from einops import array_api

import syncblob.interop.einops  # noqa: F401  # the functions outside array_api need its backend
from conformance.consumers.calls import call
from conformance.consumers.inputs import CUBE, MATRIX, SYMMETRIC

__all__ = ["CALLS"]

CALLS = [
    call("array_api.pack", lambda a: array_api.pack([a, a[:, 0]], "a * c")[0], CUBE),
    call("array_api.rearrange", array_api.rearrange, CUBE, "a b c -> c (a b)"),
    call(
        "array_api.rearrange list",
        lambda a: array_api.rearrange([a, a], "n a b c -> a n b c"),
        CUBE,
    ),
    call("array_api.reduce max", array_api.reduce, CUBE, "a (b 3) c -> a b", "max"),
    call("array_api.reduce mean", array_api.reduce, CUBE, "a b c -> b", "mean"),
    call("array_api.repeat", array_api.repeat, CUBE, "a b c -> a (b r) c", r=2),
    call("array_api.unpack", lambda a: array_api.unpack(a, [(2,), ()], "a * c"), CUBE),
    call("asnumpy", einops.asnumpy, CUBE),
    call("einsum", lambda a, b: einops.einsum(a, b, "i j, j k -> i k"), MATRIX, SYMMETRIC),
    call("pack", lambda a: einops.pack([a, a[:, 0]], "a * c")[0], CUBE),
    call("parse_shape", lambda a: einops.parse_shape(a, "a _ c"), CUBE),
    call("rearrange", einops.rearrange, CUBE, "a b c -> c (a b)"),
    call("rearrange list", lambda a: einops.rearrange([a, a], "n a b c -> a n b c"), CUBE),
    call("reduce mean", einops.reduce, CUBE, "a b c -> b", "mean"),
    call("reduce prod", einops.reduce, CUBE, "a b c -> a c", "prod"),
    call("repeat", einops.repeat, CUBE, "a b c -> a (b r) c", r=2),
    call("unpack", lambda a: einops.unpack(a, [(2,), ()], "a * c"), CUBE),
]
