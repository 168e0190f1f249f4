"""Names in files, escaped for printing: they may have any characters, even invalid ones."""

from __future__ import annotations

from syncblob.caffe.messages.string_fields import encoded


def escaped(name: str) -> str:
    r"""Escape characters that are not printable.

    Newlines and the escape sequences of terminals become ``\n``, ``\x1b`` and the like. Invalid
    UTF-8 becomes replacement characters.
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in encoded(name).decode(errors="replace")
    )
