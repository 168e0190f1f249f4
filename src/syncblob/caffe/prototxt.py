"""Network definitions in protobuf's text format, as Caffe's ``.prototxt`` files are."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from syncblob.caffe._disk import replacing
from syncblob.caffe._pb.caffe_pb2 import NetParameter
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    import os

__all__ = ["read_prototxt", "write_prototxt"]

_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_PLACE = re.compile(r"\A\d+:\d+ : ")
_NO_FIELD = re.compile('Message type "NetParameter" has no field named "(\\w+)"')
_SOLVER_FIELDS = frozenset(
    """
    average_loss base_lr display gamma iter_size lr_policy max_iter momentum net net_param
    random_seed snapshot snapshot_prefix solver_mode solver_type test_interval test_iter test_net
    test_net_param train_net train_net_param weight_decay
    """.split()  # noqa: SIM905  # a table of names reads best as words
)
_SOLVER_FIELD = re.compile(rf"^\s*({'|'.join(_SOLVER_FIELDS)})\s*[:{{]", re.MULTILINE)
_SOLVER = (
    "this is the definition of a solver, not of a net, and syncblob reads none; read the net that "
    "its field net or train_net names"
)
_PACKAGE = NetParameter.DESCRIPTOR.file.package + "."


def read_prototxt(path: str | os.PathLike[str], *, ignore_unknown: bool = False) -> NetParameter:
    """Read a network definition from a ``.prototxt`` file.

    Nothing is upgraded: layers of the previous format stay in ``layers``. `ModelFile.from_net`
    makes a model of the result. Strings may be in any encoding, as for Caffe; protobuf gives those
    that are no UTF-8 as bytes.

    Parameters
    ----------
    path
        The file.
    ignore_unknown
        Whether to leave out fields that Caffe does not have, such as those of a fork. By default
        they are an error.

    Returns
    -------
    NetParameter
        The message, to be read and changed.

    Raises
    ------
    ModelFileError
        If it is no such definition. The message says line and column.
    OSError
        If it cannot be read.
    """
    name = str(path)
    content = Path(path).read_bytes()
    if b"\0" in content:
        raise ModelFileError(
            "expected a network definition in text form, got binary data; open_model opens a "
            ".caffemodel",
            path=name,
            offset=content.index(b"\0"),
        )
    # Caffe accepts any encoding. Bytes that are no UTF-8 are escaped, which strings may be.
    text = _NOT_UTF8.sub(
        lambda byte: f"\\{ord(byte[0]) & 0xFF:03o}",
        content.decode("utf-8-sig", errors="surrogateescape"),
    )
    net = NetParameter()
    try:
        _parse(text, net, ignore_unknown=ignore_unknown)
    except text_format.ParseError as error:
        message = _explain(error, text.split("\n"), ignored=ignore_unknown)
        raise ModelFileError(message, path=name) from error
    except RecursionError as error:
        raise ModelFileError("messages are nested too deeply", path=name) from error
    has_layers = net.layer or net.layers or net.input
    if ignore_unknown and not has_layers and _SOLVER_FIELD.search(text):
        raise ModelFileError(_SOLVER, path=name)
    return net


def write_prototxt(
    net: NetParameter, path: str | os.PathLike[str], *, ignore_unknown: bool = False
) -> None:
    """Write a network definition to a ``.prototxt`` file, which is replaced as a whole.

    Parameters
    ----------
    net
        The message, from `read_prototxt` or `ModelFile.to_net`.
    path
        The file.
    ignore_unknown
        Whether to leave out fields that Caffe does not have, which have a number and no name. By
        default they are an error.

    Raises
    ------
    TypeError
        If `net` is no NetParameter.
    ValueError
        If it has unknown fields and `ignore_unknown` is False, as a model file of a fork of Caffe
        may have. Nothing has been written then.
    OSError
        If the file cannot be written.
    """
    if not isinstance(net, Message) or net.DESCRIPTOR.name != NetParameter.DESCRIPTOR.name:
        raise TypeError(
            f"expected a NetParameter message, got {type(net).__name__}; a ModelFile has to_net()"
        )
    if not ignore_unknown:
        _require_known(net, "net")
    # Older versions of protobuf do not escape it, and a file with it is taken for binary data.
    text = text_format.MessageToString(net, as_utf8=True).replace("\0", r"\000")
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def _parse(text: str, net: NetParameter, *, ignore_unknown: bool) -> None:
    """Parse a definition whose strings may escape any bytes."""
    try:
        text_format.Parse(text, net, allow_unknown_field=ignore_unknown)
    except text_format.ParseError as error:
        if "codec can't" not in str(error):
            raise
        twin = _twin()()
        text_format.Parse(text, twin, allow_unknown_field=ignore_unknown)
        net.Clear()
        net.MergeFromString(twin.SerializeToString())


@cache
def _twin() -> type[Message]:
    """Return a class of messages as NetParameter, but with bytes in place of strings."""
    file = FileDescriptorProto.FromString(NetParameter.DESCRIPTOR.file.serialized_pb)
    for message in file.message_type:
        for field in message.field:
            if field.type == field.TYPE_STRING:
                field.type = field.TYPE_BYTES
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(NetParameter.DESCRIPTOR.full_name))


def _explain(error: text_format.ParseError, lines: list[str], *, ignored: bool) -> str:
    """Return place and problem without the text of the line, which may be long."""
    words = _PLACE.sub("", str(error))
    line, column = error.GetLine(), error.GetColumn()
    place = ""
    if line is not None:
        words = words.removeprefix(f"'{lines[line - 1]}': ")
        place = f"line {line}, column {column}: "
    words = words.replace(_PACKAGE, "").rstrip(".")
    field = _NO_FIELD.search(words)
    if field and field[1] in _SOLVER_FIELDS:
        words = f"{words}; {_SOLVER}"
    elif "has no field named" in words and not ignored:
        words += "; read_prototxt(path, ignore_unknown=True) leaves such fields out"
    return place + words


def _require_known(message: Message, place: str) -> None:
    """Raise ValueError if a message, or one in it, has unknown fields."""
    unknown = UnknownFieldSet(message)
    if len(unknown):
        raise ValueError(
            f"{place} has a field {unknown[0].field_number} of a fork of Caffe, for which there is "
            f"no name to write; write_prototxt(net, path, ignore_unknown=True) writes the "
            f"definition without such fields"
        )
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for part in [value] if isinstance(value, Message) else value:
                name = getattr(part, "name", "")
                _require_known(part, f"{field.name} {name!r}" if name else f"{place}, {field.name}")
