"""The timeline of a log."""

import linecache

import numpy as np
import pytest

from syncblob import Blob, Device, record_transfers
from syncblob import simulated as simulated_device
from syncblob._source_lines import SourceLine
from syncblob.transfers import Transfer
from syncblob.transfers.log import Operation
from syncblob.transfers.timeline import draw

matplotlib = pytest.importorskip("matplotlib", reason="plots need matplotlib")
matplotlib.use("Agg")
from matplotlib.figure import Figure  # noqa: E402  # optional

BLUE, VERMILION, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#808080"


def transfer(direction, start, seconds=1e-5, **rest):
    line = SourceLine("/home/user/prog.py", rest.pop("lineno", 1))
    rest = {"nbytes": 4000, "reason": "gpu_data", "device": simulated_device(0), **rest}
    return Transfer(direction, seconds=seconds, line=line, start=start, **rest)


@pytest.fixture
def drawn():
    """Return a function that draws transfers as a log does, in axes without a window."""
    made = []

    def drawn(*transfers, operations=()):
        axes = draw(transfers, None, operations)
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


def operation(start, seconds, lineno=1, name="multiply"):
    line = SourceLine("/home/user/prog.py", lineno)
    return Operation(name, Device("simulated"), line, start, seconds)


def test_operations_have_a_lane_on_top(drawn):
    axes = drawn(
        transfer("upload", 1.0, 0.5),
        operations=[operation(0.0, 0.25), operation(2.0, 0.25), operation(3.0, 0.5, 2, "add")],
    )
    lane = bars(axes, GREEN)
    assert lane[:, [0, 2]] == pytest.approx(np.array([[0, 250], [2000, 250], [3000, 500]]))
    assert lane[:, 1].min() >= bars(axes, BLUE)[:, 1].max()
    assert labels(axes) == [
        "prog.py:1\nmultiply on simulated:0: 2 calls, 500.000 ms",
        "prog.py:2\nadd on simulated:0: 1 call, 500.000 ms",
        "prog.py:1\n1 transfer, 3.9 KiB",
    ]
    assert axes.get_legend().get_texts()[0].get_text() == "operations, 1000.000 ms"


def test_an_asynchronous_upload_is_pale_until_it_arrived(drawn):
    axes = drawn(
        transfer("upload", 0.0, 0.01, asynchronous=True, arrived=0.75),
        transfer("upload", 0.5, 0.01, asynchronous=True, lineno=2),
        transfer("upload", 1.0, 0.25, lineno=3),
    )
    plain, pale = (lane for lane in axes.collections if "uploads" in lane.get_label())
    assert (pale.get_alpha(), plain.get_alpha()) == (0.4, None)
    widths = [path.get_extents().width for path in pale.get_paths()]
    # When the second arrived is unknown.
    assert widths == pytest.approx([750, 10])
    assert pale.get_label() == "asynchronous uploads, 7.8 KiB"


def test_what_runs_at_once_with_an_asynchronous_upload_is_marked(drawn):
    pushes = [
        transfer("upload", 1.0, 0.01, asynchronous=True, arrived=3.0),
        transfer("upload", 8.0, 0.01, asynchronous=True, arrived=9.0),
    ]
    axes = drawn(
        *pushes,
        transfer("download", 2.5, 1.0),
        operations=[operation(0.0, 1.5), operation(1.25, 0.5), operation(5.0, 2.0)],
    )
    bands = bars(axes, GREY)
    assert bands[:, [0, 2]] == pytest.approx(np.array([[1000, 750], [2500, 500]]))
    assert bands[:, 3] == pytest.approx([len(labels(axes))] * 2)
    assert axes.get_legend().get_texts()[-1].get_text() == "overlap, 1250.000 ms"
    alone = drawn(*pushes, operations=[operation(0.0, 0.5)])
    assert len(bars(alone, GREY)) == 0


def test_the_log_gives_its_operations(gate):
    blob = Blob(3, device="simulated")
    blob.mutable_cpu_data()
    with record_transfers(operations=True) as log:
        blob.prefetch()
        total = blob.on("cpu") * 2
        gate.set()
        blob.gpu_data()
    axes = Figure().subplots()
    assert log.plot(axes) is axes
    assert "multiply on cpu: 1 call" in labels(axes)[0]
    assert bars(axes, BLUE)[0, 2] > 0
    assert [text.get_text().partition(",")[0] for text in axes.get_legend().get_texts()] == [
        "operations",
        "asynchronous uploads",
        "overlap",
    ]
    assert total is not None
