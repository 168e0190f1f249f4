"""The drawing of a Blob in a notebook."""

from __future__ import annotations

import linecache
import os
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from made_blobs import split

from syncblob import Blob, SyncedMemory, record_transfers
from syncblob._layout import Layout
from syncblob.devices import Side


def parsed(blob: Blob) -> ET.Element:
    return ET.fromstring(blob._repr_html_())  # noqa: S314  # our own


def values(blob: Blob) -> str | None:
    """Return the values that are shown; None if there is only the reason why they are not."""
    text = parsed(blob).findtext("pre")
    return None if text == "values not on the host; print() brings those that it shows" else text


@pytest.mark.parametrize("shape", [(), (0, 2), (400, 3)])
def test_values_that_the_host_holds_are_shown_as_str_does(shape):
    blob = Blob(shape, "int16", device="simulated", name="<script>")
    assert values(blob) == str(blob)
    assert [blob.memory.buffer(side) for side in Side] == [None, None]
    blob[...] = 1
    before = blob.memory.spans, blob.memory.history
    with record_transfers() as log:
        assert values(blob) == (None if blob.size else "[]")
        assert (len(log), log.avoided) == (0, 0)
        assert (blob.memory.spans, blob.memory.history) == before
        blob.cpu_data()
        assert values(blob) == str(blob)
    assert log.downloads == bool(blob.size)


def test_values_are_not_read_from_a_source():
    memory = SyncedMemory(8, source=lambda: pytest.fail("it was read"))
    assert values(Blob.from_memory(memory, Layout.c_order((2,), np.dtype("f4")))) is None


def test_bars_show_one_byte_of_many_and_the_gradient():
    blob = split()
    blob.diff[...] = 1
    blob[5:6].mutable_cpu_diff()
    drawn = {x.attrib["aria-label"]: x.find("g") for x in parsed(blob).iter("svg")}
    assert [*drawn] == [f"{x}on the {y}" for x in ("", "diff ") for y in ("host", "accelerator")]
    group = drawn["diff on the host"]
    assert group.attrib["stroke"] == group.attrib["fill"], "its edge is always visible"
    assert [(rect.attrib["x"], rect.attrib["width"]) for rect in group] == [("6.25%", "1.25%")]


EXAMPLE = """\
image = Blob((8, 100), device="simulated", name="image")
image.overwrite_cpu_data()[...] = 0
image[2:4].mutable_gpu_data()[...] = 1
alias = np.from_dlpack(image[4].cpu)
"""


def test_the_drawing_in_the_documentation_is_what_a_notebook_shows(monkeypatch):
    """The example comes from ``docs/transfers.md``. SYNCBLOB_DRAW=1 writes the drawing again."""
    lines = EXAMPLE.splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, "image.py", (len(EXAMPLE), None, lines, "image.py"))
    names = {"Blob": Blob, "np": np}
    exec(compile(EXAMPLE, "image.py", "exec"), names)  # noqa: S102  # the string above
    drawn = f"{names['image'][:4]._repr_html_()}\n"
    file = Path(__file__).parents[2] / "docs" / "_static" / "notebook.html"
    if os.environ.get("SYNCBLOB_DRAW"):
        file.write_text(drawn, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == drawn
