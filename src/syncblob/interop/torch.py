"""PyTorch's modules with Blobs as inputs, and with parameters over Blobs. Imports torch."""

from __future__ import annotations

from syncblob.integrations.torch import (
    accept_blobs_in_modules,
    parameters_to_blobs,
    parameters_to_tensors,
)

__all__ = ["accept_blobs_in_modules", "parameters_to_blobs", "parameters_to_tensors"]
