"""Dask: importing this module lets Dask arrays have Blobs as chunks and as operands.

`syncblob` does it too, if Dask was imported first.

Dask mostly calls NumPy's functions on its chunks, which accept Blobs anyway. This module adds the
size of a Blob, percentiles, and the conversion to ndarrays.
"""

import dask.array as da
import numpy as np
from dask.array.dispatch import percentile_lookup, to_numpy_dispatch
from dask.sizeof import sizeof

from syncblob._blob import Blob

# Makes Dask arrays accept Blobs as operands.
da.register_chunk_type(Blob)
# The bytes of data, and of diff if it exists.
sizeof.register(Blob, lambda blob: blob.nbytes * (2 if blob.diff_head else 1))
to_numpy_dispatch.register(Blob, lambda data, **_: np.asarray(data))
percentile_lookup.register(Blob, percentile_lookup.dispatch(np.ndarray))
