"""Functions of other libraries that are called with Blobs."""
