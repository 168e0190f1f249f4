"""A pytest plugin for mutation testing: the frames that mutmut puts between are not the user's."""

from mutmut.mutation import trampoline

from syncblob import _source_lines

_source_lines._known[trampoline.__file__] = "syncblob"
