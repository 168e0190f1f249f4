"""Conversions to another format and back keep everything that the format can hold."""

from pathlib import Path

import numpy as np
import pytest
from comparable_models import FAITHFUL, by_name, layers_of, need_library_of

import syncblob
from syncblob.caffe.convert import convert, open_weights

_REAL_MODELS = [
    "cifar10_quick_v1.caffemodel",
    "mtcnn_det1.caffemodel",
    "mtcnn_det2.caffemodel",
    "tiny_v2.caffemodel",
    "cifar10_full.caffemodel.h5",
]


@pytest.mark.parametrize("first", FAITHFUL)
@pytest.mark.parametrize("second", FAITHFUL)
def test_a_model_comes_back_as_it_was(model, tmp_path, first, second):
    one, two, back = (
        tmp_path / name for name in (f"one.{first}", f"two.{second}", "back.caffemodel")
    )
    convert(model.path, one)
    convert(one, two)
    with open_weights(two) as found:
        assert layers_of(found) == layers_of(model)
        assert found.name == "a net"
    convert(two, back)
    with syncblob.open_model(back) as found:
        for layer, original in zip(found.layers, model.layers, strict=True):
            assert layer.proto == original.proto
    assert back.read_bytes() == Path(model.path).read_bytes()


@pytest.mark.parametrize("name", _REAL_MODELS)
@pytest.mark.parametrize("extension", [*FAITHFUL, "pt", "npz"])
def test_real_models(real_files, tmp_path, name, extension):
    need_library_of(extension)
    between, back = tmp_path / f"between.{extension}", tmp_path / "back.caffemodel"
    convert(real_files / name, between)
    convert(between, back)
    with syncblob.open_model(real_files / name) as model, syncblob.open_model(back) as found:
        squeeze = extension != "caffemodel"
        if extension not in FAITHFUL:
            assert by_name(found) == by_name(model, squeeze=squeeze)
        else:
            assert layers_of(found) == layers_of(model, squeeze=squeeze)
            assert [x.proto for x in found.layers] == [x.proto for x in model.layers]


@pytest.mark.parametrize("extension", [*FAITHFUL, "pt"])
def test_the_same_input_gives_the_same_bytes(model, tmp_path, extension):
    need_library_of(extension)
    paths = [tmp_path / f"{name}.{extension}" for name in ("one", "two")]
    for path in paths:
        convert(model.path, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_file_can_be_converted_in_place(model, tmp_path):
    path = tmp_path / "x.safetensors"
    convert(model.path, path)
    convert(path, path, dtype="float16")
    with open_weights(path) as found:
        assert {blob.dtype for blob in found.tensors.values()} == {np.dtype(np.float16)}
