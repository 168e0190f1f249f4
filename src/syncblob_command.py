"""The command ``syncblob``: Ctrl-C ends it quietly while its modules are being imported, too."""

from __future__ import annotations

import sys

__all__ = ["main"]

_INTERRUPTED = 130  # 128 plus the number of SIGINT, as shells report it


def main() -> int:
    """Run the command line, and return the exit status."""
    try:
        from syncblob.caffe.commands import main as run  # takes a moment
    except KeyboardInterrupt:
        return _INTERRUPTED
    return run()


if __name__ == "__main__":
    sys.exit(main())
