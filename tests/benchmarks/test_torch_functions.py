"""The benchmark of PyTorch's functions runs, and both sides compute the same."""

from __future__ import annotations

import pytest

from benchmarks import torch_functions
from benchmarks.timing import Timer

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", torch_functions.FUNCTIONS)
def test_a_function_gives_for_blobs_what_it_gives_for_tensors(name):
    call = torch_functions.FUNCTIONS[name]
    arrays = torch_functions.operands()
    tensors = {key: torch.tensor(array) for key, array in arrays.items()}
    blobs = {key: torch_functions.as_blob(array) for key, array in arrays.items()}
    expected = call(torch, torch.nn.functional, tensors)
    for _ in range(2):
        torch.testing.assert_close(call(torch, torch.nn.functional, blobs), expected)
        assert not any(blob.memory.aliased for blob in blobs.values())


def test_it_compares_31_functions_and_leaves_torchs_threads_as_they_were():
    threads = torch.get_num_threads()
    measured = torch_functions.measure(Timer(brief=True))
    assert torch.get_num_threads() == threads
    assert [row.unit for row in measured.rows] == ["adds"] * 33 + ["s"] * 3
    assert [row.goal.limit for row in measured.rows if row.goal] == [14, 25, 1.7, 4, 1.3]
