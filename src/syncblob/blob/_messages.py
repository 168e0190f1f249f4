"""Blobs from Caffe's BlobProto messages, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob.blob._torch_functions import TorchFunctions

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import DTypeLike

    from syncblob.caffe._pb.caffe_pb2 import BlobProto
    from syncblob.devices import Device

__all__ = ["Messages"]


class Messages(TorchFunctions):
    """Caffe's messages. protobuf is imported when one of these is called."""

    __slots__ = ()

    @classmethod
    def from_proto(
        cls,
        proto: BlobProto | bytes,
        dtype: DTypeLike | None = None,
        *,
        device: Device | str | None = None,
    ) -> Self:
        """Make a Blob of a BlobProto message, or of its bytes.

        Caffe's rules: legacy dimensions beat ``shape``, double data beats float data.

        Parameters
        ----------
        proto
            The message or its serialised bytes.
        dtype
            The dtype wanted, converted as C does; None for float64 where the message has double
            data, else float32.
        device
            As for the constructor.

        Raises
        ------
        ModelFileError
            If the bytes are no BlobProto, or the data does not fit the shape.
        """
        from syncblob.caffe import blobproto  # file formats are built on Blobs

        blob = blobproto.from_proto(proto, dtype=dtype, device=device)
        if type(blob) is cls:
            return blob
        return cls._of(blob._memory, blob._layout, home=blob._home, diff=blob._diff)

    def load_proto(self, proto: BlobProto | bytes, *, resize: bool = True) -> None:
        """Take the contents of a BlobProto: Caffe's ``FromProto``. Writes on the host.

        Without a diff in the message, diff stays as it is.

        Parameters
        ----------
        proto
            The message or its serialised bytes.
        resize
            Take over its shape; otherwise the shapes must be equal (see `shape_equals`).

        Raises
        ------
        ModelFileError, ValueError
            If the message does not fit. Nothing has changed then.
        """
        from syncblob.caffe import blobproto  # file formats are built on Blobs

        self._require_writable("load_proto")
        blob: Any = self  # nothing but a Blob is ever made
        blobproto.load_proto(blob, proto, resize=resize)

    def to_proto(self, *, write_diff: bool = False) -> BlobProto:
        """Return a new BlobProto message with the contents. Reads on the host.

        Parameters
        ----------
        write_diff
            Write diff too.

        Raises
        ------
        TypeError
            If the format cannot hold the dtype: float64 is written as double, float32, float16
            and bfloat16 as float.
        ValueError
            If the message would reach 2 GiB.
        """
        from syncblob.caffe import blobproto  # file formats are built on Blobs

        blob: Any = self  # nothing but a Blob is ever made
        return blobproto.to_proto(blob, write_diff=write_diff)
