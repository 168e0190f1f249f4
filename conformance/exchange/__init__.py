"""What other libraries do with a Blob, measured: `python -m conformance.exchange --help`."""
