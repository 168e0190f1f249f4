"""Random programs over overlapping views, both sides and live aliases, compared with NumPy.

Every warning is an error here. A program drops an alias before it writes the alias's bytes on the
other side, so a warning means that two ranges were mistaken for overlapping.

The programs run on the simulated device, on the model of CUDA, and on CUDA if there is a GPU.
"""

import numpy as np
import tiers
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy
from made_blobs import values
from program_devices import Simulated

from syncblob import Blob, Head

# Each writes to a view of the Blob on a side. `x` is the same view of an ndarray. The last argument
# calls an accessor of that side and returns its array, in a form that programs can read and write.
WRITES = {
    "number": lambda v, x, _: (v.__setitem__(..., 7), x.__setitem__(..., 7)),
    # Not in place: NumPy 2.4 negates the wrong elements of some strided arrays.
    "array": lambda v, x, _: (v.__setitem__(..., -x), x.__setitem__(..., -x)),
    "backwards": lambda v, x, _: (
        v.__setitem__(..., v[flipped(x)]),
        x.__setitem__(..., x[flipped(x)].copy()),
    ),
    "in place": lambda v, x, _: (v.__iadd__(3), x.__iadd__(3)),
    "in place, itself": lambda v, x, _: (
        v.__iadd__(v[flipped(x)]),
        x.__iadd__(x[flipped(x)].copy()),
    ),
    "out": lambda v, x, _: (np.multiply(v, 2, out=v), np.multiply(x, 2, out=x)),
    "out, overwritten": lambda v, x, _: (np.add(x * 0, 5, out=v), x.__setitem__(..., 5)),
    "masked": lambda v, x, _: (v.__setitem__(v > 3, 1), x.__setitem__(x > 3, 1)),
    "copy_from": lambda v, x, _: (v.copy_from(x + 1), x.__iadd__(1)),
    "fill": lambda v, x, _: (v.fill(2), x.fill(2)),
    "borrow": lambda _, x, borrow: (add(borrow("mutable"), 4), x.__iadd__(4)),
    "overwrite": lambda _, x, borrow: (
        borrow("overwrite").__setitem__(..., x * 3),
        x.__imul__(3),
    ),
}
READS = {
    "accessor": lambda v, side: getattr(v, f"{side}_data")(),
    "array": lambda v, _: np.asarray(v),
    "list": lambda v, _: np.array(v.tolist(), v.dtype).reshape(v.shape),
    "result": lambda v, _: (v + 0).cpu_data(),
    "duplicate": lambda v, side: getattr(v.copy(), f"{side}_data")(),
    "elements": lambda v, _: np.array([v.item(place) for place in range(v.size)], v.dtype).reshape(
        v.shape
    ),
}
# The host side and the simulated device use NumPy.
HOST = Simulated
# Exports of one side, made by the library of that side.
EXPORTS = {
    "const export": lambda side, device: device.alias(side.const),
    "copy": lambda side, device: device.copy(side),
}
# Actions that only a device that computes can run.
COMPUTING = {"in place", "in place, itself", "out", "out, overwritten", "masked", "result"}


def add(array, value):
    array[...] = np.asarray(array) + value


def flipped(x):
    return (slice(None, None, -1),) * x.ndim


def bounds(x, whole):
    """Return the offsets in the memory of a view's first byte and of the byte after its last."""
    start = whole.__array_interface__["data"][0]
    low, high = np.lib.array_utils.byte_bounds(x) if x.size else (start, start)
    return low - start, high - start


class Program:
    """A Blob, an ndarray with its expected contents, and the live aliases."""

    def __init__(self, shape, device, place, where):
        self.array = values("int32", shape)
        self.device = device
        self.places = {"cpu": "cpu", "gpu": device.name}
        self.blob = Blob(shape, "int32", device=self.places[place])
        self.blob.memory.side_of(device.accelerator)
        self.borrow(self.blob, where, "overwrite")[...] = self.array
        # The side, the range, the array over the Blob, and the array over the expected contents.
        self.aliases = []

    def borrow(self, v, side, kind):
        return self.device.seen(getattr(v, f"{kind}_{side}_data")())

    def prepare(self, x, side):
        """Drop the aliases that would become stale by a write on a side."""
        start, stop = bounds(x, self.array)
        self.aliases = [
            alias
            for alias in self.aliases
            if alias[0] == side or alias[1][1] <= start or alias[1][0] >= stop
        ]

    def write(self, action, v, x, side):
        self.prepare(x, side)
        WRITES[action](v, x, lambda kind: self.borrow(v, side, kind))

    def read(self, action, v, side):
        if action in READS:
            return self.device.seen(READS[action](v, side))
        return EXPORTS[action](getattr(v, side), self.device if side == "gpu" else HOST)

    def alias(self, v, x, side):
        self.prepare(x, side)
        array = (self.device if side == "gpu" else HOST).alias(getattr(v, side))
        # An alias without elements has no bytes that could become stale.
        if x.size:
            self.aliases.append((side, bounds(x, self.array), array, x))

    def write_alias(self, number):
        if self.aliases:
            _, _, array, x = self.aliases[number % len(self.aliases)]
            add(array, 1)
            x += 1

    def check(self):
        for side, _, array, x in self.aliases:
            # A write on the other side would have dropped the alias.
            np.testing.assert_array_equal(array, x, err_msg=side)


@st.composite
def part(draw, shape):
    key = draw(of_numpy.basic_indices(shape, allow_ellipsis=False))
    key = key if isinstance(key, tuple) else (key,)
    # With an ellipsis, indexing returns a view even if there is no axis.
    ndim = np.empty(shape)[(*key, ...)].ndim
    return (*key, ...), draw(st.permutations(range(ndim)))


@tiers.amount("examples", 50, 200)
def test_whatever_is_done_to_parts_the_contents_are_numpys(program_device, examples):
    @settings(max_examples=examples if program_device is Simulated else examples // 5)
    @given(data=st.data())
    def run(data):
        device = program_device()
        try:
            run_on(device, data)
        finally:
            device.close()

    run()


def run_on(device, data):
    shape = data.draw(of_numpy.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5))
    sides = st.sampled_from(["cpu", "gpu"])
    program = Program(shape, device, data.draw(sides), data.draw(sides))
    place = program.blob.device
    writes, reads = (
        sorted(actions if device.computes else actions.keys() - COMPUTING)
        for actions in (WRITES, READS | EXPORTS)
    )
    steps = st.lists(
        st.one_of(
            st.tuples(st.sampled_from(writes), part(shape), sides),
            st.tuples(st.sampled_from(reads), part(shape), sides),
            st.tuples(st.sampled_from(["alias", "prefetch", "push"]), part(shape), sides),
            st.tuples(st.just("write an alias"), st.integers(0, 9), sides),
        ),
        max_size=12,
    )
    for action, what, side in data.draw(steps):
        if action == "write an alias":
            program.write_alias(what)
            continue
        key, order = what
        v = program.blob[key].transpose(*order).on(program.places[side])
        x = program.array[key].transpose(*order)
        if action in WRITES:
            program.write(action, v, x, side)
        elif action in READS or action in EXPORTS:
            np.testing.assert_array_equal(program.read(action, v, side), x)
        elif action == "alias":
            program.alias(v, x, side)
        elif action == "prefetch":
            v.prefetch()
        elif v.head is Head.HEAD_AT_CPU:
            v.async_gpu_push()
        program.check()
    assert program.blob.device == place
    np.testing.assert_array_equal(device.seen(program.blob.const.gpu_data()), program.array)
    np.testing.assert_array_equal(np.array(program.blob), program.array)
    assert str(program.blob) == str(program.array)
