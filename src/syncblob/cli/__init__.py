"""The command line: ``syncblob tour``, ``inspect``, ``diff`` and ``convert``.

One module for each command; `_main` parses the arguments, `_console` prints. Libraries that are
slow to import (rich, torch, CuPy, protobuf) are imported by the commands that need them.
"""

from __future__ import annotations

from syncblob.cli._main import main

__all__ = ["main"]
