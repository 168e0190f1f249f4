"""Comparisons of two files with any contents, in both directions."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy

from syncblob import Head, Layer
from syncblob.caffe.commands.diff import compare
from syncblob.caffe.convert import open_weights

SHAPES = of_numpy.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3)
BLOBS = of_numpy.arrays(np.float32, SHAPES)
LAYERS = st.lists(st.tuples(st.sampled_from("abc"), st.lists(BLOBS, max_size=2)), max_size=4)
MIRRORED = {"added": "removed", "removed": "added"}
_MAX = np.finfo("f8").max


def distance(one):
    return one.values, one.incomparable, one.maximum, one.relative


def named(layers):
    return [Layer(name, blobs=blobs) for name, blobs in layers]


@given(layers=LAYERS)
def test_a_file_is_the_same_as_itself(layers):
    found = list(compare(named(layers), named(layers), 0.0))
    assert len(found) == sum(len(blobs) for _, blobs in layers)
    assert all(one.status == "same" for one in found)
    assert all(distance(one) == (0, 0, 0, 0) for one in found)


@given(before=LAYERS, after=LAYERS, tolerance=st.sampled_from([0.0, 0.5, 1.0]))
def test_the_other_way_round_it_is_the_mirror_image(before, after, tolerance):
    there = compare(named(before), named(after), tolerance)
    back = compare(named(after), named(before), tolerance)
    described = {(one.layer, one.blob): (one.status, distance(one)) for one in there}
    mirrored = {
        (one.layer, one.blob): (MIRRORED.get(one.status, one.status), distance(one)) for one in back
    }
    assert described == mirrored


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # Differences are rounded, but equal is exact.
        (np.array([2**53]), np.array([2**53 + 1]), (1, 0, 0, 0)),
        (np.array([-(2**63)]), np.array([2**63 - 1]), (1, 0, 2**64, 2)),
        (np.array([2**64 - 1], "u8"), np.array([2**64 - 2], "u8"), (1, 0, 0, 0)),
        (np.array([True, False]), np.array([0, 3], "i1"), (2, 0, 3, 1)),
        (np.array([1 + 0j]), np.array([-1j]), (1, 0, 2**0.5, 2**0.5)),
        (np.array([1 + 1j], "c8"), np.array([1.0]), (1, 0, 1, 0.5**0.5)),
        (np.array([1.5], ml_dtypes.bfloat16), np.array([1], "i8"), (1, 0, 0.5, 1 / 3)),
        # The relative difference is rounded to 0.
        (np.array([1e300, 0.0]), np.array([1e300, 1e-300]), (1, 0, 1e-300, 0)),
        (np.array([0.0, -0.0]), np.array([-0.0, 0.0]), (0, 0, 0, 0)),
        (np.array([np.nan]), np.array([np.nan]), (0, 0, 0, 0)),
        (np.array([np.inf, 1]), np.array([np.inf, 1]), (0, 0, 0, 0)),
        (np.array([np.inf, 1]), np.array([-np.inf, 1]), (1, 1, None, None)),
        (np.array([np.nan, 4]), np.array([4.0, 5]), (2, 1, None, None)),
        (np.array([1e308]), np.array([-1e308]), (1, 0, _MAX, _MAX / 1e308)),
        (np.array([0.0]), np.array([5e-324]), (1, 0, 5e-324, 1)),
    ],
)
def test_values_of_any_dtypes_are_compared(before, after, expected):
    pair = (named([("a", [one])]) for one in (before, after))
    (found,) = compare(*pair, 0.0)
    assert found.status == ("changed" if expected[0] else "same")
    assert distance(found) == pytest.approx(expected)


def test_repeated_layers_have_names_of_their_own():
    one, two = np.zeros(1), np.ones(1)
    before = named([("a", [one]), ("a", [one]), ("a#2", [one])])
    after = named([("a", [one]), ("a", [two]), ("a#2", [one])])
    found = {one.layer: one.status for one in compare(before, after, 0.0)}
    assert found == {"a": "same", "a#2": "changed", "a#2#2": "same"}


def test_values_that_are_compared_are_not_kept(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.arange(1 << 18) % 7)
    sides = [[each.layer for each in open_weights(tmp_path / "x.npz").layers] for _ in range(2)]
    assert {one.status for one in compare(*sides, 0.0)} == {"same"}
    assert {layer.blobs[0].head for side in sides for layer in side} == {Head.UNINITIALIZED}
