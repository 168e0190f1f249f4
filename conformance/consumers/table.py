"""Reads the tables: Python files whose statements are the calls, one function per library."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

__all__ = ["FOLDER", "Call", "Library", "libraries_of", "load", "names"]

FOLDER = Path(__file__).with_name("tables")


@dataclass(frozen=True)
class Call:
    """One call of a consumer.

    Attributes
    ----------
    name
        The call as its table has it.
    code
        The call, compiled.
    arrays
        The ndarrays that it names.
    """

    name: str
    code: CodeType
    arrays: dict[str, np.ndarray]


@dataclass
class Library:
    """The calls of a library, with the names that they use."""

    name: str
    version: str
    names: dict[str, Any]
    calls: list[Call] = field(default_factory=list)


def names() -> list[str]:
    """Return the names of all tables."""
    return sorted(path.stem for path in FOLDER.glob("*.py"))


def libraries_of(table: str) -> list[str]:
    """Return the distributions of a table, which has one function for each."""
    body = ast.parse((FOLDER / f"{table}.py").read_text("utf-8")).body
    return [x.name.replace("_", "-") for x in body if _is_library(x)]


def load(table: str, wanted: list[str]) -> Iterator[Library]:
    """Yield the installed libraries of a table, or those of them that are wanted.

    A statement that names an ndarray is a call, if it is an expression or writes to something. All
    other statements prepare the calls below them.
    """
    body = ast.parse((FOLDER / f"{table}.py").read_text("utf-8")).body
    shared: dict[str, Any] = {"__name__": f"conformance.consumers.tables.{table}"}
    for statement in body:
        name = statement.name.replace("_", "-") if _is_library(statement) else ""
        if not name:
            _execute(statement, shared)
        elif not wanted or name in wanted:
            try:
                library = Library(name, version(name), dict(shared))
                for inner in statement.body:
                    _add(inner, library)
            except (PackageNotFoundError, ImportError):
                continue  # it, or another package that its calls need, is not installed
            yield library


def _is_library(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef) and not statement.name.startswith("_")


def _add(statement: ast.stmt, library: Library) -> None:
    used = {x.id for x in ast.walk(statement) if isinstance(x, ast.Name)}
    arrays = {x: library.names[x] for x in used if type(library.names.get(x)) is np.ndarray}
    if not arrays or not _does_something(statement):
        _execute(statement, library.names)
    elif isinstance(statement, ast.Expr):
        code = compile(ast.Expression(statement.value), library.name, "eval")
        library.calls.append(Call(ast.unparse(statement), code, arrays))
    else:
        code = compile(ast.Module([statement], []), library.name, "exec")
        library.calls.append(Call(ast.unparse(statement), code, arrays))


def _does_something(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        return not isinstance(statement.targets[0], (ast.Name, ast.Tuple))
    return isinstance(statement, (ast.Expr, ast.AugAssign))


def _execute(statement: ast.stmt, namespace: dict[str, Any]) -> None:
    code = compile(ast.Module([statement], []), namespace["__name__"], "exec")
    exec(code, namespace)  # noqa: S102  # the table is ours
