"""torch.utils.data: batches made from Blobs, and batches as Blobs on a device.

Importing this module makes ``default_collate`` accept Blobs. It collates them into a tensor, as it
does ndarrays and tensors, on the Blobs' device; the Blobs are only read. `syncblob` does it too, if
torch was imported first, as in the workers of a loader.
"""

from __future__ import annotations

from syncblob.integrations.torch_data import BlobLoader, collate, to_blobs

__all__ = ["BlobLoader", "collate", "to_blobs"]
