"""The page that is made of the results, docs/exchange.md."""

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from conformance.exchange.cells import DTYPES, FORMS, LAYOUTS, STATES
from conformance.exchange.results import AXES, NEGATIVE, selects

HERE = Path(__file__).resolve().parent
ADAPTERS, RESULTS = HERE / "adapters", HERE / "results"
# What is read of an adapter without its library.
_CONSTANTS = ("REQUIRES", "GROUP", "PYTHON", "ADVICE", "REASONS")
TABLE = HERE.parents[1] / "docs" / "exchange.md"


@cache
def libraries() -> list[str]:
    """Return the names of the adapters, in the order of their libraries' names."""
    names = [path.stem for path in ADAPTERS.glob("[!_]*.py")]
    return sorted(names, key=lambda name: about(name)["NAME"].lower())


@cache
def about(name: str) -> dict[str, Any]:
    """Return the constants of an adapter, and its docstring as NAME, without its library."""
    tree = ast.parse((ADAPTERS / f"{name}.py").read_text("utf-8"))
    docstring = ast.get_docstring(tree) or ""
    found: dict[str, Any] = {"NAME": docstring.partition(".\n")[0].removesuffix(".")}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=key)], value=value) if key in _CONSTANTS:
                found[key] = ast.literal_eval(value)
    return found


def as_json(value: Any, indent: int = 0) -> str:
    """Return results as the text of their file, with a line for each list."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    space = "\n" + " " * (indent + 1)
    if not value:
        return "{}"
    items = (f"{json.dumps(key)}: {_lines(each, indent + 1)}" for key, each in value.items())
    return "{" + space + f",{space}".join(items) + "\n" + " " * indent + "}" + "\n" * (not indent)


def _lines(value: Any, indent: int) -> str:
    if isinstance(value, list) and value and isinstance(value[0], (list, tuple)):
        space = "\n" + " " * (indent + 1)
        return "[" + space + f",{space}".join(map(json.dumps, value)) + "\n" + " " * indent + "]"
    return as_json(value, indent)


def results() -> dict[str, dict[str, Any]]:
    """Return the published results by the names of the adapters."""
    found = {}
    for name in libraries():
        path = RESULTS / f"{name}.json"
        if path.exists():
            found[name] = json.loads(path.read_text("utf-8"))
    return found


# --- the table -----------------------------------------------------------------------------------


def outcome_at(rows: list[list[str]], *axes: str) -> dict[str, str]:
    """Return what was found in a cell of a call; {} if it was not measured."""
    for text, *values in rows:
        if all(map(selects, values, axes)):
            return dict(part.partition("=")[::2] for part in text.split("; "))
    return {}


def verdict(found: dict[str, str]) -> str:
    """Return in a word what became of an array."""
    if not found or "has none" in found:
        return ""
    if "raises" in found:
        return "refused"
    if "values" in found:
        # What NumPy makes of a dtype that it does not know.
        dtype = found.get("dtype", "").rstrip("0123456789")
        return {"void": "as bytes", "object": "as objects"}.get(dtype, "**wrong**")
    return "other shape" if "shape" in found else found.get("memory", "right")


def row_of(results: dict[str, Any], call: str) -> list[str]:
    """Return the cells of the table for a call of a library."""
    rows = results["given"][call]
    dtype = _usual(rows)
    at = {state: outcome_at(rows, dtype, "C", state, "writable") for state in STATES}
    host = verdict(at["host"])
    by = dict.fromkeys(
        part.partition("(")[0].strip("`") + " read-only" * part.endswith("const")
        for found in at.values()
        for part in re.findall(r"`[^`]+`(?: const)?", found.get("by", ""))
    )
    return [
        f"{results['library']} {next(iter(results['versions'].values()))}",
        f"`{call}`",
        _states({state: verdict(found) for state, found in at.items()}),
        ", ".join(f"`{x.removesuffix(' read-only')}`{' read-only' * (' ' in x)}" for x in by),
        _needs(rows, dtype, host),
        _const(rows, dtype),
        _back(results.get("taken", {}), dtype),
    ]


def _usual(rows: list[list[str]]) -> str:
    for dtype in ("float32", "uint8", *DTYPES):
        if verdict(outcome_at(rows, dtype, "C", "host", "writable")) not in {"refused", ""}:
            return dtype
    return "float32"


def _states(verdicts: dict[str, str]) -> str:
    """Say what becomes of a Blob in each state; one word if it is always the same."""
    kinds = dict.fromkeys(verdicts.values())
    if len(kinds) == 1:
        return next(iter(kinds))
    of = {kind: [state for state, x in verdicts.items() if x == kind] for kind in kinds}
    names = {"host": "on the host"}
    return "; ".join(
        f"{kind}: {', '.join(names.get(x, x) for x in states)}" for kind, states in of.items()
    )


def _needs(rows: list[list[str]], dtype: str, usual: str) -> str:
    """Say which dtypes and layouts are treated in another way than the usual one."""
    found: dict[str, list[str]] = {}
    cells = [(name, "C") for name in DTYPES] + [(dtype, name) for name in LAYOUTS]
    for cell in cells:
        state = next(
            x for x in ("host", "device") if verdict(outcome_at(rows, dtype, "C", x, "writable"))
        )
        got = outcome_at(rows, *cell, state, "writable")
        word = verdict(got)
        if word == usual and "dtype" in got:
            word = f"as {got['dtype']}"
        if word not in {usual, "", "empty"}:
            found.setdefault(word, []).append(cell[0] if cell[1] == "C" else cell[1])
    return "; ".join(f"{kind}: {', '.join(dict.fromkeys(names))}" for kind, names in found.items())


def _const(rows: list[list[str]], dtype: str) -> str:
    """Say what becomes of memory that must not be written."""
    found = {
        form: [outcome_at(rows, dtype, "C", state, form) for state in STATES] for form in FORMS
    }
    if any(x.get("write", "").startswith("ignores") for each in found.values() for x in each):
        return "**writes it**"
    const = found["const"][0]
    if "raises" in const:
        return "refused"
    return {"raises": "read-only", "stays outside": "copied"}.get(
        const.get("write", ""), verdict(const)
    )


def _back(taken: dict[str, list[list[str]]], dtype: str) -> str:
    """Say what Blobs of the library's arrays are."""
    verdicts = {}
    for call, rows in taken.items():
        word = verdict(outcome_at(rows, dtype, "C")) or verdict(outcome_at(rows, "float32", "C"))
        if word:
            verdicts[f"`{call.partition('.')[2].partition('(')[0]}`"] = word
    kinds = dict.fromkeys(verdicts.values())
    if len(kinds) == 1:
        return next(iter(kinds))
    return "; ".join(f"{call} {word}" for call, word in verdicts.items())


# --- the page ------------------------------------------------------------------------------------

_TABLE = (
    "| library | call | takes a Blob | by | exceptions | const memory | comes back | advice |",
    "|" + " --- |" * 8,
)
_OPERATORS = ("| library | `x + b` | `b + x` | `x == b` | `b == x` |", "|" + " --- |" * 5)
_LESS = ("| library | call | what | where | why |", "|" + " --- |" * 5)
_BEGIN = "<!-- begin: made by `python -m conformance.exchange --render` -->"
_END = "<!-- end -->"
_NEGATIVE_TEXT = """\
No DLPack consumer gets a view with a negative stride, because some releases of PyTorch abort the
process for one, and a producer does not know its consumer; pass `np.asarray(b)` or `b.copy()`. The
rest:"""


def table_page(found: dict[str, dict[str, Any]], before: str) -> str:
    """Return docs/exchange.md with new tables; its other text stays."""
    lines = [_BEGIN, "", *_TABLE]
    for name, each in found.items():
        rows = [row_of(each, call) for call in each["given"]]
        notes = [about(name).get("ADVICE", ""), *[""] * len(rows)]
        lines += [f"| {' | '.join([*row, note])} |" for row, note in zip(rows, notes, strict=False)]
    lines += [
        "",
        "## Operators",
        "",
        "The results of operators with an array `x` of the library:",
        "",
    ]
    lines += _OPERATORS
    for each in found.values():
        if operators := each.get("operator"):
            row = [_operator(rows) for rows in operators.values()]
            lines.append(f"| {each['library']} | {' | '.join(row)} |")
    lines += ["", "## Where an ndarray gets more", "", _NEGATIVE_TEXT, "", *_LESS]
    for name, each in found.items():
        for call, faults in each["ours"].items():
            for fault, rows in faults.items():
                if fault != NEGATIVE:
                    direction = next(x for x in AXES if call in each.get(x, {}))
                    where = "; or ".join(_where(AXES[direction], row) for row in rows)
                    reason = about(name).get("REASONS", {}).get(call, "**no reason**")
                    lines.append(
                        f"| {each['library']} | `{call}` | {fault.partition(', and')[0]} | {where} "
                        f"| {reason} |"
                    )
    lines += ["", _END]
    above, rest = before.split(_BEGIN)
    return above + "\n".join(lines) + rest.partition(_END)[2]


def without_reason() -> list[str]:
    """Return what a Blob does not get, and an ndarray does, and no adapter gives a reason for."""
    return [
        f"{name}: {call}: {fault}"
        for name, each in results().items()
        for call, faults in each["ours"].items()
        for fault in faults
        if fault != NEGATIVE and call not in about(name).get("REASONS", {})
    ]


def _where(axes: tuple[str, ...], row: list[str]) -> str:
    """Say in which cells something holds, axis by axis."""
    named = [f"{axis} {_shown(x)}" for axis, x in zip(axes, row, strict=True) if x != "*"]
    return "; ".join(named) or "all"


def _operator(rows: list[list[str]]) -> str:
    kinds = []
    for state in STATES[:2]:
        for dtype in ("float32", "uint8", "int32"):
            got = outcome_at(rows, dtype, state)
            if "has none" not in got:
                word = "raises" if "raises" in got else got.get("returns", "")
                kinds.append(f"**wrong** {word}" if "values" in got else word)
                break
    return ", ".join(dict.fromkeys(f"`{x}`" if x[:1] not in "r*" else x for x in kinds))


def _shown(selector: str) -> str:
    names = selector.strip("!").replace(",", ", ")
    return "all" if selector == "*" else f"all but {names}" if selector[0] == "!" else names


def write() -> None:
    """Write the page."""
    TABLE.write_text(table_page(results(), TABLE.read_text("utf-8")), "utf-8")
