"""Conformance: the array API test suite, run on syncblob, and what it found."""
