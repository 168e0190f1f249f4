"""Pipelines on both sides: bytes moved, compared with the minimum, and time.

`dataflow` defines pipelines and computes the minimum, `scenarios` has the pipelines, `runners` the
ways to run them, and `comparison` compares the results.
"""
