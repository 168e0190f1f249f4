"""``str`` of a Blob: NumPy's text of the elements that it shows, or why there are none."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_blobs import CPU, DTYPES, GPU, PAIR, SYNCED, blob_in, values

import syncblob
from syncblob import Blob
from syncblob.blob import text

SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 1e-7, 123456789.0, 1e30, -0.1, 1e3]


def texts(array):
    """Return our text and NumPy's, and how often each element was read.

    Contradictory options are an error in both.
    """
    seen = np.zeros(array.shape, int)

    def read(_, key):
        seen[key] += 1
        return array[(*key, ...)].copy()

    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_read", read)
        for x in (Blob.asarray(array), array):
            try:
                found.append(str(x))
            except (TypeError, ValueError) as error:
                found.append(repr(error))
    return *found, seen


def shown(shape, edge):
    """Mark the elements that NumPy shows of an array that it summarises."""
    mask = np.ones(shape, int)
    for axis, dim in enumerate(shape):
        if dim > 2 * edge:
            mask[(*[slice(None)] * axis, slice(edge, dim - edge))] = 0
    return mask


def numbers(shape, dtype, seed, special):
    """Make numbers of many magnitudes, some of them not finite if the dtype has such values."""
    random = np.random.default_rng(seed)

    def real():
        scale = 10.0 ** random.integers(-8, 9, shape if seed % 2 else None)
        array = np.round(random.normal(size=shape) * scale, random.integers(0, 6))
        return np.where(random.random(shape) < special, random.choice(SPECIAL, shape), array)

    with np.errstate(all="ignore"):
        array = real().astype(Blob((), dtype).dtype)
        if array.dtype.kind == "c":
            array.imag = real()
    return array


# --- the text ------------------------------------------------------------------------------------

FORMATTERS = [
    None,
    {"all": lambda x: f"<{x}>"},
    {"float_kind": lambda x: f"{x:.1f}", "int_kind": hex},
    {"complex_kind": lambda x: f"{x.real:+.0f}\ni", "bool": lambda x: "ny"[int(x)]},
]
# NumPy 2.2 has one more mode, but does not report it.
LEGACY = [False, "1.13", "1.21", "1.25"]
if np.lib.NumpyVersion(np.__version__) >= "2.4.0":
    LEGACY += ["2.1", "2.2"]
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "edgeitems": st.integers(0, 4),
        "threshold": st.integers(0, 40) | st.just(math.inf),
        "precision": st.integers(0, 12),
        "suppress": st.booleans(),
        "linewidth": st.integers(1, 100),
        "floatmode": st.sampled_from(["fixed", "unique", "maxprec", "maxprec_equal"]),
        "sign": st.sampled_from(["-", "+", " "]),
        "nanstr": st.sampled_from(["nan", "not a number"]),
        "infstr": st.sampled_from(["inf", "oo"]),
        "legacy": st.sampled_from(LEGACY),
        "formatter": st.sampled_from(FORMATTERS),
    },
)
# Short and long axes for every number of edge items.
SHAPES = st.lists(st.integers(0, 12), max_size=4).map(tuple)


@settings(max_examples=200)
@given(
    shape=SHAPES,
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 2**32),
    special=st.sampled_from([0, 0.1, 0.9]),
    options=OPTIONS,
)
@example(shape=(), dtype="float64", seed=0, special=0, options={"threshold": 0})
@example(shape=(), dtype="float32", seed=1, special=0, options={"legacy": "1.13"})
@example(shape=(0, 3), dtype="bool", seed=0, special=0, options={"threshold": 0})
@example(shape=(12,), dtype="float32", seed=2, special=0, options={"threshold": 0, "edgeitems": 0})
@example(
    shape=(2,),
    dtype="float16",
    seed=1,
    special=0,
    options={"legacy": "1.13", "floatmode": "unique"},
)
@example(shape=(7, 1, 6), dtype="int64", seed=3, special=0, options={"threshold": 1})
def test_the_text_is_numpys_from_the_elements_that_it_shows(shape, dtype, seed, special, options):
    with np.printoptions(**options) as now:
        ours, expected, seen = texts(numbers(shape, dtype, seed, special))
    assert ours == expected
    edge, summarised = now["edgeitems"], shape and math.prod(shape) > now["threshold"]
    assert (seen == (shown(shape, edge) if summarised and edge else 1)).all()


def test_what_is_not_shown_has_no_part_in_the_width_of_the_columns():
    array = np.full(2000, 1.5)
    array[[5, 1000]] = 1e300, np.nan
    assert {*texts(array)[:2]} == {"[1.5 1.5 1.5 ... 1.5 1.5 1.5]"}


@pytest.mark.parametrize("edgeitems", [-2, 1.5])
def test_edge_items_that_are_no_numbers_of_items_are_left_to_numpy(edgeitems):
    with np.printoptions(threshold=3, edgeitems=edgeitems):
        ours, expected, _ = texts(np.arange(10))
    assert ours == expected


# --- Blobs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", PAIR)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_blob_has_the_text_of_its_values(dtype, head):
    blob = blob_in(head, dtype)
    expected = values(dtype) if head else np.zeros_like(values(dtype))
    assert str(blob) == f"{blob}" == format(blob) == str(expected)
    assert np.asarray(blob).tobytes() == expected.tobytes()


VIEWS = {
    "all": lambda x: x,
    "transposed": lambda x: x.T,
    "backwards": lambda x: x[::-1, ::-2],
    "with gaps": lambda x: x[3::7, 5:9],
    "one row": lambda x: x[17],
    "with a new axis": lambda x: x[None, :, 2],
    "in another shape": lambda x: x.reshape((5, -1, 2)),
    "empty": lambda x: x[:0],
}


@pytest.mark.parametrize("head", [CPU, GPU, SYNCED])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_has_the_text_of_its_own_values(view, head):
    blob, array = blob_in(head, "int32", (60, 50)), values("int32", (60, 50))
    assert str(view(blob)) == str(view(array))
    assert str(view(blob).const) == str(view(array))
    assert str(blob) == str(array)


def test_the_journal_says_that_it_moved_for_str():
    blob = blob_in(GPU)
    with syncblob.record_transfers() as log:
        shown = str(blob)
    assert shown == str(values())
    assert {(transfer.direction, transfer.reason) for transfer in log} == {("download", "str")}


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


def test_a_limit_that_is_reached_says_how_many_there_may_be():
    blob = blob_in(GPU)
    with syncblob.max_transfers(count=1):
        blob_in(GPU).cpu_data()
        assert str(blob).endswith("; values not shown: at most 1 transfer allowed here)")


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
