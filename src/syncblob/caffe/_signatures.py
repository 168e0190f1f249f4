"""How files of other formats begin."""

from __future__ import annotations

__all__ = ["HDF5", "NPY", "OLD_TORCH", "ZIP", "first_member"]

HDF5 = b"\x89HDF\r\n\x1a\n"
NPY = b"\x93NUMPY"
# The number that torch.save began with before it wrote zip archives, pickled.
OLD_TORCH = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
# An archive that has a member.
ZIP = b"PK\x03\x04"

_NAME_LENGTH, _NAME = slice(26, 28), 30


def first_member(head: bytes) -> str:
    """Return the name of the first member of a zip archive that begins so."""
    length = int.from_bytes(head[_NAME_LENGTH], "little")
    return head[_NAME : _NAME + length].decode(errors="replace")
