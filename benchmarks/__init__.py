"""Benchmarks: syncblob and its rivals, timed in one run, with ratios."""
