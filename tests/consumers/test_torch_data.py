"""Batches of Blobs made by ``torch.utils.data``."""

import os
import subprocess
import sys
from collections import UserDict
from typing import NamedTuple

import numpy as np
import pytest
from made_blobs import blob_in, values

import syncblob
from syncblob import Blob, Head

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, default_collate  # noqa: E402  # it needs torch

from syncblob.integrations import torch_data  # noqa: E402  # it needs torch


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


def test_syncblob_registers_with_a_torch_that_is_loaded_and_aliases_may_end_with_the_interpreter():
    code = """
import numpy, torch, syncblob
from torch.utils.data import DataLoader
(batch,) = DataLoader([syncblob.ones(3), syncblob.ones(3)], batch_size=2)
assert batch.tolist() == [[1, 1, 1]] * 2
blob = syncblob.Blob(3, device="simulated")
kept = [torch.from_dlpack(blob), numpy.asarray(blob.gpu)]
loop = [kept]; loop.append(loop)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_library_that_imports_syncblob_while_it_is_imported_is_left_alone(tmp_path):
    for library in ("einops", "torch/utils/data", "dask/array"):
        package = tmp_path / library
        package.mkdir(parents=True)
        for folder in (package, *package.parents):
            if folder == tmp_path:
                break
            (folder / "__init__.py").write_text("import syncblob")
        name = library.replace("/", ".")
        code = f"import {name}, syncblob; assert float(syncblob.ones(()).item()) == 1"
        subprocess.run([sys.executable, "-c", code], check=True, env=environment(tmp_path))


def environment(folder):
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}


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


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("start", [None, "fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_a_loader_gives_batches_on_the_device(start):
    if start == "fork" and not hasattr(os, "fork"):
        pytest.skip("this system does not fork")
    dataset = [(syncblob.asarray(np.full(3, index, np.float32)), index) for index in range(6)]
    loader = DataLoader(
        dataset,
        batch_size=2,
        num_workers=0 if start is None else 1,
        collate_fn=torch_data.collate,
        multiprocessing_context=start,
    )
    on_device = torch_data.BlobLoader(loader, "simulated")
    assert len(on_device) == 3
    for _ in range(1 if start else 2):
        batches = list(on_device)
        assert {str(blob.device) for batch in batches for blob in batch} == {"simulated:0"}
        assert [labels.tolist() for _, labels in batches] == [[0, 1], [2, 3], [4, 5]]
        assert [images[:, 0].tolist() for images, _ in batches] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_the_next_batches_are_on_their_way_when_one_is_handed_out(ahead):
    taken = []

    def loader():
        for number in range(4):
            taken.append(number)
            yield torch.full((2,), number)

    with syncblob.record_transfers() as log:
        for number, batch in enumerate(torch_data.BlobLoader(loader(), "simulated", ahead=ahead)):
            assert taken == [*range(min(number + ahead, 3) + 1)]
            assert len(log) == len(taken)
            assert batch.head is Head.SYNCED
            with syncblob.no_transfers(), syncblob.compute_only_on("simulated"):
                assert (batch + 0).device == "simulated:0"
    assert all(transfer.asynchronous and transfer.direction == "upload" for transfer in log)


class Encoding(UserDict):
    """A mapping like those of tokenizers."""


class Sample(NamedTuple):
    image: object
    name: object


def test_a_batch_keeps_its_form_and_what_is_no_array():
    tensor = torch.ones(2, dtype=torch.bfloat16)
    batch = [Sample(tensor, ["a", "b"]), Encoding(ids=np.arange(2)), {"n": 3, "none": None}]
    found = torch_data.to_blobs(batch, "simulated")
    assert [type(x) for x in found] == [Sample, Encoding, dict]
    assert isinstance(found[0].image, Blob)
    assert (found[0].image.tolist(), found[0].name) == ([1, 1], ["a", "b"])
    assert (found[1]["ids"].tolist(), found[2]) == ([0, 1], {"n": 3, "none": None})
    assert batch[0].image is tensor
    assert isinstance(batch[1]["ids"], np.ndarray)


class Noted(Sample):
    """A named tuple with attributes."""


class Labelled(tuple):
    """A tuple whose constructor takes other arguments."""

    __slots__ = ()

    def __new__(cls, image, label):
        return super().__new__(cls, (image, label))


class Samples(list):
    """A list with attributes."""


def test_sequences_keep_their_classes_and_attributes():
    tensor = torch.arange(2.0)
    noted, samples = Noted(tensor, "a"), Samples([tensor, 3])
    noted.source, samples.source = "camera", "disk"
    batch = [noted, Labelled(tensor, 1), samples, torch.ones(2, 2).max(0)]
    (found,) = torch_data.BlobLoader([batch], "simulated")
    assert [type(x) for x in found] == [Noted, Labelled, Samples, torch.return_types.max]
    assert [x[0].tolist() for x in found] == [[0, 1], [0, 1], [0, 1], [1, 1]]
    assert (found[0].name, found[1][1], found[2][1]) == ("a", 1, 3)
    assert (found[0].source, found[2].source) == ("camera", "disk")
    assert samples[0] is tensor


def test_a_copy_is_made_only_where_the_batch_is_to_go_elsewhere():
    tensor = torch.zeros(3, requires_grad=True)
    shared, apart = (torch_data.to_blobs(tensor, device) for device in ("cpu", "simulated"))
    with torch.no_grad():
        tensor += 1
    assert (shared.tolist(), apart.tolist()) == ([1, 1, 1], [0, 0, 0])
    assert torch_data.to_blobs(apart, "simulated") is apart
    assert torch_data.to_blobs(apart, "cpu").device == "cpu"
    assert torch_data.to_blobs(torch.arange(6).reshape(2, 3).T, "simulated").tolist() == [
        [0, 3],
        [1, 4],
        [2, 5],
    ]


def test_a_loader_may_refill_one_array_where_batches_are_not_taken_ahead():
    array = np.zeros(1)

    def refilled():
        for index in range(4):
            array[0] = index
            yield array

    assert [x.item() for x in torch_data.BlobLoader(refilled(), "cpu", ahead=0)] == [0, 1, 2, 3]
    assert [x.item() for x in torch_data.BlobLoader(refilled(), "simulated")] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("tensor", "error"),
    [
        (torch.ones(2, dtype=torch.complex64).conj(), BufferError),
        (torch.eye(2).to_sparse(), BufferError),
        (torch.ones(2).to(torch.float8_e4m3fn), TypeError),
        (torch.ones(2, device="meta"), ValueError),
    ],
)
def test_tensors_without_memory_for_a_blob_are_refused(tensor, error):
    with pytest.raises(error):
        torch_data.to_blobs(tensor, "cpu")


def test_batches_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="ahead, got -1"):
        torch_data.BlobLoader([], ahead=-1)
    with pytest.raises(syncblob.NoDeviceError):
        torch_data.BlobLoader([], "cuda:77")
    with pytest.raises(TypeError, match="holds numbers"):
        torch_data.to_blobs(np.array(["a"]))
    with pytest.raises(TypeError, match="has no len"):
        len(torch_data.BlobLoader(iter([])))
