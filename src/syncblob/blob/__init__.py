"""The Blob: an N-dimensional array over two memories, data and diff.

`blob` is the class with every public name. `core` is what it consists of, and what all other
modules ask of it. `operators` and `ndarray_methods` are mixins. The rest are functions that take a
Blob first.
"""

from __future__ import annotations

from syncblob.blob.blob import Blob

__all__ = ["Blob"]
