"""The command line: ``syncblob tour``, ``inspect``, ``diff`` and ``convert``.

One module for each command; `command_line` parses the arguments, `console` prints. Libraries that
are slow to import (torch, CuPy) are imported by the commands that need them.
"""

from syncblob.caffe.commands.command_line import main

__all__ = ["main"]
