"""Recognising formats by the first bytes of a file."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from syncblob.caffe.files.other_formats import file_signature


def _saved(save, *arguments, **arrays):
    file = io.BytesIO()
    save(file, *arguments, **arrays)
    return file.getvalue()


def _archive(*members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for member in members:
            archive.writestr(member, b"")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "signature"),
    [
        (_saved(np.save, np.ones(3)), "npy"),
        (_saved(np.savez, a=np.ones(3)), "npz"),
        (_archive("archive/data.pkl"), "torch"),
        (_archive("readme.txt", "a.npy"), "zip"),
        (_archive(), "zip"),
        (b"\x89HDF\r\n\x1a\n" + bytes(8), "hdf5"),
        (b"\x02\x00\x00\x00\x00\x00\x00\x00{}", "safetensors"),
        (b"\x00\x00\x00\x00\x01\x00\x00\x00{}", ""),
        (b"\x1f\x8b\x08", "gzip"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git-lfs"),
        (b"\x0a\x03net", ""),
        (b"", ""),
    ],
)
def test_signatures(content, signature):
    assert file_signature(content[:512]) == signature


def test_a_file_of_torch(tmp_path):
    torch = pytest.importorskip("torch")
    for new in (False, True):
        torch.save({"a": torch.ones(1)}, tmp_path / "x.pt", _use_new_zipfile_serialization=new)
        assert file_signature((tmp_path / "x.pt").read_bytes()[:512]) == "torch"
