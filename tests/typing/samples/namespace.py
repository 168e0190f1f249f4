"""The array API namespace."""

from typing import assert_type

import numpy as np

import syncblob as xp
from syncblob import Blob

x = xp.asarray([[1, 2], [3, 4]], dtype=xp.float64)
assert_type(x, Blob)

# --- creation ------------------------------------------------------------------------------------

assert_type(xp.zeros((2, 3), device="simulated"), Blob)
assert_type(xp.arange(10), Blob)
assert_type(xp.full((2,), 1.5), Blob)
assert_type(xp.linspace(0, 1, 5), Blob)
assert_type(xp.ones_like(x), Blob)
assert_type(xp.from_dlpack(np.ones(3)), Blob)
assert_type(xp.meshgrid(xp.arange(2), xp.arange(3)), tuple[Blob, ...])

# --- elementwise, statistics, manipulation, search ------------------------------------------------

assert_type(xp.sin(x), Blob)
assert_type(xp.add(x, 1), Blob)
assert_type(xp.where(x > 2, x, 0), Blob)
assert_type(xp.clip(x, 0, 3), Blob)
assert_type(xp.sum(x, axis=(0, 1), keepdims=True), Blob)
assert_type(xp.mean(x), Blob)
assert_type(xp.any(x > 3), Blob)
assert_type(xp.concat([x, x], axis=1), Blob)
assert_type(xp.permute_dims(x, (1, 0)), Blob)
assert_type(xp.expand_dims(x, axis=0), Blob)
assert_type(xp.unstack(x), tuple[Blob, ...])
assert_type(xp.broadcast_arrays(x, x), tuple[Blob, ...])
assert_type(xp.broadcast_shapes((1,), (2,)), tuple[int, ...])
assert_type(xp.nonzero(x), tuple[Blob, ...])
assert_type(xp.argmax(x), Blob)
assert_type(xp.sort(x), Blob)
assert_type(xp.take(x, xp.asarray([0]), axis=0), Blob)
assert_type(xp.unique_values(x), Blob)
assert_type(xp.unique_counts(x).counts, Blob)

# --- linear algebra and Fourier transforms --------------------------------------------------------

assert_type(xp.matmul(x, x), Blob)
assert_type(xp.tensordot(x, x), Blob)
assert_type(xp.linalg.inv(x), Blob)
assert_type(xp.linalg.svd(x).S, Blob)
sign, logabsdet = xp.linalg.slogdet(x)
assert_type(sign, Blob)
assert_type(xp.fft.fft(x), Blob)
assert_type(xp.fft.fftfreq(4), Blob)

# --- data types, constants, inspection ------------------------------------------------------------

assert_type(xp.astype(x, xp.float32), Blob)
assert_type(xp.result_type(x, xp.float32), np.dtype[np.generic])
assert_type(xp.can_cast(x, xp.float32), bool)
assert_type(xp.isdtype(x.dtype, "real floating"), bool)
assert_type(xp.finfo(xp.float32).eps, float)
assert_type(xp.iinfo("int8").max, int)
assert_type(xp.float32, type[np.float32])
assert_type(xp.pi, float)
assert_type(xp.inf, float)
assert_type(xp.newaxis, None)
assert_type(xp.__array_api_version__, str)
assert_type(xp.__array_namespace_info__().dtypes(), dict[str, np.dtype[np.generic]])
