"""Random programs of edits, saves and reopenings, compared with a list of names and arrays."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from syncblob.caffe import Layer, open_model, save_model
from syncblob.caffe.messages.wire import length_header

NAMES = st.sampled_from("abcd")
SHAPES = st.sampled_from([(), (2,), (2, 3), (0, 2)])
# An unusual layer: unpacked values, the name after them, and a field of a fork.
ODD_BLOB = b"\x3a\x02\x08\x02" + b"".join(b"\x2d" + np.float32(n).tobytes() for n in (1, 2))
ODD_LAYER = length_header(7, len(ODD_BLOB)) + ODD_BLOB + b"\x0a\x01a" + b"\xca\x3e\x01x"


class Edits(RuleBasedStateMachine):
    """A model and its expected contents."""

    @initialize()
    def open(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "net.caffemodel"
        self.path.write_bytes(b"\xca\x3e\x01y" + length_header(100, len(ODD_LAYER)) + ODD_LAYER)
        self.model = open_model(self.path)
        self.expected = {"a": [np.array([1, 2], np.float32)]}
        self.values = 0

    def teardown(self):
        self.folder.cleanup()

    def array(self, shape):
        self.values += 1
        return np.full(shape, self.values, np.float32)

    def drawn(self, data):
        return data.draw(st.sampled_from(list(self.expected)))

    @rule(name=NAMES, shape=SHAPES, data=st.data(), side=st.sampled_from(["before", "after"]))
    def add(self, name, shape, data, side):
        if name in self.expected:
            return
        array = self.array(shape)
        names = list(self.expected)
        neighbour = data.draw(st.sampled_from([None, *names]))
        self.model.add(Layer(name, blobs=[array]), **{side: neighbour})
        position = len(names) if neighbour is None else names.index(neighbour)
        position += neighbour is not None and side == "after"
        layers = list(self.expected.items())
        layers.insert(position, (name, [array.copy()]))
        self.expected = dict(layers)

    @precondition(lambda self: self.expected)
    @rule(name=NAMES, data=st.data())
    def copy(self, name, data):
        source = self.drawn(data)
        self.model[name] = self.model[source]
        assert self.model[name].blobs[0] is self.model[source].blobs[0]
        self.expected[name] = self.expected[source]

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def remove(self, data):
        name = self.drawn(data)
        del self.model[name]
        del self.expected[name]

    @precondition(lambda self: self.expected)
    @rule(new=NAMES, data=st.data())
    def rename(self, new, data):
        old = self.drawn(data)
        if new in self.expected:
            return
        self.model.rename(old, new)
        self.expected = {
            new if name == old else name: blobs for name, blobs in self.expected.items()
        }

    @precondition(lambda self: self.expected)
    @rule(shape=SHAPES, data=st.data())
    def replace(self, shape, data):
        name, array = self.drawn(data), self.array(shape)
        self.model[name].replace_blob(0, array, resize=True)
        self.expected[name] = [array.copy(), *self.expected[name][1:]]

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def append(self, data):
        name, array = self.drawn(data), self.array((2,))
        self.model[name].blobs.append(array)
        self.expected[name] = [*self.expected[name], array.copy()]

    @precondition(lambda self: self.expected)
    @rule(data=st.data(), change=st.booleans())
    def touch(self, data, change):
        name = self.drawn(data)
        values = self.model[name].blobs[0].mutable_cpu_data()
        if change:
            values += 1
            self.expected[name][0] += 1

    @rule(name=st.sampled_from(["", "net"]))
    def name_the_net(self, name):
        self.model.name = name

    @rule(reopened=st.booleans())
    def save(self, reopened):
        save_model(self.model, self.path)
        again = open_model(self.path)
        assert again.name == self.model.name
        assert list(again) == list(self.expected)
        for layer, arrays in zip(again.layers, self.expected.values(), strict=True):
            assert [blob.shape for blob in layer.blobs] == [array.shape for array in arrays]
            assert [blob.tolist() for blob in layer.blobs] == [array.tolist() for array in arrays]
        if reopened:
            self.model = again
            self.expected = {
                name: [array.copy() for array in blobs] for name, blobs in self.expected.items()
            }
            before = self.path.read_bytes()
            save_model(again, self.path)
            assert self.path.read_bytes() == before

    @invariant()
    def names(self):
        if hasattr(self, "model"):
            assert [layer.name for layer in self.model.layers] == list(self.expected)


TestEdits = Edits.TestCase
TestEdits.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
