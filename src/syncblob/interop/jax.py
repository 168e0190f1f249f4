"""JAX: importing this module makes the functions of ``jax`` and ``jax.numpy`` accept Blobs."""

from __future__ import annotations

import syncblob.integrations.jax  # noqa: F401  # registers the class

__all__: list[str] = []
