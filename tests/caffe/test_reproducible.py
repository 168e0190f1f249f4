"""The same model gives the same bytes, at any time."""

from __future__ import annotations

import time

import numpy as np
import pytest

from syncblob import Layer, ModelFile, save_model

pytest.importorskip("h5py", reason="h5py, which writes HDF5, is missing")


def test_hdf5_does_not_note_when_it_was_written(tmp_path):
    model = ModelFile("net", [Layer("ip", blobs=[np.ones((2, 3), np.float32)])])
    first, second = tmp_path / "1.caffemodel.h5", tmp_path / "2.caffemodel.h5"
    save_model(model, first)
    # The format counts seconds.
    time.sleep(1.1)
    save_model(model, second)
    assert first.read_bytes() == second.read_bytes()
