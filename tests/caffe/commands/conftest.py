"""Fixtures shared by the tests of the command line: runs of it, and files for it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

from syncblob import Blob
from syncblob.caffe._pb.caffe_pb2 import NetParameter
from syncblob.caffe.commands import main, tour


class Result(NamedTuple):
    """The result of a run of the command line."""

    status: int
    out: str
    err: str


@pytest.fixture
def run(capsys):
    """Run the command line in this process."""

    def run(*arguments):
        capsys.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as ended:
            status = ended.code
        return Result(status, *capsys.readouterr())

    return run


@pytest.fixture
def spawn():
    """Run the command line, or a line of Python, in a separate process."""

    def spawn(*arguments, python=None):
        how = ["-m", "syncblob"] if python is None else ["-c", python]
        done = subprocess.run(
            [sys.executable, "-W", "error", *how, *map(str, arguments)],
            capture_output=True,
            check=False,
            encoding="utf-8",
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return spawn


@pytest.fixture
def write_model(tmp_path):
    """Write a ``.caffemodel`` file of layers given as (name, type, arrays)."""

    def write_model(*layers, name="model.caffemodel", net="a net", gradient=False):
        message = NetParameter(name=net)
        for layer_name, kind, arrays in layers:
            layer = message.layer.add(name=layer_name, type=kind, bottom=["in"], top=[layer_name])
            for array in arrays:
                blob = Blob.asarray(np.array(array))
                layer.blobs.append(blob.to_proto(write_diff=gradient))
        path = tmp_path / name
        path.write_bytes(message.SerializeToString())
        return path

    return write_model


@pytest.fixture
def small_model(write_model):
    """Write a model with a layer without blobs, an empty blob, and values that are not finite."""
    return write_model(
        ("data", "Input", []),
        ("conv1", "Convolution", [np.full((2, 1, 3, 3), 0.5, "f4"), np.array([1.0, 3.0], "f4")]),
        ("bn", "BatchNorm", [np.array([np.nan, 1.0, np.inf]), np.zeros((0, 4), "f4")]),
        net="small",
    )


@pytest.fixture
def no_cuda(monkeypatch):
    """Run the tour on the simulated device, even if there is a GPU."""
    monkeypatch.setattr(tour, "_find_device", lambda: ("simulated:0", "this is a test"))
