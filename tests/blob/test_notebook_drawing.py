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
from syncblob.memory.accesses import expose


def parsed(blob: Blob) -> ET.Element:
    return ET.fromstring(blob._repr_html_())  # noqa: S314  # our own


def pictures(blob: Blob) -> list[tuple[str, list[ET.Element]]]:
    """Return the titles of a Blob's pictures and their marks, from top to bottom."""
    return [
        (svg.attrib["aria-label"].split(",")[0].split(":")[0], svg.findall("./g/rect"))
        for svg in parsed(blob).iter("svg")
    ]


def ranges(marks: list[ET.Element]) -> list[tuple[float, float]]:
    """Return the starts and lengths of marks, in percent."""
    assert all(mark.attrib[key].endswith("%") for mark in marks for key in ("x", "width"))
    return [(float(mark.attrib["x"][:-1]), float(mark.attrib["width"][:-1])) for mark in marks]


def test_each_home_shows_which_bytes_it_holds_newest():
    blob = split()
    (host, first), (accelerator, second) = pictures(blob)
    assert (host, accelerator) == ("host", "accelerator")
    assert ranges(first) == [(0, 25)]
    assert ranges(second) == [(25, 75)]
    assert second[0].find("title").text == "bytes 20 to 80: newest"
    blob[40:60].cpu_data()
    assert [ranges(marks) for _, marks in pictures(blob)] == [[(0, 25), (50, 25)], [(25, 75)]]
    blob.cpu_data()
    assert [ranges(marks) for _, marks in pictures(blob)] == [[(0, 100)], [(25, 75)]]


def values(blob: Blob) -> str | None:
    """Return the values that are shown; None if there is only the reason why they are not."""
    text = parsed(blob).findtext("pre")
    return None if text == "values not on the host; print() brings those that it shows" else text


def test_values_that_the_host_holds_are_shown_as_str_does():
    blob = Blob((400, 3), "int16", device="simulated")
    assert values(blob) == str(blob)
    blob[...] = np.arange(1200).reshape(400, 3)
    with record_transfers() as log:
        assert values(blob) is None
        blob[:3].cpu_data()
        assert values(blob) is None
        blob[-3:].cpu_data()
        shown = values(blob)
    assert (log.downloads, len(log)) == (2, 2)
    assert shown == str(blob)
    assert "..." in shown
    assert values(blob[0, 1:3]) == "[1 2]"
    assert values(blob[5:8]) is None
    assert values(blob[0, 1]) == "1"
    assert shown not in blob.explain()._repr_html_(), "it is about the sides"


@pytest.mark.parametrize("shape", [(), (0, 2), (2, 2)])
def test_values_of_other_blobs(shape):
    assert values(Blob(shape)) == str(Blob(shape))
    assert values(Blob.asarray(np.ones(shape))) == str(np.ones(shape))


def test_values_are_not_read_from_a_source():
    def source():
        raise AssertionError("it was read")

    memory = SyncedMemory(8, source=source)
    blob = Blob.from_memory(memory, Layout.c_order((2,), np.dtype("f4")))
    assert values(blob) is None


@pytest.mark.parametrize("touched", [False, True])
def test_a_home_without_memory_is_an_empty_frame(touched):
    blob = Blob(3, device="simulated")
    if touched:
        blob.mutable_gpu_data()
        blob.mutable_cpu_data()
    host, accelerator = parsed(blob).iter("svg")
    for svg, allocated in ((host, touched), (accelerator, touched)):
        frame = svg.find("rect")
        assert ("stroke-dasharray" in frame.attrib) != allocated
        assert (float(frame.attrib["fill-opacity"]) > 0) == allocated


def test_aliases_are_over_the_bytes_of_the_host_and_below_those_of_the_accelerator():
    blob = split()
    kept = [np.asarray(blob[4:8].cpu), np.from_dlpack(blob[6:12].cpu), np.asarray(blob[60:].gpu)]
    drawn = pictures(blob)
    assert [what for what, _ in drawn] == ["alias", "host", "accelerator", "alias"]
    assert sorted(ranges(drawn[0][1])) == [(5, 5), (7.5, 7.5)]
    assert ranges(drawn[3][1]) == [(75, 25)]
    assert "alias of the accelerator side, created at " in drawn[3][1][0].find("title").text
    expose(blob.memory, Side.HOST, start=0, stop=2)
    assert (0, 2.5) in ranges(pictures(blob)[0][1])
    del kept
    assert ranges(pictures(blob)[0][1]) == [(0, 2.5)]


def test_a_view_shows_its_part():
    (*_, (what, marks)) = pictures(split()[10:30])
    assert what == "this view"
    assert ranges(marks) == [(12.5, 25)]
    assert len(pictures(split()[...])) == 2


def test_one_byte_of_many_is_seen():
    blob = Blob(10**6, "int8", device="simulated")
    blob[...] = 1
    blob[5:6].mutable_cpu_data()
    group = next(parsed(blob).iter("svg")).find("g")
    # Narrower than a pixel, but its edge is visible.
    assert ranges(list(group)) == [(0.0005, 0.0001)]
    assert group.attrib["stroke"] == group.attrib["fill"]


def test_the_gradient_is_drawn_once_it_is_there():
    blob = split()
    assert len(pictures(blob)) == 2
    blob.diff[...] = 1
    blob[:40].mutable_cpu_diff()
    assert [ranges(marks) for _, marks in pictures(blob)[2:]] == [[(0, 50)], [(50, 50)]]


def test_names_and_lines_of_code_are_escaped():
    blob = split()
    blob.name = "<script>alert('&')</script>"
    root = parsed(blob)
    assert blob.name in root.find("strong").text
    assert not any(element.tag in {"script", "style"} for element in root.iter())
    assert "UNINITIALIZED -> HEAD_AT_GPU" in "".join(root.itertext())


def test_drawing_moves_makes_and_changes_nothing():
    blob = split()
    other = Blob(10**9, device="simulated")
    borrow = blob[:20].mutable_cpu_data()
    before = blob.memory.spans, blob.memory.history
    with record_transfers() as log:
        blob._repr_html_()
        other._repr_html_()
    assert len(log) == log.avoided == 0
    assert (blob.memory.spans, blob.memory.history) == before
    assert borrow.flags.writeable
    assert [other.memory.buffer(side) for side in Side] == [None, None]


@pytest.mark.parametrize("shape", [(), (0, 2)])
def test_every_blob_can_be_drawn(shape):
    for touched in (False, True):
        blob = Blob(shape, device="simulated")
        if touched:
            blob.gpu_data()
        assert len(pictures(blob)) == (2 if blob.nbytes else 0)
        assert len(pictures(blob.const)) == len(pictures(blob))


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
