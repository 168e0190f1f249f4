"""Damaged files: no crash, no hang, little memory, and agreement with protobuf and h5py.

The tests damage real files, if they are present, and small files of every kind.
`caffe_mutations` says how many, and `caffe_fuzz` says how to damage one again.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from caffe_agreement import needs_upb
from caffe_mutations import damaged_files


@damaged_files
@pytest.mark.parametrize(
    "kind", [*(pytest.param(kind, marks=needs_upb) for kind in ("net", "blob", "state")), "hdf5"]
)
def test_damaged_files(kind, count):
    """Run in a separate process, which no file may crash."""
    pytest.importorskip("resource", reason="limits on memory are of POSIX")
    script = Path(__file__).parents[1] / "support" / "caffe_fuzz.py"
    result = subprocess.run(
        [sys.executable, script, kind, str(count)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120 + count / 20,
    )
    assert result.returncode == 0, result.stdout[-100:] + result.stderr[-4000:]
    assert len(result.stdout.split()) == count
