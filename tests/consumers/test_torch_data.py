"""Batches of Blobs by ``torch.utils.data``."""

from __future__ import annotations

import numpy as np
import pytest
from made_blobs import blob_in, values

import syncblob
from syncblob import Blob, Head

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, default_collate  # noqa: E402  # it needs torch

from syncblob.interop import torch_data  # noqa: E402  # it needs torch


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "complex64", "bfloat16"])
def test_a_batch_is_a_tensor_of_its_own(dtype):
    blobs = [blob_in(head, dtype) for head in (Head.HEAD_AT_GPU, Head.HEAD_AT_CPU, Head.SYNCED)]
    heads = [blob.head for blob in blobs]
    with syncblob.no_transfers():
        batch = default_collate(blobs)
    assert (batch.dtype, batch.shape) == (getattr(torch, dtype), (3, 2, 3))
    assert [blob.head for blob in blobs] == heads
    expected = torch.from_dlpack(syncblob.asarray(values(dtype)))
    assert all(torch.equal(sample, expected) for sample in batch)


def test_samples_may_be_tuples_and_dicts_and_views():
    blob = blob_in(Head.SYNCED)
    samples = [(blob[::-1], {"row": blob[index].const}, index) for index in range(2)]
    images, rows, numbers = default_collate(samples)
    assert images[1].tolist() == values()[::-1].tolist()
    assert rows["row"].tolist() == values().tolist()
    assert numbers.tolist() == [0, 1]


def test_shapes_that_differ_are_refused():
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([Blob(2), Blob(3)])


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_gives_batches_of_a_dataset_of_blobs(workers):
    dataset = [(syncblob.asarray(np.full(3, index, np.float32)), index) for index in range(4)]
    loader = DataLoader(
        dataset,
        batch_size=2,
        num_workers=workers,
        collate_fn=torch_data.collate,
        multiprocessing_context="spawn" if workers else None,
    )
    batches = list(loader)
    assert [labels.tolist() for _, labels in batches] == [[0, 1], [2, 3]]
    assert [images[:, 0].tolist() for images, _ in batches] == [[0, 1], [2, 3]]
