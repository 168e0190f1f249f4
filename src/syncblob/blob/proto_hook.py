"""The hook that connects Blob's methods to Caffe's messages.

`Blob.from_proto`, `load_proto`, `to_proto` and `shape_equals` are methods of Blob, as in Caffe.
Their implementation belongs to Caffe's formats, which are built on Blobs. Therefore `syncblob`
registers it here, and the first call of one of these methods imports it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike

    from syncblob.caffe._pb.caffe_pb2 import BlobProto
    from syncblob.devices import Device

    class Messages(Protocol):
        """Reads and writes messages; the module `syncblob.caffe.messages.blobproto` implements it.

        Each `Any` is a Blob.
        """

        def from_proto(
            self, proto: BlobProto | bytes, dtype: DTypeLike | None, device: Device | str | None
        ) -> Any:
            """Make a Blob from a message."""

        def load_proto(self, blob: Any, proto: BlobProto | bytes, *, resize: bool) -> None:
            """Read a message into a Blob."""

        def to_proto(self, blob: Any, *, write_diff: bool) -> BlobProto:
            """Make a message from a Blob."""

        def shape_equals(self, shape: tuple[int, ...], proto: BlobProto) -> bool:
            """Compare a shape with that of a message."""


# The functions that `syncblob` has registered.
_imports: list[Callable[[], Messages]] = []


def register_messages(import_them: Callable[[], Messages]) -> None:
    """Register the function that imports the implementation."""
    _imports.append(import_them)


@cache
def messages() -> Messages:
    """Return the implementation, which the first call imports."""
    return _imports[-1]()
