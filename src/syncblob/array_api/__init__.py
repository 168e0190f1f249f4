"""The Python array API standard's functions, one file a chapter of the standard."""

from __future__ import annotations

from syncblob.array_api.creation_functions import asarray, from_dlpack

__all__ = ["asarray", "from_dlpack"]
