"""A Blob: attributes, accessors, indexing, operators, methods."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from syncblob import Blob, Device, Head, SyncedMemory

blob = Blob((2, 3), "float32", device="simulated", name="weights")

# --- attributes ----------------------------------------------------------------------------------

assert_type(blob.shape, tuple[int, ...])
assert_type(blob.strides, tuple[int, ...])
assert_type(blob.dtype, np.dtype[np.generic])
assert_type(blob.device, Device)
assert_type(blob.head, Head)
assert_type(blob.ndim, int)
assert_type(blob.nbytes, int)
assert_type(blob.num, int)
assert_type(len(blob), int)
assert_type(blob.memory, SyncedMemory)
assert_type(blob.name, str)
blob.name = "bias"
assert_type(blob.data, Blob)
assert_type(blob.diff, Blob)
assert_type(blob.const, Blob)
assert_type(blob.T, Blob)
assert_type(blob.mT, Blob)

# --- accessors: arrays on the accelerator belong to the device's library ------------------------

assert_type(blob.cpu_data(), NDArray[Any])
assert_type(blob.mutable_cpu_data(), NDArray[Any])
assert_type(blob.overwrite_cpu_diff(), NDArray[Any])
assert_type(blob.gpu_data(), Any)
assert_type(blob.mutable_gpu_diff(), Any)
assert_type(blob.set_cpu_data(np.ones((2, 3), np.float32)), None)
assert_type(blob.async_gpu_push(), None)
assert_type(blob.prefetch(), None)
assert_type(blob[0].head is Head.SPLIT, bool)
assert_type(blob.on("cpu"), Blob)
assert_type(blob.on(blob.device), Blob)
assert_type(blob.memory.cpu_data(), NDArray[np.uint8])

# --- indexing ------------------------------------------------------------------------------------

assert_type(blob[0], Blob)
assert_type(blob[..., 1:], Blob)
assert_type(blob[None, :, ::-1], Blob)
assert_type(blob[blob > 0], Blob)
assert_type(blob[np.array([0, 1])], Blob)
blob[0] = 3
blob[blob > 2] = 1.5
blob[1, :] = np.zeros(3, np.float32)
blob.data *= 2
blob.diff += blob
assert_type(blob.data, Blob)
assert_type(blob.flat, Blob)
blob.flat = [1.0, 2.0]
for item in blob:  # a number or a view
    assert_type(item, Any)

# --- operators -----------------------------------------------------------------------------------

array = np.ones(3, np.float32)
assert_type(-blob, Blob)
assert_type(blob + 1, Blob)
assert_type(1 - blob, Blob)
assert_type(blob * blob, Blob)
assert_type(blob / array, Blob)
assert_type(blob @ blob.T, Blob)
assert_type(2.0**blob, Blob)
assert_type(divmod(blob, 2), tuple[Blob, Blob])
assert_type(blob == array, Blob)
assert_type(blob != 1, Blob)
assert_type(blob < array, Blob)
assert_type((blob > 0) & (blob < 5), Blob)
assert_type(~(blob > 0), Blob)
blob += 1
blob *= array
assert_type(blob, Blob)

# --- methods -------------------------------------------------------------------------------------

assert_type(blob.reshape(3, -1), Blob)
assert_type(blob.reshape((6,)), Blob)
assert_type(blob.transpose(1, 0), Blob)
assert_type(blob.astype("float64"), Blob)
assert_type(blob.to_device("cpu"), Blob)
assert_type(blob.copy(), Blob)
assert_type(blob.sum(axis=0), Blob)
assert_type(blob.argsort(), Blob)
assert_type(blob.flatten(), Blob)
assert_type(blob.ravel(), Blob)
assert_type(blob.squeeze(), Blob)
assert_type(blob.nonzero(), tuple[Blob, ...])
assert_type(float(blob[0, 0]), float)
assert_type(bool(blob[0, 0]), bool)
assert_type(blob.count(1), int)
assert_type(blob.offset(1, 2), int)
assert_type(blob.asum_data(), float | int)
assert_type(blob.copy_from(blob.copy()), None)
assert_type(str(blob.explain()), str)
assert_type(blob.resize(4, 2), None)
