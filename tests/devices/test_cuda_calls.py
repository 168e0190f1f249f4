"""How many functions of the package an operation on a CUDA device calls, on the model of CUDA."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Of Blobs that were used on both sides; other code has had the memory of one.
LIMITS = {
    **dict.fromkeys(("a + b", "-a", "a.__iadd__(b)", "a.__imul__(2.0)"), 10),
    **dict.fromkeys(("np.sqrt(a)", "np.add(a, b)", "np.sum(a)"), 10),
    "a.sum()": 11,
    **dict.fromkeys(("a[2:4]", "a.T", "a.reshape(64)"), 10),
    **dict.fromkeys(("lent.gpu_data()", "lent.mutable_gpu_data()"), 3),
    "write(lent.mutable_cpu_data()), lent.gpu_data()": 23,
    "lent.mutable_gpu_data(), lent.cpu_data()": 21,
    "np.asarray(a + b)": 45,
    # As on the host, where the limit is 6.
    **dict.fromkeys(("torch.add(a, b)", "torch.relu(a)"), 10),
    "cupy.from_dlpack(b)": 21,
    "cupy.asarray(a)": 64,
}

# The model computes for the whole life of a process.
PROGRAM = """
import json, sys
from pathlib import Path
from computing_model import install
install("lazy")
import cupy, numpy as np, torch, torch_model
import syncblob
from benchmarks.calls import as_blob, calls_made, function
folder = str(Path(syncblob.__file__).parent)
context = torch_model.installed()
context.__enter__()
a, b, lent = (as_blob(np.ones((8, 8), np.float32), "cuda:0") for _ in range(3))
for blob in (a, b):
    blob[...] = 1
write = lambda array: array.fill(1)
counts = {}
for text in json.loads(sys.argv[1]):
    use = function(text, globals())
    # Page-locked memory is used again from the eighth block on.
    for _ in range(20):
        use()
    counts[text] = [name for file, name in calls_made(use) if file.startswith(folder)]
print(json.dumps(counts), flush=True)
# Nothing is left of the model to free its memory.
import os
os._exit(0)
"""


@pytest.fixture(scope="module")
def counts():
    pytest.importorskip("torch")
    folders = [ROOT / "src", ROOT, ROOT / "tests" / "support"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([*LIMITS])],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("text", LIMITS)
def test_an_operation_calls_few_functions(counts, text):
    assert len(counts[text]) <= LIMITS[text], " ".join(counts[text])
