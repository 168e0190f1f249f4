"""Conformance: runs of the array API test suite on syncblob, and their results."""
