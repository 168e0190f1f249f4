"""Arrays of any shape, dtype and strides are unchanged after a round trip of any kind."""

import copy  # noqa: F401  # for the texts
import pickle

import numpy as np
import pytest
from call_texts import functions
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy

import syncblob as xp
from syncblob import Blob, record_transfers

try:
    import torch
except ImportError:
    torch = None

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


def placed(array, where):
    """Make a Blob on the simulated device with a copy of an array as its newest contents.

    They are on the host, on the device, or half of them there; or the Blob is a view with gaps.
    """
    wide = (*array.shape, 2) if where == "view" else array.shape
    blob = Blob(wide, array.dtype, device="simulated")
    if where == "view":
        blob = blob[..., 0]
    if where == "host":
        blob.mutable_cpu_data()[...] = array
    else:
        blob.mutable_gpu_data()[...] = array
    if where == "halves":
        half = blob.reshape(-1)[blob.size // 2 :]
        half.mutable_cpu_data()[...] = array.reshape(-1)[blob.size // 2 :]
    return blob


WAYS = functions(
    """
    np.asarray(blob); np.from_dlpack(blob); np.from_dlpack(blob.cpu);
    np.from_dlpack(blob.on('cpu')); np.from_dlpack(blob.const); np.asarray(blob.cpu);
    np.asarray(blob.gpu); pickle.loads(pickle.dumps(blob, 5)).cpu_data();
    pickle.loads(pickle.dumps(blob, 4)).cpu_data(); copy.deepcopy(blob).cpu_data();
    np.array(blob.tolist(), blob.dtype).reshape(blob.shape); np.array(blob);
    blob.to_device('cpu').cpu_data(); blob.to_device('simulated:1').cpu_data();
    blob.astype(blob.dtype).cpu_data(); xp.asarray(blob, copy=True).cpu_data();
    xp.from_dlpack(blob).cpu_data(); xp.asarray(np.asarray(blob.cpu),
    device='simulated').gpu_data(); np.frombuffer(blob.tobytes(), blob.dtype).reshape(blob.shape)
    """,
    "blob",
    globals(),
)
if torch is not None:
    WAYS["to_torch"] = lambda blob: blob.to_torch().numpy()
    WAYS["a tensor adopted"] = lambda blob: xp.asarray(blob.to_torch()).cpu_data()


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=20)
@given(array=arrays(), where=st.sampled_from(["host", "device", "halves", "view"]))
def test_what_goes_in_comes_out(way, array, where):
    blob = placed(array, where)
    out = WAYS[way](blob)
    assert (out.shape, out.dtype) == (array.shape, array.dtype)
    assert np.array_equal(out, array)
    assert np.array_equal(blob.cpu_data(), array)


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


@settings(max_examples=40)
@given(array=arrays())
def test_an_export_of_what_is_up_to_date_moves_nothing(array):
    blob = placed(array, "host")
    with record_transfers() as log:
        np.asarray(blob)
        np.from_dlpack(blob.cpu)
        np.from_dlpack(blob.on("cpu"))
        blob.tobytes()
    assert len(log) == 0
    blob = placed(array, "device")
    with record_transfers() as log:
        np.from_dlpack(blob)
        np.asarray(blob.gpu)
    assert len(log) == 0
