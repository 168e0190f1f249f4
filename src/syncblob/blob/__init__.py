"""The Blob: an N-dimensional array over two memories, data and diff.

One class in several files, each a base class that adds one side of it:
`_base` (what a Blob is), `_shape_methods` (axes, counts, resize), `_accessors` (Caffe's pointers),
`_views` (indexing and views), `_arithmetic` (copies, sums, update), `_protocols` (what other
libraries call) and `_blob` (making Blobs and turning them into something else).
"""

from __future__ import annotations

from syncblob.blob._blob import Blob

__all__ = ["Blob"]
