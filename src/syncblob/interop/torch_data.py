"""torch.utils.data: importing this module lets ``default_collate`` make batches of Blobs.

A batch is a tensor, as it is of ndarrays and tensors; it is built on the Blobs' device, and the
Blobs are only read. Workers that are spawned have to import this module too, and do so where the
loader is given `collate`.
"""

from __future__ import annotations

from syncblob.integrations.torch_data import collate

__all__ = ["collate"]
