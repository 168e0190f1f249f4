"""einops: importing this module makes ``einops.rearrange`` and its other functions accept Blobs."""

from __future__ import annotations

from syncblob.integrations.einops import BlobBackend

__all__ = ["BlobBackend"]
