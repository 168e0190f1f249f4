"""Probes: tests of the behaviour of CUDA, CuPy and PyTorch, each run in its own process.

A probe that passes says that a GPU does what the model of CUDA says. ``xfail`` means that a race
could not be provoked, so that nothing is known; ``skip`` that the probe cannot be made here.
"""
