"""Names of Blobs: the names of their memories in the log and in `explain`."""

import pickle

import pytest

import syncblob
from syncblob import Blob


def named(name="weights"):
    return Blob((2, 3), device="simulated", name=name)


def test_a_blob_has_none_unless_it_is_given_one():
    assert Blob(3).name == Blob.asarray([1, 2]).name == (Blob(3) + 1).name == ""
    blob = Blob(3, name="weights")
    assert blob.name == blob.memory.name == "weights"
    blob.name = "bias"
    assert blob.name == blob.memory.name == "bias"


def test_views_and_blobs_that_share_data_have_it_in_common():
    blob, other = named(), Blob((3, 2))
    other.share_data(blob)
    for view in (blob[0], blob.T, blob.const, blob.data, blob.on("cpu"), other):
        assert view.name == "weights"
    blob[0].name = "first"
    assert blob.name == other.name == "first"


def test_the_gradient_has_it_too_whenever_it_was_made():
    blob = named()
    assert blob.diff.name == "weights"
    blob.name = "bias"
    assert blob.diff.name == blob[0].diff.name == "bias"


def test_a_resize_keeps_it():
    blob = named()
    blob.resize(1)
    assert blob.name == "weights"
    blob.resize(1000)
    assert blob.name == "weights"
    assert blob.diff.name == "weights"


@pytest.mark.parametrize("touched", [False, True])
def test_copies_results_and_pickles_are_other_blobs(touched):
    blob = named()
    if touched:
        blob[...] = 1
    for other in (
        blob.copy(),
        blob + 1,
        blob.astype("float64"),
        blob.to_device("cpu"),
        blob.reshape(6, copy=True),
        syncblob.asarray(blob, copy=True),
        pickle.loads(pickle.dumps(blob)),
    ):
        assert other.name == ""
        other.name = "other"
    assert blob.name == "weights"
