"""Pages of the documentation: each block is run or says why not, and each page is linked."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

# The start of a block and its language.
FENCE = re.compile(r"(`{3,})(.*)")
# Sybil runs the Python blocks, see conftest.py. Tests in tests/caffe/commands run the commands.
RUN = {"python", "console"}
REASON = re.compile(r"<!-- (not run: |skip: next |command ).+ -->")


def blocks(page):
    """Yield the language of each block of a page, and the line before the block."""
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


def test_the_first_page_leads_to_every_page():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    text += (DOCS / "performance.md").read_text(encoding="utf-8")  # to its tables
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    assert {page for page in pages if f"]({page}.md)" not in text} == set()
