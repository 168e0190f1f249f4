"""Plain text or colours, sizes in words, and names that could disturb a terminal."""

import io
import json
import re
import sys

import numpy as np
import pytest

from syncblob._formatting import human_bytes
from syncblob.caffe.commands.console import Output, print_json, printable

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
    ("text", "shown", "encoding"),
    [
        ("conv1/3x3", "conv1/3x3", "utf-8"),
        ("Größe 大", "Größe 大", "utf-8"),
        ("a\nb\tc", r"a\nb\tc", "utf-8"),
        ("\x1b[31mred", r"\x1b[31mred", "utf-8"),
        ("caf\udce9", "caf\N{REPLACEMENT CHARACTER}", "utf-8"),
        ("é大", r"é\u5927", "latin-1"),
    ],
)
def test_what_does_not_print_is_escaped(text, shown, encoding):
    assert printable(text, io.TextIOWrapper(io.BytesIO(), encoding=encoding)) == shown


def test_json_has_no_literals_that_json_does_not_know():
    with pytest.raises(ValueError, match="JSON"):
        print_json({"mean": float("nan")})


@pytest.fixture
def model(write_model):
    return write_model(("conv1", "Convolution", [[[1.0, 2.0]], [0.5]]), ("relu1", "ReLU", []))


def test_a_terminal_gets_colours_and_lines_and_shows_a_name_once(terminal, run, model):
    done = terminal("inspect", model)
    assert done.status == 0
    assert _ESCAPE in done.out
    assert "\N{BOX DRAWINGS LIGHT HORIZONTAL}" in done.out
    assert done.out.count("conv1") == 1
    assert run("inspect", model).out.count("conv1") == 2


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"encoding": "ascii"}])
def test_a_terminal_without_colours_or_unicode_gets_plain_text(terminal, model, variables):
    done = terminal("inspect", model, **variables)
    assert done.status == 0
    assert (_ESCAPE in done.out) == ("encoding" in variables)
    assert "conv1" in done.out
    assert done.out.isascii()


@pytest.mark.parametrize("variables", [{"COLUMNS": "30"}, {"FORCE_COLOR": "1", "COLUMNS": "30"}])
def test_nothing_is_cut_or_broken_in_a_pipe(run, model, variables):
    wide = [line.split() for line in run("inspect", model, "--stats").out.splitlines()]
    narrow = re.sub(r"\x1b\[[\d;]*m", "", run("inspect", model, "--stats", **variables).out)
    found = [line.split() for line in narrow.splitlines()]
    assert found[0] == wide[0]
    assert any("0.5" in line for line in found)
    assert len(found) == len(wide)


_ROWS = [
    dict(zip(("layer", "type", "number", "values"), row, strict=True))
    for row in (
        ["a_layer_of_a_long_name", "Convolution", "-1.23e-05", "@@ ## ::"],
        ["", ("ReLU", "dim"), "0", "::::::::"],
    )
]
# With both texts wrapped to 8 columns, and without wrapping.
_NARROWEST, _WIDEST = 8 + 2 + 8 + 2 + 9 + 2 + 8, 22 + 2 + 11 + 2 + 9 + 2 + 8


@pytest.mark.parametrize("width", range(20, 70))
def test_texts_are_wrapped_and_no_number_is_cut_however_narrow_a_terminal_is(
    monkeypatch, capsys, width
):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    Output().table(_ROWS, right="number", folds="layer type")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) == min(max(width, _NARROWEST), _WIDEST)
    assert lines[0].split() == ["layer", "type", "number", "values"]
    numbers = lines[0].index("number") - len("-1.23e-05") + len("number")
    assert [line[numbers:].strip() for line in lines[2:] if line[numbers:].strip()] == [
        "-1.23e-05  @@ ## ::",
        "0  ::::::::",
    ]
    types = lines[0].index("type")
    assert "".join(line[:types].strip() for line in lines[2:]) == "a_layer_of_a_long_name"
    assert "".join(line[types:numbers].strip() for line in lines[2:]) == "ConvolutionReLU"


def test_texts_left_out_on_a_terminal_without_unicode(terminal, tmp_path):
    np.savez(tmp_path / "x.npz", a=np.ones(1), é=np.array("text"))
    done = terminal("convert", tmp_path / "x.npz", tmp_path / "y.npz", encoding="ascii")
    assert done.status == 0
    assert r"the text '\xe9'" in done.out


def test_json_is_the_same_on_a_terminal(terminal, run, model):
    on_terminal = terminal("inspect", model, "--json")
    assert _ESCAPE not in on_terminal.out
    assert json.loads(on_terminal.out) == json.loads(run("inspect", model, "--json").out)
