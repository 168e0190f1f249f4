"""The entry point: parses the arguments, and returns the exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import syncblob
from syncblob.caffe.commands import convert, diff, inspect, tour
from syncblob.caffe.commands.console import printable
from syncblob.caffe.convert import ConversionError
from syncblob.errors import ModelFileError

_FAILURE = 1
_MISUSE = 2
# The status that shells report for an interrupted process: 128 plus the number of SIGINT.
_INTERRUPTED = 130
# The same for a closed pipe: 128 plus the number of SIGPIPE.
_UNREAD = 141

_DESCRIPTION = """\
One array with a host and an accelerator copy, kept in step on demand and
shared without copying with NumPy, CuPy and PyTorch.
"""

_EPILOG = """\
examples:
  syncblob tour                           see what is shared and what moves
  syncblob inspect net.caffemodel         what is in a model file
  syncblob inspect mean.binaryproto --stats
  syncblob diff before.caffemodel after.caffemodel
  syncblob convert net.caffemodel net.safetensors
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, by default with the arguments of the process."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.version:
        print(f"syncblob {syncblob.__version__}")  # noqa: T201  # this is its output
        return 0
    if arguments.command is None:
        parser.print_help()
        return 0
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe ("| head"). Without this, the flush at exit would fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _UNREAD
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (ConversionError, ModelFileError, ModuleNotFoundError, OSError) as error:
        message = str(error)
        if isinstance(error, OSError):
            place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
            message = f"{place}{error.strerror or error}"
        print(f"syncblob: error: {printable(message, sys.stderr)}", file=sys.stderr)  # noqa: T201  # this is its output
        return _MISUSE if isinstance(error, ModuleNotFoundError) else int(arguments.failure)
    return status


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="syncblob", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=raw
    )
    parser.add_argument(
        "--version", action="store_true", help="show the version of syncblob and exit"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in (tour, inspect, diff, convert):
        sub = commands.add_parser(
            command.__name__.rpartition(".")[2],
            help=command.SUMMARY,
            description=command.DESCRIPTION,
            epilog=command.EPILOG,
            formatter_class=raw,
        )
        sub.set_defaults(run=command.run, failure=_FAILURE)
        command.add_arguments(sub)
    return parser
