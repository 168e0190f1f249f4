"""The table of file types is complete, and the documentation has each format that is converted."""

from pathlib import Path

import pytest

from syncblob.caffe.convert.conversion import FORMATS
from syncblob.caffe.files.file_types import BY_NAME, FILE_TYPES

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_that_is_converted(name):
    table = PAGE.read_text(encoding="utf-8").partition("## Formats")[2].partition("\n\nWhen")[0]
    assert [end for end in BY_NAME[name].extensions if f"`{end}`" not in table] == []


def test_names_and_extensions_are_those_of_one_format():
    names = [row.name for row in FILE_TYPES if row.name]
    assert len(set(names)) == len(names)
    extensions = [end for name in FORMATS for end in BY_NAME[name].extensions]
    assert len(set(extensions)) == len(extensions)
