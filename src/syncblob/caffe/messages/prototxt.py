"""Definitions of nets and solvers in protobuf's text format: Caffe's ``.prototxt`` files.

protobuf parses a definition as a message of a *twin* of Caffe's messages. Its strings are bytes,
because they may have any encoding. If asked, it also has the fields of forks, or further values of
enums.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Any, TypeVar

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from syncblob.caffe._pb.caffe_pb2 import ForkLayer, NetParameter, PoolingParameter, SolverParameter
from syncblob.caffe.messages.file_objects import Source, name_of, open_source, replacing
from syncblob.caffe.messages.string_fields import (
    parse,
    require_complete,
    unknown_fields,
    without_fork_settings,
)
from syncblob.errors import ModelFileError

M = TypeVar("M", NetParameter, SolverParameter)

_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_PLACE = re.compile(r"\A\d+:\d+ : ")
_UNKNOWN = re.compile("has no (field|value) (named|with number)")
_NO_VALUE = re.compile(r'Enum type "([\w.]+)" has no value (?:named|with number) (\w+)')
# The most enum values that are left out: the text is parsed again for each.
_MOST_VALUES = 32
_KINDS = "read_prototxt reads the definition of a net, read_solver_prototxt that of a solver"
_OLDER = (
    "layers {} is the older format of layers, with blobs_lr in place of param { lr_mult } and "
    "types in capital letters, such as CONVOLUTION; write the layer as layer {}, the current one"
)
_SOLVER_TYPES = ("SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam")
"""The types of solvers, by the numbers in older definitions."""


def read_prototxt(
    path: Source, *, ignore_unknown: bool = False, forks: bool = False
) -> NetParameter:
    """Read a network definition from a ``.prototxt`` file.

    Nothing is upgraded: layers of the previous format stay in ``layers``. `ModelFile.from_net`
    makes a model from the result. As in Caffe, strings may be in any encoding; protobuf returns
    those that are not UTF-8 as bytes, and in pure Python as strings with surrogates.

    Parameters
    ----------
    path
        The file: its path, or an open binary file.
    ignore_unknown
        Whether to leave out fields and enum values that Caffe does not have, such as those of a
        fork. By default they are an error, which names the first one.
    forks
        Whether to apply the rules of well-known forks. ``ceil_mode`` of a pooling becomes
        ``round_mode``; ``hole``, ``hole_h`` and ``hole_w`` of a convolution become ``dilation``.
        The settings of the types Interp, Normalize, Permute, PriorBox and ROIPooling are kept for
        `ModelFile.infer_shapes` as unknown fields of the layer, which `write_prototxt` has no names
        for.

    Raises
    ------
    ModelFileError
        If it is not such a definition, or a field is missing that Caffe requires. The message gives
        line and column of other errors.
    """
    return _read(NetParameter, path, ignore_unknown=ignore_unknown, forks=forks)


def read_solver_prototxt(path: Source, *, ignore_unknown: bool = False) -> SolverParameter:
    """Read the definition of a solver from a ``.prototxt`` file.

    The field ``solver_type`` of older definitions is upgraded to ``type``, as in Caffe. The nets
    that the definition names are not read.

    Parameters
    ----------
    path, ignore_unknown
        As for `read_prototxt`, whose errors apply. So is a file with both ``solver_type`` and
        ``type`` an error.
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
            "expected a network definition in text form, got binary data; unpack an archive first; "
            "open_model opens a .caffemodel",
            path=name,
            offset=content.index(b"\0"),
        )
    # Caffe accepts any encoding. Escape bytes that are not UTF-8, as the format allows in strings.
    text = _NOT_UTF8.sub(
        lambda byte: f"\\{ord(byte[0]) & 0xFF:03o}",
        content.decode("utf-8-sig", errors="surrogateescape"),
    )
    try:
        message = _parse(text, kind, ignore_unknown=ignore_unknown, forks=forks)
        require_complete(message)
    except text_format.ParseError as error:
        raise ModelFileError(_explain(error, text.split("\n"), kind), path=name) from error
    except RecursionError as error:
        raise ModelFileError("expected less nesting of messages", path=name) from error
    except ValueError as error:
        raise ModelFileError(str(error), path=name) from error
    if ignore_unknown and not message.ListFields():
        raise ModelFileError(
            f"expected a {kind.__name__}, got none of its fields; {_KINDS}", path=name
        )
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
        Whether to leave out fields that Caffe does not have, such as those of a fork, which have a
        number but no name. By default they are an error.

    Raises
    ------
    ValueError
        If it has such fields, or lacks fields that Caffe requires. Nothing has been written then.
    """
    kinds = {"NetParameter", "SolverParameter"}
    if not isinstance(net, Message) or net.DESCRIPTOR.name not in kinds:
        raise TypeError(
            f"expected a NetParameter message, got {type(net).__name__}; a ModelFile has to_net()"
        )
    layers = [*getattr(net, "layers", ()), *getattr(net, "layer", ())]
    for place, part in [*((f"layer {layer.name!r}", layer) for layer in layers), ("net", net)]:
        for field in () if ignore_unknown else unknown_fields(part):
            raise ValueError(
                f"{place} has a field {field} of a fork of Caffe, for which there is no name to "
                f"write; write_prototxt(net, path, ignore_unknown=True) writes the definition "
                f"without such fields"
            )
    require_complete(net)
    with replacing(path) as temporary:
        temporary.write_text(definition_text(net), encoding="ascii")


def definition_text(net: NetParameter | SolverParameter) -> str:
    """Return a definition as text, without fields that Caffe does not have."""
    return text_format.MessageToString(without_fork_settings(net), as_utf8=False)


def _parse(text: str, kind: type[M], *, ignore_unknown: bool, forks: bool) -> M:
    """Parse a definition whose strings may escape any bytes."""
    values: tuple[tuple[str, str], ...] = ()
    while True:
        twin_of_kind = twin(kind.DESCRIPTOR.full_name, forks=forks, values=values)
        try:
            read = text_format.Parse(text, twin_of_kind(), allow_unknown_field=ignore_unknown)
            break
        except text_format.ParseError as error:
            found = _NO_VALUE.search(str(error))
            # A layer type spelt as in the current format is a mistake, not the type of a fork.
            slip = found and found[1].endswith(".LayerType") and not found[2].isupper()
            if not ignore_unknown or not found or slip or len(values) == _MOST_VALUES:
                raise
            values += ((found[1], found[2]),)
    kept = translate(read) if forks else ()
    message: M = parse(kind, read.SerializePartialToString())
    message.DiscardUnknownFields()  # values that an enum lacks
    for layer, settings in zip(getattr(message, "layer", ()), kept, strict=False):
        layer.MergeFromString(settings)
    return message


def _explain(error: text_format.ParseError, lines: list[str], kind: type[M]) -> str:
    """Return the position and the problem, without the text of the line, which may be long."""
    words = _PLACE.sub("", str(error)).rstrip(".")
    line, place = error.GetLine(), ""
    if line is not None:
        words = words.removeprefix(f"'{lines[line - 1]}': ")
        place = f"line {line}, column {error.GetColumn()}: "
    if "V1LayerParameter" in words:
        words += f"; {_OLDER}"
    if _UNKNOWN.search(words):
        reader = "read_prototxt" if kind is NetParameter else "read_solver_prototxt"
        words += f"; {reader}(path, ignore_unknown=True) leaves such fields and values out"
        if kind.DESCRIPTOR.full_name in words:
            words += f"; {_KINDS}"
    return place + words.replace(f"{NetParameter.DESCRIPTOR.file.package}.", "")


# --- settings of forks ----------------------------------------------------------------------------

_FIRST_NUMBER = 10_000
"""Caffe's messages have smaller numbers of fields and of enum values."""
_FORK_FIELDS = {
    "PoolingParameter": ("ceil_mode",),
    "ConvolutionParameter": ("hole", "hole_h", "hole_w"),  # of DeepLab
}


@lru_cache(maxsize=4)
def twin(name: str, *, forks: bool, values: tuple[tuple[str, str], ...] = ()) -> type[Message]:
    """Return the class of the twin of a message, given its full name."""
    file = FileDescriptorProto.FromString(NetParameter.DESCRIPTOR.file.serialized_pb)
    messages = {message.name: message for message in file.message_type}
    for message in file.message_type:
        for field in message.field:
            if field.type == field.TYPE_STRING:
                field.type = field.TYPE_BYTES
    if forks:
        settings = messages[ForkLayer.DESCRIPTOR.name].field
        for number, field in enumerate(settings, _FIRST_NUMBER):
            messages["LayerParameter"].field.add().MergeFrom(field)
            messages["LayerParameter"].field[-1].number = number
        for kind, names in _FORK_FIELDS.items():
            for number, field_name in enumerate(names, _FIRST_NUMBER):
                type_ = field.TYPE_BOOL if field_name == "ceil_mode" else field.TYPE_UINT32
                messages[kind].field.add(
                    name=field_name, number=number, type=type_, label=field.LABEL_OPTIONAL
                )
    enums = {f"{file.package}.{enum.name}": enum for enum in file.enum_type} | {
        f"{file.package}.{message.name}.{enum.name}": enum
        for message in file.message_type
        for enum in message.enum_type
    }
    for free, (enum_name, value) in enumerate(values, _FIRST_NUMBER):
        known = value.isdecimal()
        number = int(value) if known else free
        enums[enum_name].value.add(name=f"_{value}" if known else value, number=number)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(name))


def translate(net: Any) -> list[bytes]:
    """Replace the fields of forks in a twin of a NetParameter by Caffe's own."""
    for layer in net.layers:
        _translate(layer)
    return [_translate(layer) for layer in net.layer]


def _translate(layer: Any) -> bytes:
    kept = ForkLayer()
    for field, value in layer.ListFields():
        if field.number >= _FIRST_NUMBER:
            getattr(kept, field.name).MergeFromString(value.SerializeToString())
            layer.ClearField(field.name)
        elif field.message_type is not None and field.message_type.name in _FORK_FIELDS:
            names = _FORK_FIELDS[field.message_type.name]
            found = {name: getattr(value, name) for name in names if value.HasField(name)}
            for name in found:
                value.ClearField(name)
            if "ceil_mode" in found and not value.HasField("round_mode"):
                modes = PoolingParameter.FLOOR, PoolingParameter.CEIL
                value.round_mode = modes[found["ceil_mode"]]
            holes = [found[name] for name in names if name.startswith("hole") and name in found]
            if ("hole_h" in found) != ("hole_w" in found):
                raise ValueError("expected hole_h and hole_w, got only one of them")
            if holes and not value.dilation:
                value.dilation.extend(holes)
    return kept.SerializeToString()
