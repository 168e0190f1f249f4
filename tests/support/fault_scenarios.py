"""The scenarios of the fault campaign without files."""

import copy  # noqa: F401  # for the texts
import pickle

import numpy as np
from call_texts import functions
from fault_points import BACKEND
from fault_states import Scenario

import syncblob as xp
from syncblob import Blob

SHAPE = (2, 3)
WHERE = ("blank", "host", "device", "both", "split")


def made(where, first=1, shape=SHAPE):
    """Make a Blob, bound to the simulated device, with its newest contents in the given place.

    The operations of a Blob written on the host run on the host. In a split one, every other
    element is newest on the host, the others are newest on the device, and the last one on both.
    """
    blob = Blob(shape, device="cpu" if where in ("host", "both") else "simulated:0")
    blob.memory.side_of(BACKEND)
    values = np.arange(first, first + blob.size, dtype="float32").reshape(shape)
    if where in ("host", "both"):
        blob.mutable_cpu_data()[...] = values
    if where == "device":
        blob.mutable_gpu_data()[...] = values
    if where == "both":
        blob.gpu_data()
    if where == "split":
        blob.mutable_gpu_data()[...] = values
        elements = blob.reshape(-1)
        for place in range(0, blob.size, 2):
            elements[place : place + 1].overwrite_cpu_data()[...] = first + place
        elements[-1:].cpu_data()
    return blob


def one(where):
    return lambda _: {"a": made(where)}


def two(first, second):
    return lambda _: {"a": made(first), "b": made(second, 10)}


def with_borrow(where):
    """Make a Blob and a writable borrow of it, which must still be writable after a failure."""

    def make(_):
        blob = made(where)
        side = "gpu" if where == "device" else "cpu"
        return {"a": blob, "borrow": getattr(blob, f"mutable_{side}_data")()}

    return make


def with_borrow_of_a_part(where):
    """Make a split Blob, and a borrow of its first row that nothing else references."""

    def make(_):
        blob = made("split")
        row = blob[0]
        return {
            "a": blob,
            "borrow": row.mutable_cpu_data() if where == "host" else row.mutable_gpu_data(),
        }

    return make


def with_gradient(where):
    def make(_):
        blob = made(where)
        gradient = blob.mutable_gpu_diff() if where == "device" else blob.mutable_cpu_diff()
        gradient[...] = 0.5
        return {"a": blob}

    return make


def written(access):
    """Get an array from an accessor, write into it if that is allowed, and return its values."""

    def act(state):
        array = getattr(state["a"], access)()
        if array.flags.writeable:
            array[...] = 7
        return array.copy()

    return act


def written_below(access):
    """As `written`, for the second row."""

    def act(state):
        return written(access)({"a": state["a"][1]})

    return act


# One access of one memory: a failure must not change the head, either.
ONE_ACCESS = {}
for _where in WHERE:
    for _kind in ("", "mutable_", "overwrite_"):
        for _side in ("cpu", "gpu"):
            for _what in ("data", "diff"):
                _access = f"{_kind}{_side}_{_what}"
                ONE_ACCESS[f"{_access}, {_where}"] = Scenario(one(_where), written(_access))
for _where in ("host", "device"):
    for _kind in ("", "mutable_", "overwrite_"):
        _access = f"{_kind}{'gpu' if _where == 'host' else 'cpu'}_data"
        ONE_ACCESS[f"{_access} with a borrow, {_where}"] = Scenario(
            with_borrow(_where), written(_access)
        )

for _where, _there in (("host", "gpu"), ("device", "cpu")):
    for _kind in ("", "mutable_", "overwrite_"):
        _access = f"{_kind}{_there}_data"
        ONE_ACCESS[f"{_access} with a borrow of a part, {_where}"] = Scenario(
            with_borrow_of_a_part(_where), written(_access)
        )
        ONE_ACCESS[f"{_access} beside a borrow of a part, {_where}"] = Scenario(
            with_borrow_of_a_part(_where), written_below(_access)
        )


def _acts(text):
    """Return functions of a state by their texts, of its Blobs `a` and `b`."""
    acts = functions(text, "a=None, b=None", globals())
    return {each: lambda state, act=act: act(**state) for each, act in acts.items()}


_READS = _acts(
    """
    a[1:].gpu_data().copy(); a.T.cpu_data().copy(); a[:, ::2].overwrite_cpu_data().copy();
    a.reshape(3, 2).gpu_data().copy(); a[:, ::2].gpu_data().copy(); np.array(a[:, 1:]);
    a[:, ::2].on('simulated:0').copy().gpu_data().copy(); float(a[1, 2]); a.item(4); a.tolist();
    a.tobytes(); a.data_at(1, 2); np.asarray(a).copy(); np.array(a); np.asarray(a.cpu).copy();
    np.asarray(a.gpu).copy(); np.asarray(a.gpu.overwrite).shape; np.from_dlpack(a).copy();
    np.from_dlpack(a.const).copy(); np.from_dlpack(a.cpu).copy(); np.from_dlpack(a.gpu).copy();
    type(a.gpu.__dlpack__()).__name__; np.from_dlpack(a, copy=True); a.gpu_shape().copy(); a.copy();
    copy.deepcopy(a); a.to_device('cpu'); a.to_device('simulated:1').tolist();
    a.to_proto().SerializeToString(); a.asum_data(); a.sumsq_data(); repr(a)
    """
)
for _text, _act in _READS.items():
    for _where in WHERE:
        ONE_ACCESS[f"{_text}, {_where}"] = Scenario(one(_where), _act)


# Several accesses: some may have been made, but nothing may be lost or half-written.
SEVERAL = {}


def _set(blob, key, value):
    blob[key] = value
    return blob


def _prefetched(state):
    try:
        state["a"].prefetch("cpu")
        return state["a"].cpu_data().copy()
    finally:
        # The state is looked at when the other copies have arrived.
        xp.simulated().synchronize()


def _pushed(state):
    if state["a"].head.name == "HEAD_AT_CPU":
        state["a"].async_gpu_push()
    return state["a"].gpu_data().copy()


_BINARY = _acts(
    """
    a + b; a < b; a @ b.T; divmod(a, b); a.__iadd__(b); a[:, :2].__imatmul__(b[:, :2]);
    _set(a, ..., b); _set(a, (slice(None), slice(None, None, 2)), b[:, :2]); _set(a, b > 11, 0);
    xp.take(a, xp.astype(b[0, :2] - 10, xp.int64), axis=1); xp.where(a > 2, a, b);
    xp.concat([a, b]); xp.stack([a, b]); xp.tensordot(a, b, axes=2);
    xp.broadcast_arrays(a, b[:1])[1]; xp.isin(a, b); np.add(a, 1, out=b); (np.copyto(a, b), a)[1];
    np.concatenate([a[:1], b[:1]], out=a.copy()); (a.copy_from(b), a)[1];
    np.frexp([[3, 5, 7], [9, 11, 13]], out=(a, b));
    (a.copy_from(b[:1].copy(), resize=True), a)[1]; (a.share_data(b), a.gpu_data().copy())[1];
    (a.load_proto(b.to_proto()), a)[1]
    """
)
_PAIRS = (("host", "device"), ("device", "host"), ("host", "host"), ("split", "host"))
for _text, _act in _BINARY.items():
    for _first, _second in _PAIRS:
        SEVERAL[f"{_text}, {_first} and {_second}"] = Scenario(two(_first, _second), _act)

_UNARY = _acts(
    """
    -a; xp.sum(a); xp.mean(a, axis=0); xp.sort(a); (a.sort(), a)[1]; xp.cumulative_sum(a, axis=1);
    xp.unique_values(a); xp.nonzero(a); xp.linalg.inv(a[:, :2]); xp.linalg.svdvals(a);
    xp.fft.rfft(a); xp.astype(a, xp.float64); xp.roll(a, 1); xp.ones_like(a);
    xp.asarray(a, copy=True); xp.from_dlpack(a, device='simulated', copy=True);
    xp.meshgrid(a[0, :], a[1, :]); np.einsum('ij->ji', a); np.sort(a); np.cumsum(a);
    pickle.loads(pickle.dumps(a, 5)); pickle.loads(pickle.dumps(a, 4)); (a.fill(3), a)[1];
    (a.put([0, 1], 9), a)[1]; (a.scale_data(2), a)[1]; (a.update(), a)[1];
    (a.resize(3, 3), a.gpu_data().copy())[1]; (a.resize(1, 3), a.cpu_data().copy())[1];
    (a.diff.fill(2), a.diff)[1]; (a.on('simulated:0').prefetch(), a.gpu_data().copy())[1];
    len(str(a.explain())) > 0
    """
)
for _text, _act in _UNARY.items():
    for _where in ("host", "device", "both", "split"):
        SEVERAL[f"{_text}, {_where}"] = Scenario(with_gradient(_where), _act)

for _name in ("__iadd__", "__imul__", "__isub__", "__ipow__", "__itruediv__"):
    _of_number, _of_other = _acts(f"a.{_name}(2.0); a.{_name}(b)").values()
    SEVERAL[f"{_name} of a number"] = Scenario(one("host"), _of_number)
    SEVERAL[f"{_name} across sides"] = Scenario(two("host", "device"), _of_other)

_CREATION = _acts(
    """
    xp.zeros(5, device='simulated'); xp.ones((2, 2), device='simulated');
    xp.full(3, 4.0, device='simulated'); xp.arange(4, device='simulated');
    xp.linspace(0, 1, 5, device='simulated'); xp.eye(3, device='simulated');
    xp.asarray([1, 2, 3], device='simulated');
    xp.asarray(np.arange(3), device='simulated', copy=True);
    xp.asarray([1, 2, 3], device='cpu', copy=True) + 1;
    Blob(4, device='cpu').mutable_cpu_data().copy();
    Blob.in_shared_memory(4, device='simulated').gpu_data().copy()
    """
)
for _text, _act in _CREATION.items():
    SEVERAL[_text] = Scenario(lambda _: {}, _act)


def with_windows(where):
    """Make a Blob of which the device has two windows that differ from what the host has."""

    def make(_):
        blob = made(where, shape=LARGE)
        blob[:2].mutable_gpu_data()[...] = 70
        blob[3:5].mutable_gpu_data()[...] = 71
        blob[4].cpu_data()
        return {"a": blob}

    return make


def on_a_full_device(first, second):
    def make(folder):
        # An interrupt may have left it.
        xp.set_memory_limit(BACKEND.device, None)
        return two(first, second)(folder)

    return make


def _full(state):
    """Compute with one Blob on a device that has room for it if it evicts another."""
    # Both `b` and the result fit only if `a` leaves, whatever other tests have left there.
    with xp.set_memory_limit("simulated:0", BACKEND.used_nbytes + state["b"].nbytes * 3 // 2):
        return (state["b"].on("simulated:0") * 2).tolist()


# Memories of this size have windows.
LARGE = (8, 1 << 16)
for _text, _act in _acts("(a.evict('cpu'), a)[1]; (a.evict('gpu'), a)[1]").items():
    for _where in WHERE:
        SEVERAL[f"{_text}, {_where}"] = Scenario(one(_where), _act)
for _first, _second in (("device", "host"), ("both", "host"), ("split", "blank")):
    SEVERAL[f"evict for another, {_first} and {_second}"] = Scenario(
        on_a_full_device(_first, _second), _full, tolerant=True
    )
_WINDOWS = _acts(
    """
    (a.evict('gpu'), a)[1]; (a[:3].evict('gpu'), a)[1]; a[1:4].mutable_gpu_data()[:, 5].tolist();
    np.asarray(a[2].gpu)[:5].tolist(); [part[0, 3].item() for part in a.parts(nbytes=1 << 19)]
    """
)
for _text, _act in _WINDOWS.items():
    # Without room for one buffer of several windows, what is there is used.
    SEVERAL[f"{_text}, in windows"] = Scenario(
        with_windows("host"), _act, tolerant="evict" not in _text and "parts" not in _text
    )
SEVERAL["async push"] = Scenario(one("host"), _pushed)
SEVERAL["async download"] = Scenario(one("device"), _prefetched)
SEVERAL["async downloads"] = Scenario(one("split"), _prefetched)
SEVERAL["set_cpu_data"] = Scenario(
    one("device"),
    lambda state: (
        state["a"].set_cpu_data(np.ones(SHAPE, np.float32)),
        state["a"].gpu_data().copy(),
    )[1],
)
SEVERAL["shared memory by its name"] = Scenario(
    lambda _: {"a": _set(Blob.in_shared_memory(SHAPE, device="simulated"), ..., 3)},
    lambda state: pickle.loads(pickle.dumps(state["a"])).cpu_data().copy(),
)
