"""Files as bytes: replaced as a whole or not at all, and read while other processes change them."""

import errno
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from syncblob.caffe import open_model, read_blob
from syncblob.caffe.messages.file_objects import replacing
from syncblob.caffe.messages.open_file import Descriptor, OpenFile
from syncblob.caffe.messages.wire import length_header, varint
from syncblob.devices import use_device
from syncblob.errors import ModelFileError
from syncblob.memory import Head

posix = pytest.mark.skipif(os.name != "posix", reason="permissions, links and signals of POSIX")


def left_behind(directory):
    return [path for path in directory.iterdir() if path.name.startswith(".syncblob-")]


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    return path


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

    monkeypatch.setattr(os, "fsync", spy_fsync)
    with replacing(old) as temporary:
        temporary.write_bytes(b"new")
        assert temporary.parent == old.parent
    assert left_behind(old.parent) == []
    expected = [("file", b"old"), ("directory", b"new")]
    assert events == (expected if os.name == "posix" else expected[:1])


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
    link = tmp_path / "link"
    link.symlink_to("file")
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


# This runs in a separate process, because only a process without threads should fork. It forks once
# for each moment. The child saves a model over an old file and is killed at that line of its run.
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

_, _, total = run(-1), run(-1), run(-1)  # what is done at first only does not count
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
    # To remove it would take the next one more lines.
    for left in path.parent.glob(".syncblob-*"):
        left.unlink()
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


# --- reading -------------------------------------------------------------------------------------


COUNT = 3_000_000


@pytest.fixture
def large(write):
    """A file of 12 MB with one blob, large enough for several threads."""
    values = np.arange(COUNT, dtype="<f4")
    shape = length_header(1, len(varint(COUNT))) + varint(COUNT)
    header = length_header(7, len(shape)) + shape + length_header(5, values.nbytes)
    return write(header + values.tobytes(), "large.binaryproto")


@pytest.fixture(params=[True, False], ids=["at an offset", "by turns"])
def either_way(request, monkeypatch):
    """Run a test as on platforms with reads at an offset, and as on platforms without them."""
    if request.param and not Descriptor.can_read_at:
        pytest.skip("this platform cannot read at an offset")
    monkeypatch.setattr(Descriptor, "can_read_at", request.param)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("size", [0, 6_000_000])
@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
def test_a_file_that_shrinks(large, size, device):
    """With a memory mapping, an access to the lost bytes would kill the process."""
    assert np.array_equal(read_blob(large).cpu_data(), np.arange(COUNT, dtype=np.float32))
    with use_device(device):
        blob = read_blob(large)
    os.truncate(large, size)
    for _ in range(2):
        with pytest.raises(
            ModelFileError, match="another program has written to it, open it again"
        ) as e:
            blob.cpu_data() if device == "cpu" else blob.gpu_data()
        assert (e.value.path, e.value.offset) == (str(large), size)
        assert blob.head is Head.UNINITIALIZED


def test_reading_that_comes_in_small_pieces(large, monkeypatch):
    """The system may return fewer bytes than requested."""
    if not Descriptor.can_read_at:
        pytest.skip("this platform cannot read at an offset")
    preadv = os.preadv
    monkeypatch.setattr(
        os, "preadv", lambda fd, buffers, at: preadv(fd, [buffers[0][:999_999]], at)
    )
    assert np.array_equal(read_blob(large).cpu_data(), np.arange(COUNT, dtype=np.float32))


def test_closing_while_another_thread_reads(large, monkeypatch):
    """The descriptor stays open during a read. Otherwise another file could get its number."""
    if not Descriptor.can_read_at:
        pytest.skip("this platform cannot read at an offset")
    started, closed = threading.Event(), threading.Event()
    preadv = os.preadv

    def slow(*arguments):
        started.set()
        closed.wait(10)
        return preadv(*arguments)

    monkeypatch.setattr(os, "preadv", slow)
    file = OpenFile(large)
    target = np.zeros(4 * COUNT, np.uint8)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(file.read_into, target, large.stat().st_size - target.nbytes)
        started.wait(10)
        file.close()
        closed.set()
        reading.result(10)
    assert np.array_equal(target.view("<f4"), np.arange(COUNT, dtype="<f4"))
    with pytest.raises(ValueError, match="was closed"):
        file.read_into(target, 0)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are those of POSIX")
def test_a_read_only_file_in_a_writable_folder_is_replaced(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(0o444)
    opened = os.open

    def as_another_user(name, flags, mode=0o777):
        file = Path(name)
        if flags & os.O_RDWR and file.is_file() and not file.stat().st_mode & 0o200:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return opened(name, flags, mode)

    monkeypatch.setattr(os, "open", as_another_user)  # root may write all files
    with replacing(path) as temporary:
        temporary.write_bytes(b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o444)
