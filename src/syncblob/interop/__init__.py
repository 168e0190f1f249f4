"""The protocols through which other array libraries take a Blob, and Blobs take their arrays.

`dask`, `einops`, `torch` and `torch_data` are the public names of modules in
`syncblob.integrations`, which are built on Blobs; `ndarrays` is built on them, too.
"""
