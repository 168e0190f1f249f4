"""A pytest plugin for mutation testing: frames that mutmut adds do not count as the user's."""

from mutmut.mutation import trampoline

from syncblob import _source_lines

_source_lines._known[trampoline.__file__] = "syncblob"
