"""The hook by which Caffe's messages come into Blob's methods.

`Blob.from_proto`, `load_proto`, `to_proto` and `shape_equals` are Caffe's, and so methods of Blob.
What they do belongs to Caffe's formats, which are built on Blobs. So the formats are registered
here, by `syncblob` itself, and imported when the first of these methods is called.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike

    from syncblob.blob.blob import Blob
    from syncblob.caffe._pb.caffe_pb2 import BlobProto
    from syncblob.devices import Device

    class Messages(Protocol):
        """What reads and writes messages: the module `syncblob.caffe.blobproto`."""

        def from_proto(
            self, proto: BlobProto | bytes, dtype: DTypeLike | None, device: Device | str | None
        ) -> Blob:
            """Make a Blob of a message."""

        def load_proto(self, blob: Blob, proto: BlobProto | bytes, *, resize: bool) -> None:
            """Read a message into a Blob."""

        def to_proto(self, blob: Blob, *, write_diff: bool) -> BlobProto:
            """Make a message of a Blob."""

        def shape_equals(self, shape: tuple[int, ...], proto: BlobProto) -> bool:
            """Compare a shape with that of a message."""


__all__ = ["messages", "register_messages"]

# What `syncblob` has registered.
_imports: list[Callable[[], Messages]] = []


def register_messages(import_them: Callable[[], Messages]) -> None:
    """Register the function that imports what reads and writes messages."""
    _imports.append(import_them)


@cache
def messages() -> Messages:
    """Return what reads and writes messages; it is imported by the first call."""
    return _imports[-1]()
