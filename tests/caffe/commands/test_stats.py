"""Minimum, mean, maximum and standard deviation, compared with exact arithmetic."""

import io
import json
import math
import tempfile
from contextlib import redirect_stdout
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncblob.caffe.commands import main


def stats(values, dtype="float64"):
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as printed:
        path = Path(folder, "x.npz")
        np.savez(path, a=np.array(values, dtype))
        assert main(["inspect", str(path), "--stats", "--json"]) == 0
    return json.loads(printed.getvalue())["layers"][0]["blobs"][0]["stats"]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30))
def test_against_exact_fractions(values):
    found = stats(values)
    finite = [Fraction(value) for value in values if math.isfinite(value)]
    assert found["non_finite"] == len(values) - len(finite)
    if not finite:
        assert set(found.values()) == {None, len(values)}
        return
    assert found["min"] == min(finite)
    assert found["max"] == max(finite)
    mean = sum(finite) / len(finite)
    variance = sum((value - mean) ** 2 for value in finite) / len(finite)
    # Relative to the largest value, but at least the resolution of float64 near zero.
    largest = max(map(abs, finite)) or Fraction(1)
    slack = largest / 10**13 + Fraction(5e-324)
    assert abs(Fraction(found["mean"]) - mean) <= slack
    assert (
        abs(Fraction(found["std"]) - largest * Fraction(math.sqrt(variance / largest**2))) <= slack
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_against_numpy_over_several_blocks(dtype):
    values = np.random.default_rng(0).normal(3, 2, (1000, 1000)).astype(dtype)
    values[0, 0], values[-1, -1], values[2] = np.nan, np.inf, -np.inf
    found = stats(values, dtype)
    finite = values[np.isfinite(values)].astype(np.float64)
    assert found["non_finite"] == 1002
    assert found["min"] == finite.min()
    assert found["max"] == finite.max()
    assert found["mean"] == pytest.approx(finite.mean(), rel=1e-14)
    assert found["std"] == pytest.approx(finite.std(), rel=1e-14)
