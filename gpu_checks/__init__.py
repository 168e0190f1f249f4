"""What is checked on a machine with an NVIDIA GPU, in one command: ``.ci/gpu --help``."""
