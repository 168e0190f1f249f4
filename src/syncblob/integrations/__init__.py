"""Support for Blobs in other libraries: Dask, einops, JAX, Numba, PyTorch, functions of ndarrays.

Importing a module registers Blobs with its library. `syncblob` imports those of Dask, einops and
PyTorch's data loaders itself if their library was imported first.
"""
