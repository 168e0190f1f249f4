"""What the tests of the conformance runner share: its package, and git."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The runner is not part of the installed package.
sys.path.insert(0, str(ROOT))


@pytest.fixture
def git(monkeypatch):
    """Let tests run git without the user's settings."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")

    def git(folder, *arguments):
        author = ("-c", "user.name=tester", "-c", "user.email=tester@example.org")
        command = ["git", "-C", str(folder), *author, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    return git
