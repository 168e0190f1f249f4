"""Arrays of any shape, dtype and strides that a Blob adopts, or that processes share."""

import pickle

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy

import syncblob as xp
from syncblob import Blob

SHAPES = of_numpy.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
DTYPES = st.sampled_from("bool int8 uint16 int32 int64 float16 float32 float64 complex64".split())


@st.composite
def arrays(draw):
    """Draw an array: a dense one, or a view with any strides."""
    shape = draw(SHAPES)
    whole = np.arange(int(np.prod(shape))).reshape(shape).astype(draw(DTYPES))
    if not whole.ndim:
        return whole
    key = draw(of_numpy.basic_indices(shape, allow_newaxis=True, max_dims=5))
    view = np.asarray(whole[key])
    return view.transpose(draw(st.permutations(range(view.ndim))))


@settings(max_examples=40)
@given(array=arrays(), data=st.data())
def test_an_adopted_array_is_the_blobs_own_memory(array, data):
    blob = xp.asarray(array, device="simulated")
    if blob.size and np.shares_memory(np.asarray(blob), array):
        place = data.draw(st.integers(0, blob.size - 1))
        array[np.unravel_index(place, array.shape)] = 1
    assert np.array_equal(blob.gpu_data(), array)
    assert np.array_equal(blob.cpu_data(), array)


@given(shape=SHAPES.filter(all), dtype=DTYPES)
@settings(max_examples=20)
def test_shared_memory_holds_what_any_blob_holds(shape, dtype):
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    blob = Blob.in_shared_memory(shape, dtype, device="simulated")
    blob.mutable_gpu_data()[...] = array
    assert np.array_equal(pickle.loads(pickle.dumps(blob)).cpu_data(), array)
