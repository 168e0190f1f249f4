"""The command ``syncblob``, which Ctrl-C ends quietly while its modules are being imported, too."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Run the command line, and return the exit status."""
    # Not KeyboardInterrupt: libraries turn it into other errors while they are being imported. 128
    # plus the number of the signal is the status that shells report.
    before = signal.signal(signal.SIGINT, lambda number, _frame: os._exit(128 + number))
    from syncblob.caffe.commands import main as run  # takes a moment

    signal.signal(signal.SIGINT, before)
    return run()


if __name__ == "__main__":
    sys.exit(main())
