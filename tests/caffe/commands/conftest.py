"""Fixtures shared by the tests of the command line: runs of it, and files for it."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
import pytest

from syncblob import Blob
from syncblob.caffe._pb.caffe_pb2 import NetParameter
from syncblob.caffe.commands import main, tour

# Variables that change how programs treat their output.
_SETTINGS = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES")


class Result(NamedTuple):
    """The result of a run of the command line."""

    status: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """Set a width of 80 columns, and no variable for colours."""
    for name in _SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the command line in this process. Its output is not a terminal."""

    def run(*arguments, **variables):
        capsys.readouterr()
        status = _status(arguments, variables, monkeypatch)
        return Result(status, *capsys.readouterr())

    return run


def _status(arguments, variables, monkeypatch):
    """Run the command line with more environment variables. Return its exit status."""
    with monkeypatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        try:
            return main([str(argument) for argument in arguments])
        except SystemExit as ended:
            return ended.code


@pytest.fixture
def inspect_json(run):
    """Inspect a file and return the output from JSON."""

    def inspect_json(*arguments):
        done = run("inspect", *arguments, "--json")
        assert done.status == 0
        assert done.err == ""
        # NaN and Infinity are not JSON.
        return json.loads(done.out, parse_constant=pytest.fail)

    return inspect_json


@pytest.fixture
def spawn():
    """Run the command line, or a line of Python, in a separate process."""

    def spawn(*arguments, python=None, **variables):
        how = ["-m", "syncblob"] if python is None else ["-c", python]
        done = subprocess.run(
            [sys.executable, "-W", "error", *how, *map(str, arguments)],
            capture_output=True,
            check=False,
            encoding="utf-8",
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **variables},
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return spawn


@pytest.fixture
def terminal(monkeypatch):
    """Run the command line in this process, in a terminal of a given width."""
    pty = pytest.importorskip("pty", reason="no pseudo-terminals on this system")
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    monkeypatch.delenv("COLUMNS")

    def terminal(*arguments, columns=80, encoding="utf-8", **variables):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        shown = []
        reader = threading.Thread(target=lambda: shown.extend(iter(lambda: _read(ours), b"")))
        with ExitStack() as stack:
            patch = stack.enter_context(monkeypatch.context())
            # rich checks the file descriptors, not sys.stdout.
            for number, name in enumerate(("stdin", "stdout", "stderr")):
                stack.callback(_restore, os.dup(number), number)
                os.dup2(theirs, number)
                stream = open(number, "w" if number else "r", encoding=encoding, closefd=False)  # noqa: SIM115  # it must stay open
                patch.setattr(sys, name, stream)
            os.close(theirs)
            reader.start()
            status = _status(arguments, variables, monkeypatch)
            sys.stdout.flush()
            sys.stderr.flush()
        reader.join()
        os.close(ours)
        return Result(status, b"".join(shown).decode().replace("\r\n", "\n"), "")

    return terminal


def _restore(saved, number):
    os.dup2(saved, number)
    os.close(saved)


def _read(terminal):
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        # Linux reports this when the other end is closed.
        return b""


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
