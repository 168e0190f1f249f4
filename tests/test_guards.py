"""Guards: transfers that are forbidden or limited, and the device that operations run on."""

import asyncio
import contextlib
import contextvars
import inspect
import io  # noqa: F401  # for the texts
import operator
import os
import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat

import namespace_calls
import numpy as np
import numpy_calls
import pytest
from call_texts import functions
from in_threads import in_threads
from interrupt_points import Interrupt, interrupted_at, points_of
from made_blobs import filled
from other_processes import forked

import syncblob as xp
from syncblob import (
    Blob,
    Device,
    DeviceGuardError,
    Head,
    NoDeviceError,
    TransferGuardError,
    compute_only_on,
    max_transfers,
    no_transfers,
    record_transfers,
    use_device,
    verified_const,
)
from syncblob.calls import tables
from syncblob.devices import SimulatedBackend, register, supervisors, unregister
from syncblob.transfers import verify


def at_cpu():
    return filled(1, 4)


def test_a_forbidden_transfer_is_not_made_and_names_its_line():
    blob = at_cpu()
    borrow = blob.mutable_cpu_data()
    with record_transfers() as log, no_transfers(), pytest.raises(TransferGuardError) as caught:
        blob.gpu_data()
    assert len(log) == 0
    assert blob.head is Head.HEAD_AT_CPU
    assert borrow.flags.writeable
    message = str(caught.value)
    assert message.startswith("no transfers allowed here, and gpu_data needs an upload of 16")
    assert f"{__file__}:" in message
    assert "blob.gpu_data()" in message
    assert blob.gpu_data().tolist() == [1] * 4


def test_the_error_says_what_is_allowed_and_survives_a_pickle():
    blob = at_cpu()
    with max_transfers(bytes=8), pytest.raises(TransferGuardError) as caught:
        blob.gpu_data()
    again = pickle.loads(pickle.dumps(caught.value))
    assert caught.value.allowed == again.allowed == "at most 8 bytes allowed here"
    assert str(again) == str(caught.value)
    assert str(again).startswith("at most 8 bytes allowed here, and gpu_data needs an upload of 16")


@pytest.mark.parametrize("forbidden", [lambda blob: blob.async_gpu_push(), np.asarray])
def test_asynchronous_uploads_and_downloads_are_transfers(forbidden):
    blob = at_cpu()
    if forbidden is np.asarray:
        blob.mutable_gpu_data()
    head = blob.head
    with no_transfers(), pytest.raises(TransferGuardError):
        forbidden(blob)
    assert blob.head is head


def test_a_guard_is_for_its_own_context():
    blob = at_cpu()
    with no_transfers():
        in_threads(blob.gpu_data)
    assert blob.head is Head.SYNCED


def test_a_limit_needs_a_number():
    with pytest.raises(TypeError, match="count"):
        max_transfers()
    with pytest.raises(TypeError, match="non-negative"):
        max_transfers(count=-1)


def test_a_failed_transfer_does_not_count(simulated):
    blob = at_cpu()
    with max_transfers(count=1) as guard:
        with simulated.failing(transfer=1), pytest.raises(RuntimeError):
            blob.gpu_data()
        blob.gpu_data()
    assert guard.count == 1


# --- reused, nested and concurrent guards --------------------------------------------------------


def go_there(blob, times=1):
    """Upload 16 bytes, a number of times."""
    for _ in range(times):
        blob.mutable_cpu_data()
        blob.gpu_data()


def test_a_guard_inside_itself_counts_for_each_block():
    blob = at_cpu()
    guard = max_transfers(count=3)
    with guard:
        go_there(blob)
        with guard:
            assert guard.count == 0
            go_there(blob)
            assert guard.count == 1
        assert guard.count == 2
        with guard:
            go_there(blob)
            # The limit of the outer block is reached, not its own.
            with pytest.raises(TransferGuardError, match=r"3 transfers .* 48"):
                go_there(blob)
            assert guard.count == 1
        assert guard.count == 3
    assert guard.count == 3


def test_threads_use_one_guard_at_once():
    guard = max_transfers(count=5)
    together = threading.Barrier(4)

    def work(times):
        blob = at_cpu()
        with guard:
            together.wait()
            go_there(blob, times)
            together.wait()
            return guard.count

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, (1, 2, 3, 5))) == [1, 2, 3, 5]


def test_a_block_guards_the_tasks_that_it_starts_until_it_ends():
    blob = at_cpu()

    async def main():
        ended = asyncio.Event()

        async def inside():
            with pytest.raises(TransferGuardError):
                blob.gpu_data()
            await ended.wait()
            blob.gpu_data()
            with guard:
                assert guard.count == 0

        guard = no_transfers()
        with guard:
            task = asyncio.create_task(inside())
            await asyncio.sleep(0)
        ended.set()
        await task

    asyncio.run(main())
    assert blob.head is Head.SYNCED


def test_threads_of_one_context_do_not_exceed_its_limit(simulated, monkeypatch):
    copy, refused = simulated.upload, threading.Event()

    def upload(*buffers):
        refused.wait(1)
        copy(*buffers)

    def go():
        try:
            go_there(at_cpu())
        except TransferGuardError:
            refused.set()
            return True
        return False

    async def main():
        with max_transfers(count=1) as guard:
            calls = await asyncio.gather(asyncio.to_thread(go), asyncio.to_thread(go))
            return sum(calls), guard.count

    monkeypatch.setattr(SimulatedBackend, "upload", lambda _, *buffers: upload(*buffers))
    assert asyncio.run(main()) == (1, 1)


def refuses_transfers():
    blob = at_cpu()
    with contextlib.suppress(TransferGuardError):
        blob.gpu_data()
    return blob.head is Head.HEAD_AT_CPU


def computes_only_there():
    with contextlib.suppress(DeviceGuardError):
        xp.ones(3, device="cpu")
        return False
    return True


@pytest.mark.parametrize(
    ("make", "active"),
    [
        (no_transfers, refuses_transfers),
        (lambda: max_transfers(bytes=1), refuses_transfers),
        (lambda: compute_only_on("simulated"), computes_only_there),
    ],
)
def test_a_block_that_another_thread_leaves_ends(make, active):
    guard = make()

    def guarded():
        with guard:
            yield

    generators = [guarded()]
    begun, finalised = threading.Event(), threading.Event()

    def begin():
        next(generators[0])
        before = active()
        begun.set()
        assert finalised.wait(60)
        return before, active()

    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(begin)
        assert begun.wait(60)
        generators.clear()
        finalised.set()
        assert seen.result() == (True, False)
        assert not active()
    assert not supervisors


def test_logs_and_verified_const_end_on_any_thread():
    log = record_transfers()

    def observed():
        with log, verified_const():
            yield

    generators = [observed()]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(next, generators[0]).result()
        go_there(at_cpu())
        assert (len(log), verify.verifying()) == (1, True)
        generators.clear()
        go_there(at_cpu())
        assert (len(log), verify.verifying()) == (1, False)
        pool.submit(go_there, at_cpu()).result()
    assert len(log) == 1
    assert not supervisors


# --- decorators ----------------------------------------------------------------------------------


def test_a_decorated_function_is_a_block_at_each_call():
    guard = max_transfers(count=2)

    @guard
    def work(blob, *, times=1):
        """Go there."""
        go_there(blob, times)
        return guard.count

    blob = at_cpu()
    assert [work(blob, times=times) for times in (2, 1, 2)] == [2, 1, 2]
    with pytest.raises(TransferGuardError):
        work(blob, times=3)
    assert work(blob) == 1
    assert (work.__name__, work.__doc__) == ("work", "Go there.")
    assert list(inspect.signature(work).parameters) == ["blob", "times"]
    go_there(blob, 3)


def test_coroutine_functions_can_be_decorated():
    guard = max_transfers(count=2)

    @guard
    async def work(times):
        """Go there."""
        blob = at_cpu()
        for _ in range(times):
            await asyncio.sleep(0)
            go_there(blob)
        return guard.count

    async def main():
        unguarded = at_cpu()
        waiting = asyncio.gather(work(1), work(2), work(3), return_exceptions=True)
        await asyncio.sleep(0)
        go_there(unguarded, 5)
        return await waiting

    first, second, third = asyncio.run(main())
    assert (first, second) == (1, 2)
    assert isinstance(third, TransferGuardError)
    assert inspect.iscoroutinefunction(work)
    assert (work.__name__, work.__doc__) == ("work", "Go there.")


def steps():
    yield 1


async def asynchronous_steps():
    yield 1


@pytest.mark.parametrize("thing", [steps, asynchronous_steps, partial(steps), Blob, 3])
def test_only_functions_that_are_no_generators_can_be_decorated(thing):
    with pytest.raises(TypeError, match=r"function" if thing in {Blob, 3} else r"generator.*steps"):
        no_transfers()(thing)


# --- compute_only_on ----------------------------------------------------------------------------

VALUES = np.array([[4.0, -1.5, 2.0], [0.5, 3.0, -8.0], [1.0, 0.25, 6.0]])
OTHER = np.array([[1.0, 2.0, 3.0], [-4.0, 5.0, 6.0], [7.0, 8.0, -9.0]])
# An integer index and a boolean mask.
ROWS = np.array([2, 0])
MASK = VALUES > 0


def on(device, values=VALUES, *, fresh=True):
    """Make a Blob on a device: the result of a computation, or a Blob with both sides in use."""
    blob = Blob.asarray(values, copy=True).to_device(device)
    if fresh:
        return np.copy(blob)
    _ = blob.gpu_data() if device == "cpu" and blob.memory.accelerator else blob.cpu_data()
    return blob


def assigned(x, key, value):
    x[key] = value
    return x


def changed(x, change):
    change(x)
    return x


# Computations with a Blob, and a function that makes another Blob on the same device. Two tests
# below have all functions of the namespace and of NumPy.
OPERATIONS = functions(
    """
    -x; x + b(OTHER); x * 2; 2.5 - x; x < b(OTHER); x + OTHER.astype(x.dtype);
    OTHER.astype(x.dtype) + x; x == VALUES.tolist(); x // b(OTHER); x @ b(OTHER); 4.0 in x;
    operator.imul(x, b(OTHER)); operator.iadd(x, 3); operator.iadd(x[0, 0], b(OTHER)[0, 0]);
    operator.iadd(x, b(OTHER.astype('float32'))); operator.isub(x, OTHER);
    operator.imatmul(x, b(OTHER)); operator.imul(x.data, 2); xp.atan2(x, b(OTHER)); np.sin(x);
    np.hypot(x, b(OTHER)); np.add(OTHER, x); np.add(x, np.float64(2)); np.add(x, 1, out=b(OTHER));
    np.add(x, 1, out=b(OTHER), where=MASK); np.add(x, 1, out=OTHER.copy()); np.add.reduce(x);
    np.add.accumulate(x); np.multiply.outer(x, b(ROWS));
    changed(x, lambda x: np.add.at(x, ROWS, 1)); np.modf(x); np.arange(3, like=x); x.max(axis=1);
    changed(x, lambda x: x.sort(axis=0)); changed(x, lambda x: x.fill(3));
    assigned(x, ..., b(OTHER)); assigned(x, slice(1), OTHER[:1]); assigned(x, (0, 0), 7);
    assigned(x, ROWS, 7); assigned(x, b(MASK), 7); x[ROWS]; x[[2, 0]]; x[b(ROWS)]; x[b(MASK)];
    x[0, Blob.asarray(ROWS, device='cpu')]; x.astype('float32'); x.reshape(9, copy=True);
    x.T.reshape(9); np.reshape(x.T, 9); np.ravel(x.T); np.diag(x[0]); np.einsum('ij->i', x);
    np.einsum('ij->ji', x); np.unstack(x[0]); x.flatten(); x.asum_data(); x.sumsq_data();
    changed(x, lambda x: x.scale_data(3)); changed(x, lambda x: x.update());
    changed(x, lambda x: x.copy_from(b(OTHER))); changed(x, lambda x: x.copy_from(OTHER))
    """,
    "x, b",
    globals(),
)

# CuPy's ufuncs take no masks, and it has no `unstack`.
NOT_IN_CUPY = {"np.add(x, 1, out=b(OTHER), where=MASK)", "np.unstack(x[0])"}

# Reads, views, copies and transfers, which are allowed on every device.
ACCESSES = functions(
    """
    x[0, 0].item(); float(x[0, 0]); x.tolist(); x.tobytes(); np.asarray(x); x.cpu_data().sum();
    x.mutable_cpu_data().sum(); x.to_device('simulated:0').gpu_data().sum(); x.data_at(0, 0);
    np.from_dlpack(x.cpu); x[1:, 0]; x[Blob.asarray(1, device='cpu')]; x.reshape(-1); x.T;
    x.ravel(); x.diff; x.const; xp.flip(xp.permute_dims(x, (1, 0))); xp.broadcast_arrays(x, x[0]);
    xp.reshape(x, (9,)); xp.real(x); np.swapaxes(np.expand_dims(x, 0), 1, 2);
    (np.reshape(x, 9), np.ravel(x)); np.reshape(x.T, 9, order='F'); np.diag(x);
    (np.split(x, 3), np.split(ary=x, indices_or_sections=3));
    np.unstack(x); (x.real, np.real(x));
    (np.shape(x), np.size(x), np.ndim(x)); np.shares_memory(x, x[0]);
    (str(x), repr(x), np.array2string(x)); np.save(io.BytesIO(), x); x.copy();
    pickle.loads(pickle.dumps(x)); (x.to_device('cpu'), x.to_device('simulated:0'));
    Blob(x.shape, device='cpu'); xp.asarray([1, 2], device='cpu'); x.resize(3);
    x.astype(x.dtype, copy=False); Blob(3, device='cpu').asum_data()
    """,
    "x",
    globals(),
)


class Another(SimulatedBackend):
    """A kind of device that tests register."""

    kind = "another"

    def __init__(self, index):
        super().__init__(index)
        self.device = Device(f"{self.kind}:{index}")


class NotNative(Another):
    """A device on whose arrays NumPy's functions cannot be called directly, as on a CUDA device."""

    kind = "not_native"
    native = False


@pytest.fixture(autouse=True, scope="module")
def _not_native():
    register(NotNative.kind, NotNative)
    yield
    unregister(NotNative.kind)


# The device of the Blobs, and the device that the guard requires. The short tier has an accelerator
# with the host, and the host with a device whose arrays are not NumPy's.
PLACES = [
    pytest.param("cpu", "simulated:0", marks=pytest.mark.long),
    ("simulated:0", "cpu"),
    pytest.param("simulated:0", "simulated:1", marks=pytest.mark.long),
    pytest.param("not_native:0", "cpu", marks=pytest.mark.long),
    ("cpu", "not_native:0"),
    pytest.param("cuda:0", "cpu", marks=pytest.mark.gpu),
    pytest.param("cpu", "cuda:0", marks=pytest.mark.gpu),
]


def same(actual, expected):
    """Require that two results of operations are equal."""
    if isinstance(expected, (tuple, list)):
        for one, other in zip(actual, expected, strict=True):
            same(one, other)
        return
    assert type(actual) is type(expected)
    if isinstance(expected, Blob):
        assert actual.device == expected.device
        assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected))


@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "synced"])
@pytest.mark.parametrize(("here", "there"), PLACES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_computed_on_the_device_or_refused(name, here, there, *, fresh):
    operation = OPERATIONS[name]
    if here == "cuda:0" and name in NOT_IN_CUPY:
        pytest.skip("CuPy cannot compute it")

    def made(values):
        return on(here, values, fresh=fresh)

    expected = operation(made(VALUES), made)
    blobs = [made(VALUES)]
    states = [(blobs[0].head, VALUES)]

    def made_outside(values):
        # In a context without the guard.
        blobs.append(contextvars.Context().run(made, values))
        states.append((blobs[-1].head, values))
        return blobs[-1]

    with compute_only_on(there), pytest.raises(DeviceGuardError) as caught:
        operation(blobs[0], made_outside)
    message = str(caught.value)
    assert message.startswith(f"only {there} may compute here, and ")
    assert f" would run on {here}, at {__file__}:" in message
    for blob, (head, values) in zip(blobs, states, strict=True):
        assert blob.head is head
        assert blob.tolist() == values.tolist()
    with compute_only_on(here):
        same(operation(blobs[0], made), expected)


@pytest.mark.parametrize(("here", "there"), PLACES[:3])
@pytest.mark.parametrize("name", ACCESSES)
def test_accesses_are_no_operations(name, here, there):
    access = ACCESSES[name]
    blob = Blob.asarray(VALUES, copy=True).to_device(here)
    if there == "simulated:1" and ("to_device" in name or "Blob(x.shape" in name):
        pytest.skip("another accelerator")
    with compute_only_on(there):
        access(blob)


def test_with_operands_on_both_sides_it_is_the_accelerator():
    there, here = on("simulated:0"), on("cpu", OTHER)
    for operation in (operator.add, np.add, lambda x, y: xp.concat([x, y]), operator.imul):
        with (
            compute_only_on("cpu"),
            pytest.raises(DeviceGuardError, match="run on simulated:0") as error,
        ):
            operation(here, there)
        assert ("in-place multiply" in str(error.value)) is (operation is operator.imul)
        assert here.head is Head.HEAD_AT_CPU
        with compute_only_on("simulated:0"):
            result = operation(here.copy(), there)
        assert result.head is Head.HEAD_AT_GPU
        # The result of an in-place operation stays on its Blob's device.
        assert result.device == ("cpu" if operation is operator.imul else "simulated:0")


def test_nothing_is_read_for_an_operation_that_is_refused():
    def source():
        raise AssertionError("read")

    for device, other in (("cpu", "simulated:0"), ("simulated:0", "cpu")):
        lazy = Blob.from_source(VALUES.shape, "float64", source, device=device)
        for operation in OPERATIONS.values():
            with compute_only_on(other), pytest.raises(DeviceGuardError):
                operation(lazy, partial(contextvars.Context().run, on, device))
        assert lazy.head is Head.UNINITIALIZED


@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
def test_every_function_of_the_namespace_asks_the_guard(device):
    other = "simulated:0" if device == "cpu" else "cpu"
    # These view, copy or adopt.
    allowed = {
        *("asarray", "from_dlpack", "broadcast_arrays", "broadcast_to", "expand_dims", "flip"),
        *("moveaxis", "permute_dims", "reshape", "squeeze", "unstack", "transpose", "real", "imag"),
        *("matrix_transpose", "linalg.matrix_transpose", "linalg.diagonal"),
    }
    generator = np.random.default_rng(0)
    refused = set()
    with use_device(device), np.errstate(all="ignore"):
        for call in namespace_calls.calls():
            for dtype in ("float64", "complex128", "int64"):
                arrays = [generator.uniform(1, 9, shape).astype(dtype) for shape in call.shapes]
                blobs = [xp.asarray(array, copy=True) for array in arrays]
                with compute_only_on(device), contextlib.suppress(TypeError):
                    call.with_blobs(blobs)
                    break
            with compute_only_on(other):
                if call.name in allowed and "copy=True" not in call.text:
                    call.with_blobs(blobs)
                    continue
                with pytest.raises(DeviceGuardError):
                    call.with_blobs(blobs)
            refused.add(call.name)
    assert len(refused) > 150


@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
def test_every_function_of_numpy_asks_the_guard(device):
    other = "simulated:0" if device == "cpu" else "cpu"
    functions = numpy_calls.listed()
    views = {np.broadcast_arrays, *tables.VIEWS_OF_ONE, np.imag, np.real, *tables.QUESTIONS}
    views |= tables.ON_THE_HOST
    refused = set()
    with use_device(device), np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        for name, calls in numpy_calls.CALLS.items():
            function = functions.get(name)
            if not isinstance(function, numpy_calls.FUNCTION) or function in views:
                continue
            for call in calls:
                made = []

                def blob_of(array, made=made):
                    made.append(Blob.asarray(array, copy=True).to_device(device))
                    return made[-1]

                with compute_only_on(device):
                    call(function, blob_of)
                if made:
                    with compute_only_on(other), pytest.raises(DeviceGuardError):
                        call(function, blob_of)
                    refused.add(name)
    assert len(refused) > 150


# --- compute_only_on, as a guard ----------------------------------------------------------------


def test_a_device_that_cannot_be_used_is_refused_at_once():
    with pytest.raises(NoDeviceError):
        compute_only_on("cuda:99")
    with pytest.raises(ValueError, match="a device is"):
        compute_only_on("elsewhere")
    assert not supervisors


def test_device_guards_nest_and_can_be_used_again():
    here = on("cpu")
    guard = compute_only_on("cpu")
    for _ in range(2):
        with guard, guard:
            here + 1
            with (
                compute_only_on("simulated"),
                pytest.raises(DeviceGuardError, match="only simulated:0 may"),
            ):
                here + 1
            here + 1
    with compute_only_on("simulated"):
        with guard, pytest.raises(DeviceGuardError, match="only simulated:0 may"):
            here + 1
        with pytest.raises(DeviceGuardError):
            here + 1
    here + 1
    assert not supervisors


def test_a_guard_is_seen_by_devices_that_are_made_in_its_block():
    register("another", Another)
    try:
        with compute_only_on("cpu"), pytest.raises(DeviceGuardError, match="run on another:0"):
            xp.ones(3, device="another")
        assert (xp.ones(3, device="another") + 1).tolist() == [2] * 3
    finally:
        unregister("another")


def test_operations_ask_no_guard_where_none_is_open():
    for guard in (no_transfers(), record_transfers(), contextlib.nullcontext()):
        with guard:
            assert not supervisors
    with record_transfers(operations=True):
        assert supervisors
    with compute_only_on("cpu"), compute_only_on("cpu"):
        assert supervisors
    assert not supervisors


@pytest.mark.parametrize(
    "make",
    [
        lambda: repeat(no_transfers()),
        lambda: repeat(compute_only_on("simulated")),
        lambda: repeat(record_transfers(operations=True)),
        lambda: map(use_device, repeat("simulated")),
    ],
)
def test_a_block_that_is_interrupted_at_its_beginning_changes_nothing(make):
    blocks = make()
    with points_of() as points:
        block = next(blocks)
        block.__enter__()
    block.__exit__(None, None, None)
    assert points
    for point in points:
        try:
            with interrupted_at(point):
                block = next(blocks)
                block.__enter__()
        except Interrupt:
            assert not supervisors, point
            assert Blob(3).device == "cpu", point
            assert xp.ones(3).tolist() == [1] * 3
            at_cpu().gpu_data()
        else:
            block.__exit__(None, None, None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_has_the_guards_of_its_thread():
    forked(guarded_as_before)
    with compute_only_on("simulated"), max_transfers(count=1) as guard:
        at_cpu().gpu_data()

        def work():  # pragma: no cover  # in the child
            with pytest.raises(DeviceGuardError):
                xp.ones(3)
            with pytest.raises(TransferGuardError):
                at_cpu().gpu_data()
            return guard.count == 1

        forked(work)


def guarded_as_before():
    """Tell whether a guard of devices can be entered, has an effect, and can be left."""
    with compute_only_on("simulated"):
        try:
            xp.ones(3)
        except DeviceGuardError:
            return xp.ones(3, device="simulated").tolist() == [1] * 3
    return False


# --- PyTorch's functions -------------------------------------------------------------------------


def test_functions_of_torch_ask_the_guard():
    torch = pytest.importorskip("torch")
    relu, ones = torch.nn.functional.relu, torch.ones(3, 3, dtype=torch.float64)
    linear = torch.nn.Linear(3, 3, dtype=torch.float64)
    operations = functions(
        """
        torch.sum(x); torch.add(x, x); relu(x); relu(x, inplace=True); ones + x;
        torch.add(ones.clone(), 1, out=x); torch.zeros_like(x); linear(x)
        """,
        "x",
        globals() | {"torch": torch, "relu": relu, "ones": ones, "linear": linear},
    ).values()
    for place in ("cpu", "simulated:0"):
        blob = on(place)
        head = blob.head
        for operation in operations:
            # PyTorch has no simulated devices, and computes on the host.
            with compute_only_on("simulated"), pytest.raises(DeviceGuardError, match=r"cpu.*torch"):
                operation(blob)
        assert blob.head is head
        with compute_only_on("cpu"):
            for operation in operations:
                operation(blob)
        blob = on(place)
        with compute_only_on("simulated"):
            assert torch.numel(blob) == 9
            assert torch.is_floating_point(blob)
            assert blob.to_torch().shape == (3, 3)
