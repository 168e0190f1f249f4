"""The disk becomes full in the middle of a file: the old file stays, and nothing else is left."""

import errno
import signal

import numpy as np
import pytest

from syncblob import Layer, ModelFile, save_model
from syncblob.caffe.convert import convert, writable_extensions

resource = pytest.importorskip("resource", reason="limits on files are of POSIX")

NBYTES = 1 << 18


@pytest.fixture
def limited():
    """Give a function that limits the size of files to a number of bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def limit(nbytes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, limits[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("share", [0, 0.3, 0.95])
@pytest.mark.parametrize("extension", writable_extensions())
def test_the_old_file_stays(tmp_path, limited, extension, share):
    for package in ("h5py", "safetensors", "torch"):
        pytest.importorskip(package)
    source, target = tmp_path / "net.caffemodel", tmp_path / f"out{extension}"
    values = np.arange(NBYTES // 4, dtype=np.float32)
    save_model(ModelFile("net", [Layer("ip", blobs=[values])]), source)
    target.write_bytes(b"old")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    limited(int(NBYTES * share))
    # Each library raises its own exception.
    with pytest.raises(OSError, match="File too large") as caught:
        convert(source, target)
    limited(resource.RLIM_INFINITY)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(target))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    convert(source, target)
    assert target.stat().st_size > NBYTES
