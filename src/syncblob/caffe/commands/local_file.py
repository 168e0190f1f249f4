"""Standard input and pipes as files, because most formats are not read from front to back."""

from __future__ import annotations

import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from syncblob.caffe.convert import ConversionError
from syncblob.caffe.messages.streams import in_temporary_space
from syncblob.errors import ModelFileError

_STANDARD_INPUT = "-"


@contextmanager
def local_file(path: str) -> Iterator[str]:
    """Yield the path of a regular file: `path`, or a copy if it is ``"-"``, a pipe or a device.

    The copy is removed at the end. Errors in the block name `path` in place of it.

    Raises
    ------
    OSError
        If it cannot be read.
    """
    if path != _STANDARD_INPUT and not _is_stream(path):
        yield path
        return
    with TemporaryDirectory(prefix="syncblob-") as folder:
        copy = str(Path(folder, "input"))
        stream = sys.stdin.buffer if path == _STANDARD_INPUT else Path(path).open("rb")  # noqa: SIM115  # closed below
        with in_temporary_space(), stream, Path(copy).open("wb") as file:
            shutil.copyfileobj(stream, file)
        try:
            yield copy
        except (ConversionError, ModelFileError) as error:
            raise ModelFileError(str(error).replace(copy, path)) from error


def _is_stream(path: str) -> bool:
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False  # the error of the function that opens it is better
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
