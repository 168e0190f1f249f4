"""Probes: each asks one question of CUDA in a process of its own, and prints one line."""
