"""``syncblob inspect --json``, compared with the Blobs of the file."""

import math
import re

import numpy as np
import pytest

import syncblob

_REAL_FILES = [
    "cifar10_quick_v1.caffemodel",
    "mtcnn_det1.caffemodel",
    "mtcnn_det2.caffemodel",
    "tiny_v2.caffemodel",
    "mean_7x7.binaryproto",
    "mean_w32.binaryproto",
]


def test_json_has_what_the_help_documents(inspect_json, small_model, run):
    found = inspect_json(small_model, "--stats")
    documented = run("inspect", "--help").out.partition("--json prints one object:")[2]
    blob = found["layers"][1]["blobs"][0]
    for key in [*found, *found["layers"][0], *found["totals"], *blob, *blob["stats"]]:
        assert re.search(rf"\b{key}\b", documented), key


def described(shape, dtype, nbytes, *stats):
    names = ("min", "mean", "max", "std", "non_finite")
    blob = {"shape": shape, "dtype": dtype, "parameters": math.prod(shape), "bytes": nbytes}
    return blob | {"stats": dict(zip(names, stats, strict=True))}


def test_json_exactly(inspect_json, small_model):
    blobs = {
        ("data", "Input"): [],
        ("conv1", "Convolution"): [
            described([2, 1, 3, 3], "float32", 72, 0.5, 0.5, 0.5, 0, 0),
            described([2], "float32", 8, 1, 2, 3, 1, 0),
        ],
        ("bn", "BatchNorm"): [
            described([3], "float64", 24, 1, 1, 1, 0, 2),
            described([0, 4], "float32", 0, None, None, None, None, 0),
        ],
    }
    expected = {
        "file": str(small_model),
        "format": "caffemodel",
        "file_bytes": small_model.stat().st_size,
        "version": 2,
        "net": "small",
        "layers": [
            {"name": name, "type": kind, "bottoms": ["in"], "tops": [name], "blobs": of_layer}
            for (name, kind), of_layer in blobs.items()
        ],
        "blob": None,
        "solver": None,
        "shapes": None,
        "totals": {"layers": 3, "blobs": 4, "parameters": 23, "bytes": 104},
        "unreadable": {},
        "refused": "",
        "missing": {},
        "ignored": [],
        "others": [],
    }
    assert inspect_json(small_model, "--stats") == expected
    for of_layer in blobs.values():
        for blob in of_layer:
            del blob["stats"]
    assert inspect_json(small_model) == expected


def test_json_keeps_a_name_that_is_not_utf_8(inspect_json, run, write_model):
    path = write_model(("caf\N{LATIN SMALL LETTER E WITH ACUTE}", "Input", []))
    path.write_bytes(path.read_bytes().replace(b"\xc3\xa9", b"\xe9\xe8"))
    (layer,) = inspect_json(path)["layers"]
    assert layer["name"].encode(errors="surrogateescape") == b"caf\xe9\xe8"
    assert "caf" + 2 * "\N{REPLACEMENT CHARACTER}" in run("inspect", path).out


@pytest.mark.parametrize("name", _REAL_FILES)
def test_a_real_file_against_its_blobs(inspect_json, name, real_files):
    path = real_files / name
    found = inspect_json(path, "--stats")
    assert found["file_bytes"] == path.stat().st_size
    if name.endswith(".binaryproto"):
        assert (found["version"], found["net"], found["layers"]) == (None, None, [])
        described, blobs = [found["blob"]], [syncblob.read_blob(path)]
    else:
        model = syncblob.open_model(path)
        assert (found["version"], found["net"]) == (model.version, model.name)
        assert [(each["name"], each["type"]) for each in found["layers"]] == [
            (layer.name, layer.type) for layer in model.layers
        ]
        described = [blob for layer in found["layers"] for blob in layer["blobs"]]
        blobs = [blob for layer in model.layers for blob in layer.blobs]
    for one, blob in zip(described, blobs, strict=True):
        compare(one, blob)
    assert found["totals"] == {
        "layers": len(found["layers"]),
        "blobs": len(blobs),
        "parameters": sum(math.prod(blob.shape) for blob in blobs),
        "bytes": sum(len(blob.tobytes()) for blob in blobs),
    }


def compare(described, blob):
    values = np.asarray(blob).astype(np.float64)
    assert described["shape"] == list(blob.shape)
    assert described["dtype"] == blob.dtype.name
    assert described["parameters"] == values.size
    assert described["bytes"] == blob.nbytes
    stats = described["stats"]
    assert stats["min"] == values.min()
    assert stats["max"] == values.max()
    assert stats["non_finite"] == 0
    tolerance = 1e-12 * np.abs(values).max()
    assert stats["mean"] == pytest.approx(values.mean(), abs=tolerance)
    assert stats["std"] == pytest.approx(values.std(), abs=tolerance)
