"""``python -m syncblob``: the command line."""

from __future__ import annotations

import sys

from syncblob.caffe.commands import main

if __name__ == "__main__":
    sys.exit(main())
