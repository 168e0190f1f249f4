"""einops: importing this module lets ``einops.rearrange`` and its other functions take Blobs."""

from __future__ import annotations

from syncblob.integrations.einops import BlobBackend

__all__ = ["BlobBackend"]
