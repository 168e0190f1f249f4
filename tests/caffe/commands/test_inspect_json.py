"""``syncblob inspect --json``, compared with the Blobs of the file."""

import math
import re


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
        "ignored": "",
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
