"""Files with one blob: ``.binaryproto``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from syncblob.caffe._pb.caffe_pb2 import BlobProto
from syncblob.caffe.files.file_types import require_path
from syncblob.caffe.files.recognise import require_message
from syncblob.caffe.messages.file_objects import Source, Target, open_source, open_target
from syncblob.caffe.messages.lazy_blobs import lazy_blob
from syncblob.caffe.messages.pieces import blob_pieces, write_pieces
from syncblob.caffe.messages.read_blobproto import MessageIndex
from syncblob.caffe.messages.wire import WireReader
from syncblob.formats import Blob


def read_blob(path: Source) -> Blob:
    """Open a ``.binaryproto`` file, which holds one array, such as the mean of a data set.

    The values are not read before the Blob is accessed; the file stays open until then. The dtype
    is float32, or float64 if the file has double precision. A gradient in the file becomes
    ``blob.diff``.

    Parameters
    ----------
    path
        The file, or an open binary file, as for `open_model`, whose errors apply.
    """
    file = open_source(path)
    with WireReader.of_file(file) as reader:
        require_message(reader, "binaryproto")
        parsed = MessageIndex(reader, BlobProto)
        index = parsed.blob(parsed.message)
    return lazy_blob(file, index)


def write_blob(blob: Any, path: Target, *, write_diff: bool | None = None) -> None:
    """Write a Blob to a ``.binaryproto`` file, which is replaced as a whole or not at all.

    If the Blob is unchanged since it was read from a file, the new file has the same bytes. Caffe
    expects the mean of a data set in shape (1, channels, height, width).

    Parameters
    ----------
    blob
        The Blob, or an array of any library. A Blob whose newest values are on an accelerator is
        read on the host.
    path
        The file, usually with the extension ``.binaryproto``. Extensions of other formats are
        refused. Or an open binary file, as for `save_model`.
    write_diff
        Whether to write the gradient too; None writes it if the file had one.

    Raises
    ------
    TypeError
        If the dtype is not float32, float64, float16 or bfloat16. The latter two are widened.
    ValueError
        If the extension is that of another format, the message would have 2 GiB or more, or there
        are more than 32 axes.
    """
    if isinstance(blob, (str, os.PathLike, Mapping)):
        raise TypeError(
            f"expected a Blob or an array, then the path, got {type(blob).__name__}; save_model "
            f"writes a model"
        )
    require_path(path, "binaryproto")
    pieces = blob_pieces(Blob.asarray(blob), write_diff=write_diff)
    with open_target(path) as temporary:
        write_pieces(pieces, temporary)
