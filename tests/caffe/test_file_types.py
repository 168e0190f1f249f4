"""The table of file types is complete, and the documentation has each format that is converted."""

from pathlib import Path

import pytest

from syncblob.caffe.convert.formats import function
from syncblob.caffe.files.file_types import FILE_TYPES

FORMATS = [row for row in FILE_TYPES if row.plan]
PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


@pytest.mark.parametrize("row", FORMATS, ids=lambda row: row.name)
def test_a_format_that_is_converted(row):
    assert all(callable(function(name)) for name in (row.read, row.plan, row.prepare))
    table = PAGE.read_text(encoding="utf-8").partition("## Formats")[2].partition("\n\nWhen")[0]
    assert [end for end in row.extensions if f"`{end}`" not in table] == []


def test_names_and_extensions_are_those_of_one_format():
    names = [row.name for row in FILE_TYPES if row.name]
    assert len(set(names)) == len(names)
    extensions = [end for row in FORMATS for end in row.extensions]
    assert len(set(extensions)) == len(extensions)
