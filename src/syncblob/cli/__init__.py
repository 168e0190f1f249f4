"""The command line: ``syncblob tour``, ``inspect``, ``diff`` and ``convert``.

One file a command; `_main` reads the arguments, `_console` knows the terminal. What takes time to
import (rich, torch, CuPy, protobuf) is imported by the command that needs it.
"""

from __future__ import annotations

from syncblob.cli._main import main

__all__ = ["main"]
