"""Small arrays for the tables, the same in every run."""

from __future__ import annotations

import numpy as np

_random = np.random.default_rng(2025)


def _chosen(share: float, *shape: int) -> np.ndarray:
    """Draw a mask in which about the given share of the elements is true."""
    return _random.uniform(size=shape) < share


# Samples in rows, and their targets.
SAMPLES = _random.normal(size=(24, 4)) + np.asarray([0.0, 1.0, -2.0, 3.0])
OTHER_SAMPLES = _random.normal(size=(10, 4))
POSITIVE = _random.uniform(0.1, 5.0, size=(24, 4))
TARGET = SAMPLES @ np.asarray([1.0, -2.0, 0.5, 3.0]) + _random.normal(scale=0.1, size=24)
PREDICTED = TARGET + _random.normal(scale=0.2, size=24)
CLASSES = np.asarray([0, 1, 2] * 8)
PREDICTED_CLASSES = np.where(_chosen(0.25, 24), (CLASSES + 1) % 3, CLASSES)
BINARY = np.asarray([0, 1] * 12)
PREDICTED_BINARY = np.where(_chosen(0.25, 24), 1 - BINARY, BINARY)
SCORES = np.clip(0.6 * BINARY + _random.uniform(0.0, 0.4, size=24), 0.0, 1.0)
# SAMPLES, shifted by class.
CLUSTERED = SAMPLES + 4.0 * CLASSES[:, None]

SIGNAL = np.sin(np.linspace(0.0, 20.0, 64)) + 0.1 * _random.normal(size=64)
IMAGE = _random.uniform(size=(8, 9))
MASK = _chosen(0.6, 8, 9)
VECTOR = np.linspace(0.05, 0.95, 9)
TIMES = np.cumsum(_random.uniform(0.2, 1.0, size=9))
MATRIX = _random.normal(size=(4, 4)) + 4.0 * np.eye(4)
SYMMETRIC = MATRIX @ MATRIX.T
WITH_NANS = np.where(_chosen(0.2, 6, 5), np.nan, _random.normal(size=(6, 5)))
CUBE = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
INTEGERS = np.asarray([3, 1, 2, 3, 0, 1, 7, 3])
ROTATIONS = _random.normal(size=(5, 4))
