"""A pytest plugin for mutation testing: frames that mutmut adds count as those of syncblob.

Plans of calls are made anew in each test. Otherwise only the first test that makes a plan would
count as a test of the functions that make it.
"""

import gc

import pytest
from mutmut.mutation import trampoline

from syncblob import _source_lines
from syncblob.calls import engine

_source_lines._library_of[trampoline.__file__] = "syncblob"


@pytest.fixture(autouse=True)
def _plans_made_anew():
    for plans in gc.get_objects():
        if type(plans) is engine.Cache:
            plans.clear()
