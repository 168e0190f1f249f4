"""Benchmarks: syncblob and its rivals, measured in one run, with ratios."""
