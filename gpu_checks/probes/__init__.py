"""Probes: each checks one behaviour of CUDA in a separate process, and prints one line."""
