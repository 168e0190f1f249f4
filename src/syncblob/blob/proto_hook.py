"""The hook that connects Blob's methods to Caffe's messages.

`Blob.from_proto`, `load_proto`, `to_proto` and `shape_equals` are methods of Blob, as in Caffe.
Their implementation belongs to Caffe's formats, which are built on Blobs and so lie above this
module: it is imported by its name, by the first call of one of these methods.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any


@cache
def messages() -> Any:
    """Return the module that reads and writes BlobProto messages."""
    return import_module("syncblob.caffe.messages.blob_proto_methods")
