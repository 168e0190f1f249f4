"""The pages of documentation: no block that nobody runs, no page and no file that is left out."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ARCHITECTURE = (DOCS / "architecture.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

# The start of a block, and its language.
FENCE = re.compile(r"(`{3,})(.*)")
# Python is run by Sybil, which conftest.py sets up; what is shown of the command line is run by
# the tests in tests/cli.
RUN = {"python", "console"}
REASON = re.compile(r"<!-- (not run: |skip: next |command ).+ -->")


def blocks(page: Path):
    """Yield the language of each block of a page, and the line before it."""
    closing, before = None, ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if closing is None and (opening := FENCE.fullmatch(line)):
            closing = opening[1]
            yield opening[2], before
        elif line == closing:
            closing = None
        before = line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_is_run_or_says_why_not(page):
    silent = [
        language
        for language, before in blocks(page)
        if not (language in RUN or language.startswith("{") or REASON.fullmatch(before))
    ]
    assert silent == []


def test_the_readme_leads_to_files_that_are_there():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_first_page_leads_to_every_page():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    assert {page for page in pages if f"]({page}.md)" not in text} == set()


def test_the_architecture_names_every_file():
    package = ROOT / "src" / "syncblob"
    left_out = [
        str(path.relative_to(package))
        for path in sorted(package.rglob("*.py"))
        if path.name != "__init__.py"
        and path.parent.name != "_pb"
        # Chapters of the standard.
        and not (path.parent.name == "array_api" and not path.name.startswith("_"))
        and not re.search(rf"\b{re.escape(path.name)}", ARCHITECTURE)
    ]
    assert left_out == []


def imported(path: Path):
    """Yield the names that a file imports at run time, each with the module it is from."""
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
    source = ROOT / "src"
    files = {
        ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (source / "syncblob").rglob("*.py")
    }
    graph = {
        name: {one if one in files else other for one, other in imported(path)} & files.keys()
        for name, path in files.items()
    }
    assert sum(map(len, graph.values())) > len(files)
    TopologicalSorter(graph).prepare()  # raises CycleError
