"""A file is replaced as a whole or not at all, whatever happens in between."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys

import numpy as np
import pytest

from syncblob.caffe import Layer, ModelFile, _disk, open_model, save_model
from syncblob.caffe._disk import replacing

posix = pytest.mark.skipif(os.name != "posix", reason="permissions, links and signals of POSIX")


def left_behind(directory):
    return [path for path in directory.iterdir() if path.name.startswith(".syncblob-")]


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    return path


def test_the_new_contents_appear_at_the_end(old):
    with replacing(old) as temporary:
        temporary.write_bytes(b"new")
        assert temporary.parent == old.parent
        assert old.read_bytes() == b"old"
    assert old.read_bytes() == b"new"
    assert left_behind(old.parent) == []


def test_an_error_leaves_the_old_file(old):
    def fail():
        with replacing(old) as temporary:
            temporary.write_bytes(b"half of it")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert old.read_bytes() == b"old"
    assert left_behind(old.parent) == []


def test_everything_is_on_the_disk_before_the_name_changes(old, monkeypatch):
    events = []
    fsync = os.fsync

    def spy_fsync(descriptor):
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        events.append(("directory" if is_directory else "file", old.read_bytes()))
        fsync(descriptor)

    monkeypatch.setattr(_disk.os, "fsync", spy_fsync)
    with replacing(old) as temporary:
        temporary.write_bytes(b"new")
    expected = [("file", b"old"), ("directory", b"new")]
    assert events == (expected if os.name == "posix" else expected[:1])


@posix
def test_permissions(old, tmp_path):
    old.chmod(0o640)
    with replacing(old):
        pass
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    umask = os.umask(0o027)
    try:
        with replacing(tmp_path / "new"):
            pass
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


@posix
def test_a_link_still_points_where_it_did(old, tmp_path):
    link = tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to("../file")
    with replacing(link) as temporary:
        temporary.write_bytes(b"new")
    assert link.is_symlink()
    assert old.read_bytes() == b"new"


def test_what_cannot_be_replaced(tmp_path):
    for path in [tmp_path, *([os.devnull] if os.name == "posix" else [])]:
        with pytest.raises(ValueError, match="that can be replaced"), replacing(path):
            pass
    missing = tmp_path / "none" / "file"
    with pytest.raises(FileNotFoundError) as caught, replacing(missing):
        pass
    assert caught.value.filename == str(missing)
    assert left_behind(tmp_path) == []


@posix
def test_a_full_disk(old):
    resource = pytest.importorskip("resource", reason="limits on files are of POSIX")
    model = ModelFile("", [Layer("a", blobs=[np.ones(1 << 20, np.float32)])])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            save_model(model, old)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert old.read_bytes() == b"old"
    assert left_behind(old.parent) == []


# A process of its own, because only one without threads should fork. It forks once for each moment;
# the child saves a model over an old file, and is killed when it has run so many lines.
KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from syncblob.caffe import Layer, ModelFile, open_model, save_model

path = Path(sys.argv[1])
old = path.read_bytes()
model = open_model(path)
model["a"].blobs[0].mutable_cpu_data()[...] += 1
model.add(Layer("new", blobs=[np.ones(5, np.float16)]))

def run(moment):
    lines = 0
    def trace(frame, event, argument):
        nonlocal lines
        if "syncblob" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        if lines == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace
    sys.settrace(trace)
    save_model(model, path)
    sys.settrace(None)
    return lines

run(-1)  # what is done only once does not count
total = run(-1)
new = path.read_bytes()
path.write_bytes(old)
found = {old: 0, new: 0}
for moment in [*range(1, total - 40, max(1, total // 40)), *range(total - 40, total + 1)]:
    child = os.fork()
    if not child:
        run(moment)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, (moment, status)
    contents = path.read_bytes()
    found[contents] += 1
    path.write_bytes(old)
print(found[old], found[new])
"""


@posix
def test_killed_at_any_moment(write, v2_net):
    v2_net.layer[1].name = "a"
    path = write(v2_net)
    result = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    still_old, already_new = map(int, result.stdout.split())
    assert still_old > 40
    assert already_new > 0
    assert open_model(path)["a"].blobs[0].cpu_data()[0, 1] == 1


WRITING = """
import sys
import numpy as np
from syncblob.caffe import Layer, ModelFile, save_model

blobs = [np.full((1 << 20,), value, np.float32) for value in range(8)]
model = ModelFile("", [Layer("a", blobs=blobs)])
print("ready", flush=True)
while True:
    save_model(model, sys.argv[1])
"""


@posix
@pytest.mark.parametrize("delay", [0.0, 0.01, 0.03, 0.06])
def test_killed_while_writing_much(tmp_path, delay):
    path = tmp_path / "model.caffemodel"
    save_model(ModelFile("old"), path)
    with subprocess.Popen(
        [sys.executable, "-c", WRITING, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(delay)
        writer.kill()
    model = open_model(path)
    if model.name != "old":
        assert [blob.cpu_data()[-1] for blob in model["a"].blobs] == list(range(8))
