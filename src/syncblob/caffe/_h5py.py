"""Importing h5py, which is optional, with words that say how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["import_h5py"]


def import_h5py() -> ModuleType:
    """Return h5py.

    Raises
    ------
    ModuleNotFoundError
        If it is not installed.
    """
    try:
        import h5py  # an optional dependency
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "HDF5 files need h5py; pip install 'syncblob[hdf5]'", name="h5py"
        ) from error
    module: ModuleType = h5py
    return module
