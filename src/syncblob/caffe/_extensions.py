"""Refusing to write one format under the extension of another, which later readers go by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

__all__ = ["HDF5_EXTENSIONS", "require_blob_path", "require_model_path"]

HDF5_EXTENSIONS = (".h5", ".hdf5")

_STATE = ".solverstate"
_CONVERT = (
    "save_model writes .caffemodel and .caffemodel.h5; save one of these, and convert it by "
    "syncblob.convert.convert or the command 'syncblob convert'"
)
_MODEL = "save_model writes a model"
# What else there is, with what writes it.
_OTHERS = {
    **dict.fromkeys((".npz", ".pt", ".pth", ".safetensors"), _CONVERT),
    _STATE: "syncblob reads the state of a solver and does not write it",
    **dict.fromkeys(
        (
            *(".csv", ".gz", ".json", ".keras", ".mat", ".npy", ".onnx", ".pbtxt"),
            *(".pickle", ".pkl", ".py", ".tar", ".tflite", ".txt", ".xml", ".yaml", ".yml", ".zip"),
        ),
        "syncblob does not write this format",
    ),
}
_NOT_FOR_MODELS = {
    **_OTHERS,
    ".binaryproto": "write_blob writes one blob",
    ".prototxt": "write_prototxt(model.to_net(), path) writes the definition",
}
_NOT_FOR_BLOBS = {
    **_OTHERS,
    **dict.fromkeys((".caffemodel", *HDF5_EXTENSIONS), _MODEL),
    **dict.fromkeys(
        (".npy", ".npz"), "numpy.save and numpy.savez write Blobs as they write arrays"
    ),
    **dict.fromkeys((".pt", ".pth", ".safetensors"), "make a tensor of it first: blob.to_torch()"),
    ".prototxt": "write_prototxt writes the definition of a net",
}


def require_model_path(path: str | os.PathLike[str]) -> None:
    """Raise ValueError if the extension is that of something else than a model."""
    _require(path, _NOT_FOR_MODELS, ".caffemodel or .h5")


def require_blob_path(path: str | os.PathLike[str]) -> None:
    """Raise ValueError if the extension is that of something else than a ``.binaryproto``."""
    _require(path, _NOT_FOR_BLOBS, ".binaryproto")


def _require(path: str | os.PathLike[str], others: dict[str, str], expected: str) -> None:
    name = Path(path).name.lower()
    extension = Path(name).suffix
    if extension in HDF5_EXTENSIONS and Path(name).stem.endswith(_STATE):
        extension = _STATE + extension
        advice = others[_STATE]
    elif extension in others:
        advice = others[extension]
    else:
        return
    raise ValueError(f"expected the extension {expected}, got {extension}; {advice}")
