"""Conversion of weights between Caffe's files, safetensors, ``.npz``, HDF5 and PyTorch's ``.pt``.

HDF5 and ``.pt`` need h5py and PyTorch, which are imported when needed. Tensors have names, such as
``conv1.weight``; layers have types and settings, as in Caffe. Most other formats have tensors
alone, and layers are inferred from the names of these (see `weights`).
"""

from syncblob.caffe.convert.caffe_files import from_tensors, to_tensors
from syncblob.caffe.convert.conversion import (
    DTYPES,
    Conversion,
    ConversionError,
    convert,
    format_of,
    open_weights,
    plan_conversion,
    save_weights,
    writable_extensions,
)
from syncblob.caffe.convert.weights import LayerWeights, Weights

__all__ = [
    "DTYPES",
    "Conversion",
    "ConversionError",
    "LayerWeights",
    "Weights",
    "convert",
    "format_of",
    "from_tensors",
    "open_weights",
    "plan_conversion",
    "save_weights",
    "to_tensors",
    "writable_extensions",
]
