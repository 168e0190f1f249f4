"""Support for Blobs in Dask, einops, Numba, and PyTorch's modules and data loaders."""
