"""Make the command for a GPU and the tests beside it importable; neither is installed."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]
