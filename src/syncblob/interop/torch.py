"""PyTorch's modules, which take Blobs after `accept_blobs_in_modules`."""

from __future__ import annotations

from syncblob.integrations.torch import accept_blobs_in_modules

__all__ = ["accept_blobs_in_modules"]
