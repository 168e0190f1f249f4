"""Fields and enum values of forks of Caffe in the text of a definition.

They are left out of the text and counted, or replaced by Caffe's own settings if the rule of a fork
says so. Line breaks stay, so that the positions in later errors are right.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf import text_format

from syncblob.caffe._pb.caffe_pb2 import ForkLayer
from syncblob.caffe.messages.older_formats import V0_LAYER_TYPES, V1_TYPE_NUMBERS

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor

_TOKEN = re.compile(
    r"""\#[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | [\w.+-]+ | \S""", re.VERBOSE
)
_CLOSING = {"{": "}", "<": ">", "[": "]"}
_FORK_FIELDS = set(ForkLayer.DESCRIPTOR.fields_by_name) - {"pad_type"}


class _Part(NamedTuple):
    """A field in the text, with its value."""

    path: str
    start: int
    stop: int
    value: str


class Foreign:
    """The fields and enum values in a definition that Caffe does not have.

    Parameters
    ----------
    text
        A definition in protobuf's text format.
    kind
        The descriptor of the message that it is.
    leave_out
        Whether to leave out those without a rule. Otherwise they stay in the text.
    translate
        Whether to apply the rules of forks.

    Attributes
    ----------
    counts
        How often each field or value occurs, by its name and the rule applied to it; ``""`` if it
        was left out.
    kept
        Settings that only the fork has, by the number of the V2 layer: fields for a LayerParameter.

    Raises
    ------
    google.protobuf.text_format.ParseError
        If a field that is left out does not end.
    """

    def __init__(self, text: str, kind: Any, *, leave_out: bool, translate: bool) -> None:
        self._text = text
        self._leave_out = leave_out
        self._translate = translate
        self._tokens = [found for found in _TOKEN.finditer(text) if not found[0].startswith("#")]
        self._at = 0
        self._layer = -1
        self._edits: list[tuple[int, int, str]] = []
        self.counts: Counter[tuple[str, str]] = Counter()
        self.kept: dict[int, bytes] = {}
        self._message(kind, "", "")

    @property
    def text(self) -> str:
        """The definition without what was left out or translated."""
        pieces, position = [], 0
        for start, stop, new in sorted(self._edits):
            breaks = "\n" * self._text.count("\n", start, stop)
            pieces += [self._text[position:start], new.ljust(stop - start - len(breaks)), breaks]
            position = stop
        return "".join([*pieces, self._text[position:]])

    def _message(self, kind: Any, path: str, closing: str) -> None:
        """Read the fields of a message up to a closing bracket."""
        foreign: dict[str, _Part] = {}
        known = set()
        while self._at < len(self._tokens) and self._next() != closing:
            begin = self._at
            name = self._take()
            while name[0] == "[" and name[-1] != "]" and self._next():  # an extension
                name += self._take()
            field = kind.fields_by_name.get(name)
            colon = self._skip(":")
            here = f"{path}{name}"
            if field is None and not colon and self._next() not in ("{", "<"):
                continue  # no field: an error, wherever the parser finds it
            if field is None:
                value = self._at
                self._skip_value()
                part = self._part(here, begin, value)
                if name in foreign:  # repeated, so no rule is for it
                    self._drop(part)
                else:
                    foreign[name] = part
            else:
                known.add(name)
                self._layer += here == "layer"
                self._known(field, here, begin)
            self._skip_separators()
        self._at += 1
        for name, part in foreign.items():
            rule = self._rule(kind.name, name, foreign, known) if self._translate else None
            if rule is None:
                self._drop(part)
            else:
                self._edit(part, *rule)

    def _known(self, field: FieldDescriptor, path: str, begin: int) -> None:
        """Read the value of one of Caffe's fields."""
        value = self._at
        if field.message_type is not None and self._next() in _CLOSING:
            several = self._skip("[")
            while self._next() in ("{", "<"):
                closing = _CLOSING[self._take()]
                self._message(field.message_type, f"{path}.", closing)
                if not several:
                    return
                self._skip(",")
            self._at += 1
            return
        self._skip_value()
        if field.enum_type is None:
            return
        part = self._part(path, begin, value)
        for name in re.findall(r"\w+", part.value) if part.value[:1] not in "'\"" else ():
            numbers = field.enum_type.values_by_number
            is_known = name in field.enum_type.values_by_name or (
                name.isdecimal() and int(name) in numbers
            )
            # These are types in the words of the other format of layers, an error of its own.
            if not is_known and name not in V0_LAYER_TYPES and name not in V1_TYPE_NUMBERS:
                self._drop(part._replace(path=f"{path}: {name}"))
                return

    def _rule(
        self, kind: str, name: str, foreign: dict[str, _Part], known: set[str]
    ) -> tuple[str, str] | None:
        """Return the text that replaces a field, and the rule in words; None without a rule."""
        value, rule = foreign[name].value, None
        in_layer = self._layer >= 0
        match kind, name:
            case "PoolingParameter", "ceil_mode" if value in ("true", "false"):
                # synopsys-caffe, whose round_mode wins over ceil_mode.
                mode = f"round_mode: {'CEIL' if value == 'true' else 'FLOOR'}"
                rule = "" if "round_mode" in known else mode, mode
            case "ConvolutionParameter", "hole" if "dilation" not in known:  # DeepLab
                rule = f"dilation: {value}", "dilation"
            case "ConvolutionParameter", "hole_h" | "hole_w" if {
                "hole_h",
                "hole_w",
            } <= foreign.keys() and "dilation" not in known:
                both = f"dilation: [{foreign['hole_h'].value}, {foreign['hole_w'].value}]"
                rule = both if name == "hole_h" else "", "dilation"
            case "ConvolutionParameter" | "PoolingParameter", "pad_type" if in_layer:
                rule = self._keep(foreign[name], "pads as TensorFlow's SAME if 1")
            case "LayerParameter", _ if in_layer and name in _FORK_FIELDS:
                rule = self._keep(foreign[name], "kept")
        return rule

    def _keep(self, part: _Part, rule: str) -> tuple[str, str]:
        """Keep a field for the layer."""
        # The text before it is blank, so that errors have the right position.
        before = re.sub(r"[^\n]", " ", self._text[: part.start])
        settings = ForkLayer()
        text_format.Parse(before + self._text[part.start : part.stop], settings)
        self.kept[self._layer] = self.kept.get(self._layer, b"") + settings.SerializeToString()
        return "", rule

    def _drop(self, part: _Part) -> None:
        if self._leave_out:
            self._edit(part, "", "")

    def _edit(self, part: _Part, new: str, rule: str) -> None:
        self._edits.append((part.start, part.stop, new))
        self.counts[part.path, rule] += 1

    # --- tokens ----------------------------------------------------------------------------------

    def _next(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][0]

    def _skip(self, token: str) -> bool:
        found = self._next() == token
        self._at += found
        return found

    def _skip_separators(self) -> None:
        while self._next() in (";", ","):
            self._at += 1

    def _skip_value(self) -> None:
        """Skip a scalar, adjacent strings, or everything up to the matching bracket."""
        first = self._at
        open_brackets: list[str] = []
        while self._at < len(self._tokens):
            token = self._take()
            if token in _CLOSING:
                open_brackets.append(_CLOSING[token])
            elif open_brackets and token == open_brackets[-1]:
                open_brackets.pop()
            goes_on = token in ("+", "-") or (token[0] in "'\"" and self._next()[:1] in ("'", '"'))
            if not open_brackets and not goes_on:
                return
        if open_brackets:
            start = self._tokens[first].start()
            line = self._text.count("\n", 0, start) + 1
            column = start - self._text.rfind("\n", 0, start)
            raise text_format.ParseError(f'Expected "{open_brackets[-1]}"', line, column)

    def _part(self, path: str, begin: int, value: int) -> _Part:
        """Return the field of the tokens from `begin` to the current one, and what separates it."""
        behind = self._tokens[self._at - 1].end()
        first = self._tokens[value].start() if value < self._at else behind
        self._skip_separators()
        start, stop = self._tokens[begin].start(), self._tokens[self._at - 1].end()
        return _Part(path, start, stop, self._text[first:behind])
