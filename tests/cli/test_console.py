"""Plain text or colours, sizes in words, and names that would upset a terminal."""

from __future__ import annotations

import io
import json

import pytest

from syncblob.cli._console import human_bytes, print_json, printable

_ESCAPE = "\x1b"


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("conv1/3x3", "conv1/3x3"),
        ("Größe 大", "Größe 大"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\udcff", r"\udcff"),
    ],
)
def test_what_does_not_print_is_escaped(text, shown):
    assert printable(text, io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) == shown


def test_what_the_stream_cannot_encode_is_escaped():
    assert printable("é大", io.TextIOWrapper(io.BytesIO(), encoding="latin-1")) == r"é\u5927"


def test_json_has_no_literals_that_json_does_not_know():
    with pytest.raises(ValueError, match="JSON"):
        print_json({"mean": float("nan")})


@pytest.fixture
def model(write_model):
    return write_model(("conv1", "Convolution", [[[1.0, 2.0]], [0.5]]), ("relu1", "ReLU", []))


def test_a_pipe_gets_plain_text(spawn, model):
    done = spawn("inspect", model, "--stats")
    assert done.status == 0
    assert done.out.isascii()
    assert _ESCAPE not in done.out
    assert done.out.splitlines() == [line.rstrip() for line in done.out.splitlines()]


def test_a_terminal_gets_colours_and_lines(terminal, model):
    done = terminal("inspect", model)
    assert done.status == 0
    assert _ESCAPE in done.out
    assert "\N{BOX DRAWINGS LIGHT HORIZONTAL}" in done.out


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_without_colours_gets_plain_text(terminal, model, variables):
    done = terminal("inspect", model, **variables)
    assert done.status == 0
    assert _ESCAPE not in done.out
    assert done.out.isascii()


def test_a_terminal_shows_a_name_once_and_a_pipe_on_each_row(terminal, spawn, model):
    assert terminal("inspect", model).out.count("conv1") == 1
    assert spawn("inspect", model).out.count("conv1") == 2


def test_the_output_of_a_terminal_without_unicode(terminal, model):
    done = terminal("inspect", model, PYTHONIOENCODING="ascii")
    assert done.status == 0
    assert "conv1" in done.out
    assert done.out.isascii()


def test_json_is_the_same_on_a_terminal(terminal, spawn, model):
    on_terminal = terminal("inspect", model, "--json")
    assert _ESCAPE not in on_terminal.out
    assert json.loads(on_terminal.out) == json.loads(spawn("inspect", model, "--json").out)
