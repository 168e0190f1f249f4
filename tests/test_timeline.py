"""The timeline of a journal."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

from syncblob import Blob, record_transfers, simulated
from syncblob._source_lines import SourceLine
from syncblob._timeline import draw
from syncblob.transfers import Transfer

matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib")
matplotlib.use("Agg")
from matplotlib.figure import Figure  # noqa: E402  # optional

BLUE, VERMILION = "#0072b2", "#d55e00"


def transfer(direction: str, start: float, seconds: float = 1e-5, **rest) -> Transfer:
    line = SourceLine("/home/user/prog.py", rest.pop("lineno", 1))
    rest = {"nbytes": 4000, "reason": "gpu_data", "device": simulated(0), **rest}
    return Transfer(direction, seconds=seconds, line=line, start=start, **rest)


@pytest.fixture
def drawn():
    """Return a function that draws transfers as a log does, in axes without a window."""
    made = []

    def drawn(*transfers):
        axes = draw(transfers, None)
        made.append(axes.figure)
        axes.figure.canvas.draw()
        return axes

    yield drawn
    from matplotlib import pyplot as plt

    for figure in made:
        plt.close(figure)


def bars(axes, colour):
    """Return the bars of a colour: their left ends, bottoms, widths and heights."""
    found = [
        path.get_extents().bounds
        for lane in axes.collections
        if matplotlib.colors.to_hex(lane.get_facecolor()[0]) == colour
        for path in lane.get_paths()
    ]
    return np.array(found)


def labels(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def columns(axes, colour):
    """Count the groups of neighbouring columns, inside the frame, that show a colour."""
    pixels = np.asarray(axes.figure.canvas.buffer_rgba())[..., :3].astype(int)
    frame = axes.get_window_extent()
    inside = pixels[pixels.shape[0] - int(frame.y1) : pixels.shape[0] - int(frame.y0)]
    wanted = (np.array(matplotlib.colors.to_rgb(colour)) * 255).round()
    seen = (abs(inside - wanted).max(axis=2) < 40).any(axis=0).astype(int)
    return int((np.diff(seen, prepend=0) == 1).sum())


def test_uploads_and_downloads_have_lanes_and_colours_of_their_own(drawn):
    axes = drawn(
        transfer("upload", 7.0, 0.25), transfer("download", 7.5, 0.125), transfer("upload", 7.75)
    )
    uploads, downloads = bars(axes, BLUE), bars(axes, VERMILION)
    assert uploads[:, [0, 2]] == pytest.approx(np.array([[0, 250], [750, 0.01]]))
    assert downloads[:, [0, 2]] == pytest.approx(np.array([[500, 125]]))
    assert uploads[:, 1].min() >= (downloads[:, 1] + downloads[:, 3]).max()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "uploads, 7.8 KiB",
        "downloads, 3.9 KiB",
    ]
    assert axes.get_xlabel() == "time (ms)"


def test_each_of_many_short_transfers_is_seen(drawn):
    axes = drawn(
        *(transfer(("upload", "download")[i % 2], i * 0.02, 1e-5 + i * 1e-6) for i in range(40))
    )
    assert columns(axes, BLUE) == columns(axes, VERMILION) == 20


def test_a_transfer_of_a_few_bytes_beside_a_large_one_is_seen(drawn):
    axes = drawn(
        transfer("download", 0.0, 0.3, nbytes=10**9), transfer("upload", 0.5, 0.0, nbytes=1)
    )
    assert columns(axes, BLUE) == columns(axes, VERMILION) == 1


def test_bars_are_as_high_as_their_share_of_the_largest(drawn):
    sizes = (4_000_000, 2_000_000, 1_000_000)
    axes = drawn(*(transfer("upload", i, nbytes=size) for i, size in enumerate(sizes)))
    heights = bars(axes, BLUE)[:, 3]
    assert heights / heights[0] == pytest.approx([1, 0.5, 0.25])
    assert heights[0] < 1, "it would touch the next row"
    assert axes.get_legend().get_title().get_text().endswith("3.8 MiB")


def test_nothing_is_covered_or_cut_off(drawn):
    axes = drawn(transfer("upload", 0.0, 1.0), transfer("download", 0.5, 1.0, lineno=2))
    frame = axes.get_window_extent()
    assert axes.get_legend().get_window_extent().y0 >= frame.y1
    page = axes.figure.bbox
    for text in (axes.xaxis.label, *axes.get_yticklabels()):
        box = text.get_window_extent()
        assert page.x0 <= box.x0 < box.x1 <= page.x1
        assert page.y0 <= box.y0 < box.y1 <= page.y1
    lefts = bars(axes, BLUE)[:, 0]
    assert axes.get_xlim()[0] < lefts.min(), "the frame would hide it"


def test_each_line_of_code_has_a_row_with_its_text(drawn, monkeypatch):
    texts = ["price = blob.sum()  # $x_1$ and $\n", f"{'long' * 20}\n"]
    monkeypatch.setitem(linecache.cache, "/home/user/prog.py", (0, None, texts, ""))
    axes = drawn(
        transfer("upload", 0.0, lineno=2),
        transfer("upload", 1.0, lineno=1, name="weights"),
        transfer("upload", 2.0, lineno=2),
        transfer("download", 3.0, lineno=3),
    )
    first, second, third = (label.splitlines() for label in labels(axes))
    assert first[0].startswith("prog.py:2: longlong")
    assert first[0].endswith("…")
    assert first[1] == "2 transfers, 7.8 KiB"
    assert second == [
        "prog.py:1: price = blob.sum()  # $x_1$ and $",
        "weights: 1 transfer, 3.9 KiB",
    ]
    assert third[0] == "prog.py:3"
    assert len(set(bars(axes, BLUE)[:, 1])) == 2


def test_a_lane_of_many_lines_shows_those_that_moved_most(drawn):
    axes = drawn(
        *(transfer("upload", i, lineno=i, nbytes=1000 * (1 + i % 20)) for i in range(1, 20))
    )
    rows = labels(axes)
    assert [row.split("\n")[0] for row in rows[:-2]] == [f"prog.py:{i}" for i in range(14, 20)]
    assert rows[-2] == "13 other lines\n13 transfers, 101.6 KiB"
    assert rows[-1] == "no downloads"
    assert len(bars(axes, BLUE)) == 19


@pytest.mark.parametrize(("seconds", "unit", "width"), [(5e-5, "µs", 50), (2.0, "s", 2)])
def test_the_unit_of_time_suits_the_extent(drawn, seconds, unit, width):
    axes = drawn(transfer("upload", 3.0, seconds))
    assert axes.get_xlabel() == f"time ({unit})"
    assert bars(axes, BLUE)[:, 2] == pytest.approx([width])


def test_an_empty_log_is_drawn(drawn):
    axes = drawn()
    assert labels(axes) == ["no uploads", "no downloads"]
    assert axes.get_legend() is None


def test_a_log_is_drawn_into_axes_of_the_users():
    axes = Figure().subplots()
    blob = Blob(3, device="simulated")
    with record_transfers() as log:
        blob.mutable_gpu_data()
        blob.cpu_data()
    assert log.plot(axes) is axes
    assert len(bars(axes, VERMILION)) == 1
    assert labels(axes)[1].startswith("test_timeline.py:")
