"""A pytest plugin for mutation testing: frames that mutmut adds count as those of syncblob.

Plans of calls are made anew in each test. Otherwise only the first test that makes a plan would
count as a test of the functions that make it.
"""

import sys

import pytest
from mutmut.mutation import trampoline

from syncblob import _source_lines
from syncblob.blob import living_blobs
from syncblob.dispatch.numpy import array_function as plans
from syncblob.memory import wait_for_room as retry

_source_lines._known[trampoline.__file__] = "syncblob"
living_blobs._PACKAGE = living_blobs._PACKAGE, trampoline.__file__


class _Mutated:
    """A function that syncblob looks for in frames: its code is that of the mutant."""

    def __init__(self, function, mutants):
        self.function, self.mutants = function, mutants

    def __call__(self, *args, **keywords):
        return self.function(*args, **keywords)

    @property
    def __code__(self):
        name = trampoline.get_mutant_under_test().rpartition(".")[2]
        return self.mutants.get(name, self.mutants["_mutmut_orig"]).__code__


if hasattr(retry, "mutants_x_begin_again__mutmut"):
    of_begin_again = retry.mutants_x_begin_again__mutmut
    living_blobs.begin_again = _Mutated(living_blobs.begin_again, of_begin_again)
    # mutmut's own functions all have the same code.
    del retry._marks[retry.patiently.__code__]
    for mutants, mark in (
        (retry.mutants_x_patiently__mutmut, retry.Patience.PATIENT),
        (retry.mutants_x_thoroughly__mutmut, retry.Patience.THOROUGH),
    ):
        retry._marks |= {each.__code__: mark for each in mutants.values()}


@pytest.fixture(autouse=True)
def _plans_made_anew() -> None:
    plans._plan.cache_clear()
    of_torch = sys.modules.get("syncblob.dispatch.torch.written_arguments")
    if of_torch is not None:
        of_torch._plan.cache_clear()
        of_torch._rule.cache_clear()
