"""What became of layers whose weights were to be copied."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CopyReport"]


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What `ModelFile.copy_trained_layers_from` did.

    Parameters
    ----------
    copied
        Names of the layers whose blobs were taken over.
    missing
        Names of the layers that have blobs, or should have, and are not in the source. Caffe
        leaves them as their fillers made them.
    ignored
        Names of the layers of the source that are not in the model, with blobs or without.
    """

    copied: tuple[str, ...]
    missing: tuple[str, ...]
    ignored: tuple[str, ...]
