"""einops: importing this module makes ``einops.rearrange`` and its other functions accept Blobs.

`syncblob` does it too, if einops was imported first.
"""

from __future__ import annotations

from syncblob.integrations.einops import BlobBackend

__all__ = ["BlobBackend"]
