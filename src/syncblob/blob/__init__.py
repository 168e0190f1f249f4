"""The Blob: an N-dimensional array over two memories, data and diff.

`blob` has the class with every public name. `core` has its fields and the methods that the other
modules use. `operators` and `ndarray_methods` are mixins. The other modules contain functions whose
first argument is a Blob.
"""

from __future__ import annotations

from syncblob.blob.blob import Blob

__all__ = ["Blob"]
