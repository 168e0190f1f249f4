"""A pytest plugin for mutation testing: frames that mutmut adds count as those of syncblob.

Plans of calls are made anew in each test. Otherwise only the first test that makes a plan would
count as a test of the functions that make it.
"""

import sys

import pytest
from mutmut.mutation import trampoline

from syncblob import _source_lines
from syncblob.calls import array_function as plans

_source_lines._known[trampoline.__file__] = "syncblob"


@pytest.fixture(autouse=True)
def _plans_made_anew() -> None:
    plans._plan.cache_clear()
    of_torch = sys.modules.get("syncblob.dispatch.torch.written_arguments")
    if of_torch is not None:
        of_torch._plan.cache_clear()
        of_torch._rule.cache_clear()
