"""A pytest plugin for mutation testing: frames that mutmut adds count as those of syncblob.

Plans of calls are made anew in each test. Otherwise only the first test that makes a plan would
count as a test of the functions that make it.
"""

import gc
import sys

import pytest
from mutmut.mutation import trampoline

from syncblob import _source_lines
from syncblob.calls import engine

_source_lines._library_of[trampoline.__file__] = "syncblob"


@pytest.fixture(autouse=True)
def _plans_made_anew() -> None:
    for plans in gc.get_objects():
        if isinstance(plans, engine.Plans):
            plans.clear()
    of_torch = sys.modules.get("syncblob.calls.torch.plans")
    if of_torch is not None:
        of_torch.plan_call.cache_clear()
        of_torch._rule.cache_clear()
