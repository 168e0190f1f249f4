"""NumPy and PyTorch. They are typed for their own arrays, so some calls have no precise type."""

from typing import Any, assert_type

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.dlpack import from_dlpack

from syncblob import Blob, Device
from syncblob.integrations.torch import parameters_to_blobs
from syncblob.integrations.torch_data import BlobLoader

blob = Blob.asarray(np.ones((2, 3), np.float32))
assert_type(blob, Blob)

assert_type(np.asarray(blob), NDArray[Any])
assert_type(np.array(blob, dtype=np.float64), NDArray[np.float64])
assert_type(blob.cpu.__array__(), NDArray[Any])
assert_type(blob.__dlpack_device__(), tuple[int, int])

assert_type(blob.to_torch(), torch.Tensor)
assert_type(from_dlpack(blob), torch.Tensor)
assert_type(Blob.from_dlpack(torch.ones(3)), Blob)
assert_type(blob + torch.ones(3), Blob)

assert_type(blob.device.torch, torch.device)
assert_type(Device(torch.ones(3).device), Device)
assert_type(parameters_to_blobs(torch.nn.Linear(2, 2), "simulated"), dict[str, Blob])
assert_type(BlobLoader([torch.ones(3)], "simulated").device, Device)
