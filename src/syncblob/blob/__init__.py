"""The Blob: an N-dimensional array over two memories, data and diff.

One class in several files, each a base class that adds one side of it: `_state` (what a Blob
consists of), `_arrays` (its memories, and arrays over them), `_base` (attributes), `_shape_methods`
(axes, counts, resize), `_accessors` (Caffe's pointers), `_views` (indexing and views),
`_arithmetic` (copies, sums, update), `_pickles`, `_protocols` (what other libraries call),
`_operators`, `_numpy_functions` and `_torch_functions` (NumPy's and torch's functions on Blobs),
`_ndarray_methods` (NumPy's methods), `_messages` (Caffe's BlobProto) and `_blob` (making Blobs, for
other dtypes and devices too).
"""

from __future__ import annotations

from syncblob.blob import _forks  # noqa: F401  # registers what is to be done at a fork
from syncblob.blob._blob import Blob

__all__ = ["Blob"]
