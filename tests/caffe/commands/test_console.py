"""Tables, sizes in words, and names that could disturb a terminal."""

import io
import sys

import numpy as np
import pytest

from syncblob._formatting import human_bytes
from syncblob.caffe.commands.console import print_table


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1_600_000, "1.5 MiB"),
        (1024**2 - 1, "1.0 MiB"),
        (1024**3, "1.0 GiB"),
        (5 * 1024**5, "5120.0 TiB"),
    ],
)
def test_sizes(nbytes, text):
    assert human_bytes(nbytes) == text


def test_what_a_stream_cannot_encode_is_escaped(run, monkeypatch, tmp_path):
    np.savez(tmp_path / "x.npz", a=np.ones(1), é=np.array("text"))
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", shown)
    assert run("convert", tmp_path / "x.npz", tmp_path / "y.npz").status == 0
    assert run("inspect", tmp_path / "x.npz").status == 0
    assert shown.buffer.getvalue().count(rb"the text '\xe9'") == 2


def test_columns_are_as_wide_as_a_terminal_shows_their_texts(capsys):
    print_table([{"name": "大", "n": "1"}, {"name": "Größe", "n": "20"}], title="T", right=["n"])
    assert capsys.readouterr().out == ("\nT\nname    n\n---------\n大      1\nGröße  20\n")
