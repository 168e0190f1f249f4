"""Other libraries that must be told of Blobs: Dask, einops, PyTorch's modules and data loaders."""
