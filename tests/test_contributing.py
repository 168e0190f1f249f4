"""CONTRIBUTING.md lists every check, and the files that it names exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def text():
    if not (ROOT / ".ci" / "run").is_file():
        pytest.skip(".ci is in the source tree only")
    return (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_table_of_checks_is_that_of_ci(text):
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    checks = re.findall(r'\bcheck "([^"]+)"', script)
    table = text.partition("| check | alone |\n| --- | --- |\n")[2].partition("\n\n")[0]
    assert re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE) == checks


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "CHANGELOG.md", "README.md"])
def test_links_lead_to_files(document):
    if not (path := ROOT / document).is_file():
        pytest.skip(f"{document} is in the source tree only")
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert missing == []


def test_files_that_are_named_exist(text):
    named = re.findall(r"`((?:src|tests|conformance|proto|docs|\.ci)/[\w./-]+)`", text)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
