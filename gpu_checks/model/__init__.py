"""The model of CUDA in place of CuPy, to try the command without a GPU."""
