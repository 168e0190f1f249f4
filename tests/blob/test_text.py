"""``str`` of a Blob: NumPy's text of the elements that it shows, or why there are none."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_blobs import CPU, DTYPES, GPU, SYNCED, blob_in, values

import syncblob
from syncblob import Blob
from syncblob.blob import text


def texts(array):
    """Return our text and NumPy's, and how often each element was read."""
    seen = np.zeros(array.shape, int)

    def read(_, key):
        seen[key] += 1
        return array[(*key, ...)].copy()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_read", read)
        return str(Blob.asarray(array)), str(array), seen


def shown(shape, edge):
    """Mark the elements that NumPy shows of an array that it summarises."""
    mask = np.ones(shape, int)
    for axis, dim in enumerate(shape):
        if dim > 2 * edge:
            mask[(*[slice(None)] * axis, slice(edge, dim - edge))] = 0
    return mask


# --- the text ------------------------------------------------------------------------------------

# NumPy's format of an element depends on the others, which are of many magnitudes here.
OPTIONS = st.fixed_dictionaries(
    {"edgeitems": st.integers(0, 4), "threshold": st.integers(0, 40) | st.just(math.inf)},
    optional={
        "precision": st.integers(0, 12),
        "linewidth": st.integers(1, 100),
        "floatmode": st.sampled_from(["fixed", "unique", "maxprec", "maxprec_equal"]),
        "formatter": st.just({"all": lambda x: f"<{x}>"}),
    },
)
# Short and long axes for every number of edge items.
SHAPES = st.lists(st.integers(0, 12), max_size=4).map(tuple)


@settings(max_examples=200)
@given(shape=SHAPES, dtype=st.sampled_from(DTYPES), seed=st.integers(0, 2**32), options=OPTIONS)
@example(shape=(), dtype="float64", seed=0, options={"threshold": 0, "edgeitems": 3})
@example(shape=(), dtype="float32", seed=1, options={"legacy": "1.13"})
@example(shape=(0, 3), dtype="bool", seed=0, options={"threshold": 0, "edgeitems": 3})
def test_the_text_is_numpys_from_the_elements_that_it_shows(shape, dtype, seed, options):
    random = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        array = random.normal(size=shape) * 10.0 ** random.integers(-8, 9, shape)
        array = np.asarray(array).astype(Blob((), dtype).dtype)
    with np.printoptions(**options) as now:
        ours, expected, seen = texts(array)
    assert ours == expected
    edge, summarised = now["edgeitems"], shape and math.prod(shape) > now["threshold"]
    assert (seen == (shown(shape, edge) if summarised and edge else 1)).all()


def test_what_is_not_shown_has_no_part_in_the_width_of_the_columns():
    array = np.full(2000, 1.5)
    array[[5, 1000]] = 1e300, np.nan
    assert {*texts(array)[:2]} == {"[1.5 1.5 1.5 ... 1.5 1.5 1.5]"}


def test_fewer_edge_items_than_one_are_left_to_numpy():
    with np.printoptions(threshold=3, edgeitems=-2):
        ours, expected, _ = texts(np.arange(10))
    assert ours == expected


# --- Blobs ---------------------------------------------------------------------------------------


def test_repr_moves_nothing_and_shows_no_values(simulated):
    blob = blob_in(GPU)
    simulated.reset_counts()
    described = "Blob(shape=(2, 3), dtype=float32, device=simulated:0, head=HEAD_AT_GPU)"
    assert repr(blob) == f"{blob!r}" == described
    assert (simulated.downloads, blob.head) == (0, GPU)


def test_other_formats_are_for_blobs_without_axes():
    with pytest.raises(TypeError, match="0-d Blob"):
        format(blob_in(GPU), ".2f")


# --- where nothing may be read -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guard", "reason"),
    [
        (syncblob.no_transfers, "no transfers allowed here"),
        (lambda: syncblob.max_transfers(bytes=3), "at most 3 bytes allowed here"),
        (lambda: syncblob.max_transfers(count=0), "no transfers allowed here"),
    ],
)
@pytest.mark.parametrize("shape", [(), (2, 3), (40, 50)])
def test_where_a_guard_forbids_it_the_values_are_not_shown(simulated, guard, reason, shape):
    blob = blob_in(GPU, "float32", shape)
    simulated.reset_counts()
    with guard() as limit:
        shown = str(blob), f"{blob}", str(blob.const)
    described = f"Blob(shape={shape}, dtype=float32, device=simulated:0, head=HEAD_AT_GPU"
    assert shown == (
        f"{described}; values not shown: {reason})",
        f"{described}; values not shown: {reason})",
        f"{described}, const; values not shown: {reason})",
    )
    assert (simulated.downloads, limit.count, blob.head) == (0, 0, GPU)
    assert str(blob) == str(values("float32", shape))


@pytest.fixture
def capturing(simulated, monkeypatch):
    """Pretend that the simulated device is capturing a graph, as CUDA devices can."""
    monkeypatch.setattr(type(simulated), "capturing", property(lambda _: True))


@pytest.mark.usefixtures("capturing")
def test_during_a_capture_nothing_is_read_from_the_accelerator(simulated):
    blob = blob_in(GPU)
    simulated.reset_counts()
    result = blob + 1
    for moved in (blob, result, blob[0].const):
        const = ", const" if moved.ndim == 1 else ""
        where = "dtype=float32, device=simulated:0, head=HEAD_AT_GPU"
        why = "values not shown: simulated:0 is capturing a graph"
        assert str(moved) == f"{moved}" == f"Blob(shape={moved.shape}, {where}{const}; {why})"
    assert (simulated.downloads, blob.head) == (0, GPU)


@pytest.mark.usefixtures("capturing")
@pytest.mark.parametrize("head", [CPU, SYNCED])
def test_what_the_host_has_is_shown_during_a_capture(head):
    assert str(blob_in(head)) == str(values())
    assert str(blob_in(GPU, "float32", (0,))) == "[]"
    assert str(syncblob.arange(3, device="cpu")) == "[0 1 2]"


@pytest.mark.gpu
def test_a_capture_on_a_cuda_device():
    import cupy

    blob = Blob(3, device="cuda:0")
    blob.mutable_gpu_data()[...] = 1
    backend = blob.memory.accelerator
    assert not backend.capturing
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        capturing, shown = backend.capturing, str(blob)
        stream.end_capture()
    assert capturing
    assert shown.endswith("; values not shown: cuda:0 is capturing a graph)")
    assert str(blob) == "[1. 1. 1.]"
