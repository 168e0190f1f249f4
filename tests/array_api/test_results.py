"""Results of computations: no copies, no transfers, and views if they overlap an operand.

A result has an array before it has a memory. Any first access to the memory, however late, gives
the right contents. Later changes of the memory never make the array's old contents visible.
"""

import copy  # noqa: F401  # for the texts
import gc
import pickle  # noqa: F401  # for the texts
import weakref

import numpy as np
import pytest
from call_texts import texts
from in_threads import in_threads
from made_blobs import address, blob_in

import syncblob as xp
from syncblob import Blob, Head, no_transfers, use_device

HOMES = ["cpu", "simulated:0"]
HEADS = [Head.HEAD_AT_CPU, Head.HEAD_AT_GPU, Head.SYNCED]


def fresh(device, shape=(3,)):
    """Compute a Blob that counts up from 0 and does not have a memory yet."""
    blob = Blob.asarray(np.arange(float(np.prod(shape))).reshape(shape)).to_device(device) + 0
    assert blob.known_memory is None
    return blob


def newest(blob):
    """Return the array on the side of the Blob's device."""
    return blob.cpu_data() if blob.device == "cpu" else blob.gpu_data()


@pytest.fixture(autouse=True)
def _on_simulated():
    with use_device("simulated"):
        yield


# --- no copy -------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", HOMES)
def test_a_result_is_adopted(device):
    blob = fresh(device)
    start = address(blob.raw_array)
    assert address(newest(blob)) == start
    assert blob.device == device
    assert blob.head is (Head.HEAD_AT_CPU if device == "cpu" else Head.HEAD_AT_GPU)


@pytest.mark.parametrize("device", HOMES)
def test_a_result_in_fortran_order_is_adopted(device):
    blob = fresh(device, (2, 3)).T + 0
    start = address(blob.raw_array)
    assert not blob.raw_array.flags.c_contiguous
    assert address(newest(blob)) == start
    assert blob.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert blob.strides == (8, 24)


@pytest.mark.parametrize("device", HOMES)
def test_a_chain_of_computations_makes_no_memories(device):
    blob = fresh(device)
    with no_transfers():
        result = -xp.exp(blob * 2 + blob)
    assert blob.known_memory is None
    assert result.known_memory is None
    assert result.tolist() == (-np.exp(np.arange(3.0) * 3)).tolist()


def test_results_are_freed_with_the_last_use():
    blob = fresh("simulated:0")
    blob += 1
    array = weakref.ref(blob.raw_array)
    view = blob[1:]
    del blob
    assert view.tolist() == [2, 3]
    del view
    gc.collect()
    assert array() is None


# --- views ---------------------------------------------------------------------------------------


def evaluated(text, **names):
    return eval(text, globals() | names)  # noqa: S307  # of a table


VIEWS = texts(
    """
    x[1:]; x[0]; x.T; x.mT; xp.real(x); xp.flip(x); xp.reshape(x, (-1,));
    xp.permute_dims(x, (1, 0)); xp.moveaxis(x, 0, 1); xp.expand_dims(x, 0); xp.squeeze(x, ());
    xp.broadcast_to(x, (4, 2, 3)); xp.broadcast_arrays(x, x)[0]; xp.unstack(x)[1];
    xp.matrix_transpose(x); xp.linalg.diagonal(x)
    """
)


@pytest.mark.parametrize("made", ["cpu", "simulated:0", *HEADS])
@pytest.mark.parametrize("text", VIEWS)
def test_results_that_overlap_an_operand_are_views(text, made):
    blob = blob_in(made, "float64") if isinstance(made, Head) else fresh(made, (2, 3))
    with no_transfers():
        view = evaluated(text, x=blob)
    if view is blob:
        return
    assert view.memory is blob.memory
    assert view.head is blob.head
    expected = np.asarray(view).copy() + 10
    with no_transfers():
        blob += 10
    assert view.head is blob.head
    assert np.array_equal(view, expected)


def test_results_of_a_const_view_that_overlap_it_are_const():
    const = fresh("cpu", (2, 3)).const
    for text in VIEWS:
        result = evaluated(text, x=const)
        before = result.tolist()
        with pytest.raises(ValueError, match="const"):
            result += 1
        assert result.tolist() == before, text


# --- the first access ----------------------------------------------------------------------------


def copied(blob):
    target = Blob(3, "float64")
    target.copy_from(blob)
    return target.tolist()


def assigned(blob):
    target = fresh("cpu")
    target[...] = blob
    return target.tolist()


READERS = texts(
    """
    b.cpu_data(); b.gpu_data(); b.mutable_cpu_data(); b.mutable_gpu_data(); np.asarray(b);
    np.from_dlpack(b.cpu); np.asarray(b.gpu); b.memory.cpu_data().view(np.float64); b.tolist();
    np.frombuffer(b.tobytes()); [x.item() for x in b]; [float(x) for x in b];
    [b.data_at(0), b.data_at(1), b.data_at(2)]; b[::-1].tolist()[::-1]; b.data.tolist();
    b.const.tolist(); b.reshape(1, 3).reshape(3).tolist(); b.copy().tolist();
    copy.deepcopy(b).tolist(); pickle.loads(pickle.dumps(b)).tolist();
    pickle.loads(pickle.dumps(b, protocol=5)).tolist(); b.astype('float32').tolist();
    b.to_device('cpu').tolist(); b.to_device('simulated').tolist(); b[np.array([0, 1, 2])].tolist();
    b[b >= 0].tolist(); [b.asum_data() - 3, 1, 2]; (b + b).tolist() and (b * 1).tolist();
    (b + xp.zeros(3, device='cpu')).tolist(); (xp.zeros(3, device='simulated') + b).tolist();
    copied(b); assigned(b); _sharing(b).tolist(); _resized(b).tolist();
    [b.head * 0, *b.tolist()[1:]]; [len(str(b.explain())) * 0, *b.tolist()[1:]]
    """
)


def _sharing(blob):
    other = fresh("simulated:0") + 9
    other.share_data(blob)
    return other


def _resized(blob):
    blob.resize(2)
    blob.resize(3)
    blob[2] = 2
    return blob


@pytest.mark.parametrize("device", HOMES)
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("text", READERS)
def test_whatever_asks_sees_the_contents(text, in_place, device):
    blob = fresh(device)
    if in_place:
        blob += 1
        assert np.asarray(blob[:1]).tolist() == [1]
        blob -= 1
    assert list(evaluated(text, b=blob)) == [0, 1, 2]


WRITERS = texts(
    """
    b.mutable_cpu_data()[...] = 7 | b.mutable_gpu_data()[...] = 7 |
    b.overwrite_cpu_data()[...] = 7 | b.overwrite_gpu_data()[...] = 7 |
    b.set_cpu_data(np.full(3, 7.0)) | b.set_gpu_data(np.full(3, 7.0)) | b[...] = 7 |
    b[0] = 7; b[1] = 7; b[2] = 7 | b[b > -1] = 7 | b[::-1][...] = 7 |
    view = b[::-1]; view *= 0; view += 7 | np.asarray(b.cpu)[...] = 7 | np.asarray(b.gpu)[...] = 7
    | b.copy_from(np.full(3, 7.0)) | b.share_data(xp.full(3, 7.0)) |
    b.diff[...] = b - 7; b.update() | b.resize(1000); b.resize(3); b += 7 |
    b *= xp.zeros(3); b += 7
    """,
    " | ",
)


@pytest.mark.parametrize("device", HOMES)
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("text", WRITERS)
def test_what_is_written_is_computed_with(text, device, *, used):
    blob = fresh(device)
    view = None
    if used:
        view = blob[...]
        assert (blob + view).tolist() == [0, 2, 4]
    exec(text, {**globals(), "b": blob})  # noqa: S102  # of the table
    results = [blob + 0, xp.positive(blob), blob * xp.ones(3, device="cpu"), blob[...]]
    if view is not None and "share_data" not in text and "resize" not in text:
        results.append(view + 0)
    for result in results:
        assert result.tolist() == [7, 7, 7]
    assert (blob.cpu_data().tolist(), blob.gpu_data().tolist()) == ([7] * 3, [7] * 3)


@pytest.mark.parametrize("device", HOMES)
def test_threads_make_one_memory(device):
    for _ in range(50):
        blob = fresh(device)

        def ask(blob=blob):
            return blob.memory, (blob + 1).tolist(), blob[1:].tolist()

        found = in_threads(*[ask] * 4)
        assert {id(memory) for memory, _, _ in found} == {id(blob.memory)}
        assert [rest for _, *rest in found] == [[[1, 2, 3], [1, 2]]] * 4


# --- alignment ---------------------------------------------------------------------------------

# The elements of float64 from which docs/consumers.md promises aligned results.
LARGE = (16 << 20) // 8

# Of NumPy's or syncblob's namespace m, and two arrays.
ALIGNED = texts(
    """
    m.zeros(LARGE); m.zeros((2, LARGE), dtype='float32'); m.ones(LARGE, dtype='int64');
    m.full((LARGE, 1), 2.5); m.zeros_like(m.ones(LARGE)); x + y; 2 - x;
    m.reshape(x, (-1, 4)) * y[:4]; x + np.asarray(y); np.add(x, y); m.log1p(y);
    m.reshape(x, (-1, 2)) @ m.reshape(y[:8], (4, 2)).T; m.astype(x[: LARGE // 2], 'complex128');
    x.copy()
    """
)


@pytest.mark.parametrize(
    ("text", "guard"), [*((text, use_device) for text in ALIGNED), ("x + y", xp.compute_only_on)]
)
def test_large_results_on_the_host_are_aligned(text, guard):
    arrays = {"x": np.arange(LARGE * 1.0), "y": np.arange(LARGE, 0.0, -1)}
    expected = evaluated(text, m=np, **arrays)
    with guard("cpu"):
        blobs = {name: Blob.asarray(array, device="cpu") for name, array in arrays.items()}
        results = [evaluated(text, m=xp, **blobs) for _ in range(3)]
    for result in results:
        assert result.head is Head.HEAD_AT_CPU
        found = result.cpu_data()
        assert (found.dtype, found.strides) == (expected.dtype, expected.strides)
        np.testing.assert_array_equal(found, expected)
        assert address(found) % 64 == 0


@pytest.mark.parametrize("name", ["acosh", "expm1", "log", "sign", "tanh"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_corrected_functions_compute_the_same_in_large_arrays(name, dtype):
    function, values = getattr(xp, name), [0.5, -0.0, 3, -2.5, np.inf, -np.inf, np.nan, -1]
    few = Blob.asarray(np.array(values * 64, dtype), device="cpu")
    many = xp.tile(few, (LARGE // few.size,))
    with np.errstate(all="ignore"):
        expected, result = function(few), function(many)
    np.testing.assert_array_equal(result, xp.tile(expected, (many.size // few.size,)))
