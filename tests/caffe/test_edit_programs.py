"""Random programs of edits, saves and reopenings, compared with a list of names and arrays."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from syncblob.caffe import Layer, ModelFile, open_model, save_model
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
        self.expected = [("a", [np.array([1, 2], np.float32)])]
        self.values = 0

    def teardown(self):
        self.folder.cleanup()

    def position(self, name):
        return [found for found, _ in self.expected].index(name)

    def array(self, shape):
        self.values += 1
        return np.full(shape, self.values, np.float32)

    def has(self, name):
        return name in dict(self.expected)

    @rule(name=NAMES, shape=SHAPES, data=st.data())
    def add(self, name, shape, data):
        if self.has(name):
            return
        array = self.array(shape)
        neighbour = data.draw(st.sampled_from([None, *dict(self.expected)]))
        side = data.draw(st.sampled_from(["before", "after"]))
        self.model.add(Layer(name, blobs=[array]), **{side: neighbour})
        position = len(self.expected) if neighbour is None else self.position(neighbour)
        position += neighbour is not None and side == "after"
        self.expected.insert(position, (name, [array.copy()]))

    @precondition(lambda self: self.expected)
    @rule(name=NAMES, data=st.data())
    def copy(self, name, data):
        source = data.draw(st.sampled_from(list(dict(self.expected))))
        blobs = dict(self.expected)[source]
        self.model[name] = self.model[source]
        assert self.model[name].blobs[0] is self.model[source].blobs[0]
        if self.has(name):
            self.expected[self.position(name)] = (name, blobs)
        else:
            self.expected.append((name, blobs))

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def remove(self, data):
        name = data.draw(st.sampled_from(list(dict(self.expected))))
        del self.model[name]
        del self.expected[self.position(name)]

    @precondition(lambda self: self.expected)
    @rule(new=NAMES, data=st.data())
    def rename(self, new, data):
        old = data.draw(st.sampled_from(list(dict(self.expected))))
        if self.has(new):
            return
        self.model.rename(old, new)
        self.expected[self.position(old)] = (new, self.expected[self.position(old)][1])

    @precondition(lambda self: self.expected)
    @rule(shape=SHAPES, data=st.data())
    def replace(self, shape, data):
        name, blobs = data.draw(st.sampled_from(self.expected))
        array = self.array(shape)
        self.model[name].replace_blob(0, array, resize=True)
        self.expected[self.position(name)] = (name, [array.copy(), *blobs[1:]])

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def append(self, data):
        name, blobs = data.draw(st.sampled_from(self.expected))
        array = self.array((2,))
        self.model[name].blobs.append(array)
        self.expected[self.position(name)] = (name, [*blobs, array.copy()])

    @precondition(lambda self: self.expected)
    @rule(data=st.data(), change=st.booleans())
    def touch(self, data, change):
        name, blobs = data.draw(st.sampled_from(self.expected))
        values = self.model[name].blobs[0].mutable_cpu_data()
        if change:
            values += 1
            blobs[0] += 1

    @rule(name=st.sampled_from(["", "net"]))
    def name_the_net(self, name):
        self.model.name = name

    @rule(reopened=st.booleans())
    def save(self, reopened):
        save_model(self.model, self.path)
        again = open_model(self.path)
        assert again.name == self.model.name
        self.compare(again)
        if reopened:
            self.model = again
            self.expected = [(name, [*map(np.copy, blobs)]) for name, blobs in self.expected]
            before = self.path.read_bytes()
            save_model(again, self.path)
            assert self.path.read_bytes() == before

    @invariant()
    def names(self):
        if hasattr(self, "model"):
            assert [layer.name for layer in self.model.layers] == [
                name for name, _ in self.expected
            ]

    def compare(self, model: ModelFile):
        assert list(model) == [name for name, _ in self.expected]
        for layer, (_, blobs) in zip(model.layers, self.expected, strict=True):
            assert len(layer.blobs) == len(blobs)
            for blob, array in zip(layer.blobs, blobs, strict=True):
                assert blob.shape == array.shape
                assert blob.cpu_data().tolist() == array.tolist()


TestEdits = Edits.TestCase
TestEdits.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
