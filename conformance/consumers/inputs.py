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
BINARY = np.asarray([0, 1] * 12)
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

# Of the kinds that pictures, sounds, tables and meshes have.
GRAY = _random.integers(0, 255, size=(16, 18), dtype=np.uint8)
RGB = _random.integers(0, 255, size=(16, 18, 3), dtype=np.uint8)
FLOATS = _random.uniform(size=(16, 18)).astype(np.float32)
PICTURE = _random.uniform(size=(16, 18, 3)).astype(np.float32)
BLACK = _chosen(0.5, 16, 18)
VOLUME = _random.uniform(size=(6, 7, 8)).astype(np.float32)
REGIONS = np.kron(np.arange(6).reshape(2, 3), np.ones((8, 6))).astype(np.int32)
AUDIO = (0.5 * np.sin(np.linspace(0.0, 900.0, 4096))).astype(np.float32)
POINTS = _random.uniform(size=(24, 3)).astype(np.float32)
FEATURES = SAMPLES.astype(np.float32)
FACES = np.asarray([[0, 1, 2], [1, 2, 3], [2, 3, 4]])
INDEX = np.asarray([2, 0, 1])
COUNTS = _random.integers(1, 9, size=12)
FLAGS = _chosen(0.5, 9)
WAVES = np.exp(1j * VECTOR)
ZEROS = np.zeros((8, 9))
OUT = np.zeros((16, 18), np.float32)
SCALAR = np.asarray(3.0)
NUMBER = np.asarray(2)
BYTES = np.arange(24, dtype=np.uint8)
ADJACENCY = (np.arange(16).reshape(4, 4) % 3).astype(float)
EDGES = np.asarray([[0, 1], [1, 2], [2, 3], [3, 0]])
