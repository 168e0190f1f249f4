"""The protocols that exchange arrays between Blobs and other libraries, one module for each."""
