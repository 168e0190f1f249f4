"""torch.utils.data: batches of samples that are Blobs, and batches as Blobs on a device.

Importing this module lets ``default_collate`` make batches of Blobs. Such a batch is a tensor, as
it is of ndarrays and tensors; it is built on the Blobs' device, and the Blobs are only read.
Workers that are spawned have to import this module too, and do so where the loader is given
`collate`.
"""

from __future__ import annotations

from syncblob.integrations.torch_data import BlobLoader, collate, to_blobs

__all__ = ["BlobLoader", "collate", "to_blobs"]
