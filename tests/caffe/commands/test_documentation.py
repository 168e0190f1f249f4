"""The command line prints what the documentation shows."""

import doctest
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import syncblob
from syncblob.caffe.commands.tour import write_lenet

_ROOT = Path(__file__).parents[3]
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DOCUMENTS = {
    str(path.relative_to(_ROOT)): path.read_text(encoding="utf-8")
    for path in [_ROOT / "README.md", *sorted((_ROOT / "docs").rglob("*.md"))]
}


def _commands(page):
    """Return the commands of a page in order, each with its documented output."""
    return [
        (command, expected)
        for block in _BLOCK.findall(_DOCUMENTS[page])
        for command, _, expected in (one.partition("\n") for one in f"\n{block}".split("\n$ ")[1:])
    ]


@pytest.mark.parametrize("page", [page for page in _DOCUMENTS if _commands(page)])
def test_commands_print_what_the_page_shows(run, tmp_path, monkeypatch, page):
    monkeypatch.chdir(tmp_path)
    write_lenet(Path("lenet.caffemodel"))
    syncblob.write_blob(np.full((1, 3, 4, 4), 128, np.float32), "mean.binaryproto")
    for command, expected in _commands(page):
        program, *arguments = shlex.split(command)
        assert program == "syncblob"
        done = run(*arguments)
        assert done.err == ""
        same = doctest.OutputChecker().check_output(
            expected.rstrip() + "\n", done.out, doctest.ELLIPSIS
        )
        assert same, f"{command} prints\n{done.out}"


def test_the_page_names_every_option(run):
    page = _DOCUMENTS["docs/command-line.md"]
    for command in ("inspect", "diff", "convert"):
        for option in re.findall(r"^  (--[a-z-]+)", run(command, "--help").out, re.MULTILINE):
            assert option in page, (command, option)
