"""The command line: ``syncblob tour`` and ``syncblob inspect``.

One file a command; `_main` reads the arguments, `_console` knows the terminal. What takes time to
import (rich, torch, CuPy, protobuf) is imported by the command that needs it.
"""

from __future__ import annotations

from syncblob.cli._main import main

__all__ = ["main"]
