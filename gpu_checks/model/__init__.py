"""The model of CUDA in the place of CuPy, for a trial of the command where there is no GPU."""
