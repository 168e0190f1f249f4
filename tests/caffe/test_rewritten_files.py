"""Files that other processes rewrite in place during reads, as Caffe's snapshots do.

``SYNCBLOB_SOAK`` sets the number of seconds for each format. The default is 1.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = float(os.environ.get("SYNCBLOB_SOAK", "1"))
READERS = 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.parametrize(
    "name", ["net.caffemodel", "net.h5", "mean.binaryproto", "net.solverstate"]
)
def test_readers_get_right_values_or_are_told(name):
    pytest.importorskip("h5py", reason="h5py, which reads HDF5, is missing")
    script = Path(__file__).parents[1] / "support" / "rewritten_files.py"
    result = subprocess.run(
        [sys.executable, script, name, str(SECONDS)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS + 100,
    )
    assert (result.returncode, result.stderr) == (0, "")
    met = [tuple(map(int, line.split())) for line in result.stdout.splitlines()]
    assert len(met) == READERS
    assert all(right for right, _ in met)
    assert sum(told for _, told in met)
