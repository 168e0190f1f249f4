"""Definitions of nets and solvers in protobuf's text format: Caffe's ``.prototxt`` files."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from syncblob.caffe._pb.caffe_pb2 import NetParameter, SolverParameter
from syncblob.caffe.messages.disk import replacing
from syncblob.caffe.messages.forks import Foreign
from syncblob.caffe.messages.streams import Source, name_of, open_source
from syncblob.caffe.messages.texts import require_complete, unknown_fields
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    import os

M = TypeVar("M", NetParameter, SolverParameter)

_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_PLACE = re.compile(r"\A\d+:\d+ : ")
_UNKNOWN = re.compile("has no (field named|value (named|with number))")
_NO_FIELD = re.compile('Message type "(\\w+)" has no field named "(\\w+)"')
_FIELDS = {
    kind.DESCRIPTOR.name: set(kind.DESCRIPTOR.fields_by_name)
    for kind in (NetParameter, SolverParameter)
}
# Fields that only the other kind of definition has, and the advice in the error.
_OF_OTHER_KIND = {
    "NetParameter": _FIELDS["SolverParameter"] - _FIELDS["NetParameter"],
    "SolverParameter": _FIELDS["NetParameter"] - _FIELDS["SolverParameter"],
}
_OTHER_KIND = {
    "NetParameter": "this is the definition of a solver, not of a net; read_solver_prototxt reads "
    "it, and its field net or train_net names the net",
    "SolverParameter": "this is the definition of a net, not of a solver; read_prototxt reads it",
}
_OLDER = (
    "layers {} is the older format of layers, with blobs_lr in place of param { lr_mult } and "
    "types in capital letters, such as CONVOLUTION; write the layer as layer {}, the current one"
)
_SOLVER_TYPES = ("SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam")
"""The types of solvers, by the numbers in older definitions."""
_PACKAGE = NetParameter.DESCRIPTOR.file.package + "."


def read_prototxt(
    path: Source, *, ignore_unknown: bool = False, forks: bool = False
) -> NetParameter:
    """Read a network definition from a ``.prototxt`` file.

    Nothing is upgraded: layers of the previous format stay in ``layers``. `ModelFile.from_net`
    makes a model from the result. As in Caffe, strings may be in any encoding; protobuf returns
    those that are not UTF-8 as bytes.

    Parameters
    ----------
    path
        The file: its path, which may end in ``.gz``, or an open binary file.
    ignore_unknown
        Whether to leave out fields and enum values that Caffe does not have, such as those of a
        fork. By default they are an error.
    forks
        Whether to apply the rules of well-known forks. ``ceil_mode`` of a pooling becomes
        ``round_mode``; ``hole``, ``hole_h`` and ``hole_w`` of a convolution become ``dilation``.
        ``pad_type``, and the settings of the types Interp, Normalize, Permute, PriorBox and
        ROIPooling, are kept for `ModelFile.infer_shapes` as unknown fields of the layer, which
        `write_prototxt` has no names for.

    Returns
    -------
    NetParameter
        The message. Its field ``ignored``, which Caffe does not have, lists what was left out or
        replaced: each entry has ``name``, such as ``"layer.pooling_param.ceil_mode"``, ``count``,
        and ``rule``, which is empty if it was left out. `ModelFile.from_net` and `write_prototxt`
        do not write it; before you serialise the message yourself, call
        ``net.ClearField("ignored")``.

    Raises
    ------
    ModelFileError
        If it is not such a definition, or a field is missing that Caffe requires. The message gives
        line and column of other errors.
    OSError
        If it cannot be read.
    """
    return _read(NetParameter, path, ignore_unknown=ignore_unknown, forks=forks)


def read_solver_prototxt(path: Source, *, ignore_unknown: bool = False) -> SolverParameter:
    """Read the definition of a solver from a ``.prototxt`` file.

    The field ``solver_type`` of older definitions is upgraded to ``type``, as in Caffe. The nets
    that the definition names are not read.

    Parameters
    ----------
    path, ignore_unknown
        As for `read_prototxt`.

    Returns
    -------
    SolverParameter
        The message. Its field ``ignored`` is that of `read_prototxt`.

    Raises
    ------
    ModelFileError
        If it is not such a definition, or has both ``solver_type`` and ``type``. For a syntax
        error, the message gives line and column.
    OSError
        If it cannot be read.
    """
    solver = _read(SolverParameter, path, ignore_unknown=ignore_unknown)
    if solver.HasField("solver_type"):
        if solver.HasField("type"):
            raise ModelFileError(
                "expected one of the fields type and solver_type, got both; delete solver_type, "
                "the older one",
                path=name_of(path),
            )
        solver.type = _SOLVER_TYPES[solver.solver_type]
        solver.ClearField("solver_type")
    return solver


def _read(kind: type[M], path: Source, *, ignore_unknown: bool, forks: bool = False) -> M:
    file = open_source(path)
    name, content = file.path, bytes(file.read(0, len(file)))
    if b"\0" in content:
        raise ModelFileError(
            "expected a network definition in text form, got binary data; open_model opens a "
            ".caffemodel",
            path=name,
            offset=content.index(b"\0"),
        )
    # Caffe accepts any encoding. Escape bytes that are not UTF-8, as the format allows in strings.
    text = _NOT_UTF8.sub(
        lambda byte: f"\\{ord(byte[0]) & 0xFF:03o}",
        content.decode("utf-8-sig", errors="surrogateescape"),
    )
    try:
        message = _parsed(text, kind, ignore_unknown=ignore_unknown, forks=forks)
        require_complete(message)
    except text_format.ParseError as error:
        reader = "read_prototxt" if kind is NetParameter else "read_solver_prototxt"
        problem = _explain(error, text.split("\n"), reader, ignored=ignore_unknown)
        raise ModelFileError(problem, path=name) from error
    except ValueError as error:
        raise ModelFileError(str(error), path=name) from error
    others = _OF_OTHER_KIND[kind.DESCRIPTOR.name]
    known = {field.name for field, _ in message.ListFields()}
    left_out = {part.name for part in message.ignored}
    if known <= set.intersection(*_FIELDS.values()) and left_out & others:
        raise ModelFileError(_OTHER_KIND[kind.DESCRIPTOR.name], path=name)
    return message


def write_prototxt(
    net: NetParameter | SolverParameter,
    path: str | os.PathLike[str],
    *,
    ignore_unknown: bool = False,
) -> None:
    """Write the definition of a net or a solver to a ``.prototxt`` file, replaced as a whole.

    Parameters
    ----------
    net
        The message, from `read_prototxt`, `ModelFile.to_net` or `read_solver_prototxt`.
    path
        The file.
    ignore_unknown
        Whether to leave out fields that Caffe does not have, which have a number but no name. By
        default they are an error.

    Raises
    ------
    TypeError
        If `net` is neither a NetParameter nor a SolverParameter.
    ValueError
        If it has unknown fields, such as those of a fork of Caffe, and `ignore_unknown` is False;
        or if it lacks fields that Caffe requires. Nothing has been written then.
    OSError
        If the file cannot be written.
    """
    if not isinstance(net, Message) or net.DESCRIPTOR.name not in _FIELDS:
        raise TypeError(
            f"expected a NetParameter message, got {type(net).__name__}; a ModelFile has to_net()"
        )
    if not ignore_unknown:
        _require_known(net)
    require_complete(net)
    net = _as_caffes(net)
    # Older versions of protobuf do not escape NUL, and a file with NUL is taken for binary data.
    text = text_format.MessageToString(net, as_utf8=_is_utf8(net)).replace("\0", r"\000")
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def _is_utf8(message: Message) -> bool:
    """Tell whether all strings are UTF-8. Older protobuf writes others as if they were, too."""
    for field, value in message.ListFields():
        values = [value] if isinstance(value, (str, bytes, Message)) else value
        if field.type == field.TYPE_MESSAGE and not all(map(_is_utf8, values)):
            return False
        if field.type == field.TYPE_STRING and any(isinstance(text, bytes) for text in values):
            return False
    return True


def _parsed(text: str, kind: type[M], *, ignore_unknown: bool, forks: bool) -> M:
    """Parse a definition whose strings may escape any bytes."""
    foreign = None
    if ignore_unknown or forks:
        foreign = Foreign(text, kind.DESCRIPTOR, leave_out=ignore_unknown, translate=forks)
        text = foreign.text
    twin = text_format.Parse(text, _twin(kind.DESCRIPTOR.full_name)())
    message: Any = kind.FromString(twin.SerializePartialToString())
    # Caffe's own messages have no such field.
    if any(part.ignored for part in _definitions(message)):
        raise text_format.ParseError(
            f'Message type "{kind.DESCRIPTOR.full_name}" has no field named "ignored"'
        )
    if foreign is not None:
        for number, fields in foreign.kept.items():
            message.layer[number].MergeFromString(fields)
        for (name, rule), count in foreign.counts.items():
            message.ignored.add(name=name, count=count, rule=rule)
    parsed: M = message
    return parsed


def _definitions(message: Any) -> Iterator[Any]:
    """Yield a definition, and those in it."""
    yield message
    if message.DESCRIPTOR.name == "SolverParameter":
        yield from (message.net_param, message.train_net_param, *message.test_net_param)


def _as_caffes(message: Any) -> Any:
    """Return a copy of a definition without the lists of what was left out."""
    own = copy.deepcopy(message)
    for part in _definitions(own):
        if getattr(part, "ignored", ()):  # ClearField would add an absent net to a solver
            part.ClearField("ignored")
    return own


@cache
def _twin(name: str) -> type[Message]:
    """Return a message class like one of Caffe's, but with bytes in place of strings."""
    file = FileDescriptorProto.FromString(NetParameter.DESCRIPTOR.file.serialized_pb)
    for message in file.message_type:
        for field in message.field:
            if field.type == field.TYPE_STRING:
                field.type = field.TYPE_BYTES
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(name))


def _explain(error: text_format.ParseError, lines: list[str], reader: str, *, ignored: bool) -> str:
    """Return the position and the problem, without the text of the line, which may be long."""
    words = _PLACE.sub("", str(error))
    line, column = error.GetLine(), error.GetColumn()
    place = ""
    if line is not None:
        words = words.removeprefix(f"'{lines[line - 1]}': ")
        place = f"line {line}, column {column}: "
    words = words.replace(_PACKAGE, "").rstrip(".")
    field = _NO_FIELD.search(words)
    if field and field[2] in _OF_OTHER_KIND.get(field[1], ()):
        words = f"{words}; {_OTHER_KIND[field[1]]}"
    elif _UNKNOWN.search(words) and not ignored:
        words += f"; {reader}(path, ignore_unknown=True) leaves such fields and values out"
    if "V1LayerParameter" in words:
        words += f"; {_OLDER}"
    return place + words


def _require_known(net: Message) -> None:
    """Raise ValueError if a definition has unknown fields."""
    layers = [*getattr(net, "layers", ()), *getattr(net, "layer", ())]
    for place, part in [*((f"layer {layer.name!r}", layer) for layer in layers), ("net", net)]:
        for field in unknown_fields(part):
            raise ValueError(
                f"{place} has a field {field} of a fork of Caffe, for which there is no name to "
                f"write; write_prototxt(net, path, ignore_unknown=True) writes the definition "
                f"without such fields"
            )
