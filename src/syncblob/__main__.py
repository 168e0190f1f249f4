"""``python -m syncblob``: the command line."""

import sys

from syncblob.caffe.commands import main

if __name__ == "__main__":
    sys.exit(main())
