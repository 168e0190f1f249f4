"""The types of Caffe's first two layer formats, by the names that they have now."""

from __future__ import annotations

from typing import Final

__all__ = ["V0_LAYER_TYPES", "V1_LAYER_TYPES", "V1_TYPE_NUMBERS"]

V1_LAYER_TYPES: Final = {
    0: "",
    1: "Accuracy",
    2: "BNLL",
    3: "Concat",
    4: "Convolution",
    5: "Data",
    6: "Dropout",
    7: "EuclideanLoss",
    8: "Flatten",
    9: "HDF5Data",
    10: "HDF5Output",
    11: "Im2col",
    12: "ImageData",
    13: "InfogainLoss",
    14: "InnerProduct",
    15: "LRN",
    16: "MultinomialLogisticLoss",
    17: "Pooling",
    18: "ReLU",
    19: "Sigmoid",
    20: "Softmax",
    21: "SoftmaxWithLoss",
    22: "Split",
    23: "TanH",
    24: "WindowData",
    25: "Eltwise",
    26: "Power",
    27: "SigmoidCrossEntropyLoss",
    28: "HingeLoss",
    29: "MemoryData",
    30: "ArgMax",
    31: "Threshold",
    32: "DummyData",
    33: "Slice",
    34: "MVN",
    35: "AbsVal",
    36: "Silence",
    37: "ContrastiveLoss",
    38: "Exp",
    39: "Deconvolution",
}

V1_TYPE_NUMBERS: Final = {name: number for number, name in V1_LAYER_TYPES.items()}

V0_LAYER_TYPES: Final = {
    "accuracy": "Accuracy",
    "bnll": "BNLL",
    "concat": "Concat",
    "conv": "Convolution",
    "data": "Data",
    "dropout": "Dropout",
    "euclidean_loss": "EuclideanLoss",
    "flatten": "Flatten",
    "hdf5_data": "HDF5Data",
    "hdf5_output": "HDF5Output",
    "im2col": "Im2col",
    "images": "ImageData",
    "infogain_loss": "InfogainLoss",
    "innerproduct": "InnerProduct",
    "lrn": "LRN",
    "multinomial_logistic_loss": "MultinomialLogisticLoss",
    "pool": "Pooling",
    "relu": "ReLU",
    "sigmoid": "Sigmoid",
    "softmax": "Softmax",
    "softmax_loss": "SoftmaxWithLoss",
    "split": "Split",
    "tanh": "TanH",
    "window_data": "WindowData",
}
