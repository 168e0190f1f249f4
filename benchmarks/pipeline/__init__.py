"""Pipelines on both sides: what moves, beside what must, and how long it takes.

`dataflow` says what a pipeline is and reckons the least that must move, `scenarios` has the
pipelines, `runners` the ways to run them, `comparison` sets one beside the other.
"""
