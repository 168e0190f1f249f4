"""einops' functions with Blobs.

einops looks for a backend among the subclasses of its AbstractBackend, so this class must exist
before the first call with a Blob. The functions of ``einops.array_api`` need no backend.

The backend calls NumPy's functions, which compute on the device of the Blob. Rearrangements that
need only reshapes and transpositions without a copy return views.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from einops._backends import NumpyBackend

from syncblob._blob import Blob


class BlobBackend(NumpyBackend):
    """The backend of einops for Blobs. einops makes its only instance."""

    framework_name = "syncblob"

    def is_appropriate_type(self, tensor: object) -> bool:
        """Return whether an object is a Blob."""
        return isinstance(tensor, Blob)

    def to_numpy(self, x: Any) -> np.ndarray[Any, Any]:
        """Return a read-only ndarray over a Blob's data; downloads if the device is newer."""
        return np.asarray(x)
