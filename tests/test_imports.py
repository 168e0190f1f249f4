"""The imports between the files of the package have no cycles."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

# Blob's methods for Caffe's messages import these, which are built on Blobs, when they are called.
WHEN_CALLED = ("syncblob._blob", "syncblob.caffe.messages.blob_proto_methods")


def imported(path: Path):
    """Yield the names that a file imports at run time, each with its module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_checkers = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for part in node.body
        for inner in ast.walk(part)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and id(node) not in for_checkers:
            yield from ((alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and id(node) not in for_checkers:
            yield from ((f"{node.module}.{alias.name}", node.module) for alias in node.names)


def test_no_files_import_each_other_in_a_circle():
    source = Path(__file__).parents[1] / "src"
    files = {
        ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (source / "syncblob").rglob("*.py")
    }
    graph = {
        name: {one if one in files else other for one, other in imported(path)} & files.keys()
        for name, path in files.items()
    }
    user, used = WHEN_CALLED
    graph[user].remove(used)
    assert sum(map(len, graph.values())) > len(files)
    TopologicalSorter(graph).prepare()  # raises CycleError
