"""Names of pycaffe and of tensors that Blobs lack: the error says what to use, and that works."""

import operator
import re

import numpy as np
import pytest

import syncblob
from syncblob import Blob, Layer, ModelFile
from syncblob.blob.missing import OF_BLOB, OF_MODULE


def model():
    layers = [
        Layer("conv1", "Convolution", ["data"], ["conv1"], [np.ones((2, 1, 3, 3)), np.ones(2)]),
        Layer("relu1", "ReLU", ["conv1"], ["conv1"]),
        Layer("conv1", "Convolution", blobs=[np.zeros(1)]),
    ]
    return ModelFile("net", layers)


OWNERS = {"module": lambda: syncblob, "model": model, "Blob": lambda: Blob(2)}

MISSING = [
    ("module", "Net", "open_model.*Running nets"),
    ("module", "no_such_name", "'$"),
    ("module", "isclose", "nor has the array API standard; numpy.isclose takes Blobs$"),
    ("module", "fabs", "numpy.fabs takes Blobs$"),
    ("module", "ndarray", "'$"),
    ("model", "forward", "Running nets"),
    ("model", "blobs", "weights.*Running nets"),
    ("model", "save", "save_model"),
    ("model", "no_such_name", "'$"),
    ("Blob", "numpy", "np.asarray"),
    ("Blob", "cuda", r"to_device\(.cuda"),
    ("Blob", "to", "astype"),
    ("Blob", "dim", r"to_torch\(.*accept_blobs_in_modules"),
    ("Blob", "clone", r"blob.copy\(\)"),
    ("module", "array", "asarray"),
    ("module", "from_numpy", "asarray"),
]


@pytest.mark.parametrize(("owner", "name", "advice"), MISSING)
def test_a_name_that_is_not_there_says_what_to_use(owner, name, advice):
    made = OWNERS[owner]()
    with pytest.raises(AttributeError, match=f"{name}.*{advice}"):
        getattr(made, name)
    assert not hasattr(made, name)


def test_all_advice_names_what_exists():
    blob = Blob(2)
    for text in (*OF_BLOB.values(), *OF_MODULE.values()):
        for owner, path in re.findall(
            r"\b(blob|syncblob|np|numpy)((?:\.(?!integrations)\w+)+)", text
        ):
            operator.attrgetter(path[1:])({"blob": blob, "syncblob": syncblob}.get(owner, np))
        for name in re.findall(r"(?<![.\w])(\w+)\(", text):
            assert hasattr(syncblob, name), text


def test_completion_offers_none_of_them():
    blob = Blob((2, 2))
    offered = dir(blob)
    assert {"shape", "gpu_data", "sum", "_base"} <= {*offered}
    # Protocols of other libraries depend on the axes, and on what is installed.
    assert all(hasattr(blob, name) for name in offered if not name.startswith("_"))


def test_params_are_the_blobs_of_the_layers_that_have_some():
    made = model()
    assert list(made.params) == ["conv1"]
    assert made.params["conv1"] is made["conv1"].blobs
    made.params["conv1"][0].data[...] = 0
    made.params["conv1"][1].data *= 3
    assert made["conv1"].blobs[0].asum_data() == 0
    assert made["conv1"].blobs[1].tolist() == [3, 3]


def test_params_cannot_be_assigned():
    made = model()
    with pytest.raises(TypeError, match="item assignment"):
        made.params["conv1"] = [np.zeros(1)]
    with pytest.raises(KeyError, match="relu1"):
        made.params["relu1"]


def test_a_side_is_not_called():
    with pytest.raises(TypeError, match="to_device"):
        Blob(2).cpu()
