"""The checks for a machine with an NVIDIA GPU, in one command: ``.ci/gpu --help``."""
