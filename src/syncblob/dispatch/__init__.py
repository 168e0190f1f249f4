"""Functions of other libraries called with Blobs."""
