"""The protocols that exchange arrays between Blobs and other libraries.

`dask`, `einops`, `torch` and `torch_data` are the public names of modules in
`syncblob.integrations`, which use Blob; so does `ndarrays`.
"""
