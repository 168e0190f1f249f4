"""Blobs passed to other libraries: the calls of the table in docs/consumers.md, in order."""

import importlib
import pickle

import numpy as np
import other_processes
from consumer_call import CALLS, Taken, taking
from made_blobs import address

from syncblob import Blob

__all__ = ["CALLS"]

IMAGE = (8, 8)


# What the texts of calls need, if it is more than the module.
IMPORTS = {
    "xarray": "import xarray as xr",
    "PIL": "import PIL.Image",
    "skimage": "import skimage.filters, skimage.transform",
    "matplotlib": "from matplotlib.figure import Figure; axes = Figure().subplots()",
    "joblib": "import joblib; calls = [joblib.delayed(other_processes.total)(blob)] * 2",
}


def _array(array):
    return Taken(array, array, address(array))


def _tensor(tensor):
    return Taken(tensor, tensor, tensor.data_ptr())


def _over(held, array):
    return Taken(held, array, address(array))


def plainly(module, taken, *texts, **others):
    """Add calls whose text is what runs, and a function that finds the address of their results."""
    for text in texts:

        def function(blob, _folder, text=text):
            names = {"np": np, "pickle": pickle, "other_processes": other_processes, "blob": blob}
            exec(IMPORTS.get(module, f"import {module}"), names)  # noqa: S102  # ours
            return taken(eval(text, names))  # noqa: S307  # as above

        taking(module, text, **others)(function)


# --- arrays --------------------------------------------------------------------------------------


@taking("torch", "default_collate([blob, blob])", expected=lambda x: [x, x])
def _(blob, _folder):
    from torch.utils.data import default_collate

    importlib.import_module("syncblob.integrations.torch_data")
    return _tensor(default_collate([blob, blob]))


@taking("torch", "DataLoader([blob], num_workers=1)", expected=lambda x: [x])
def _(blob, _folder):
    from torch.utils.data import DataLoader

    from syncblob.integrations.torch_data import collate

    loader = DataLoader([blob], num_workers=1, collate_fn=collate, multiprocessing_context="spawn")
    (batch,) = loader
    return _tensor(batch)


@taking("xarray", 'xr.DataArray(blob).mean("dim_0")', expected=lambda x: x.mean(0))
def _(blob, _folder):
    import xarray as xr

    array = xr.DataArray(blob).mean("dim_0")
    assert isinstance(array.data, Blob)
    return Taken(array, lambda: array)


# --- pictures ------------------------------------------------------------------------------------


plainly(
    "PIL",
    lambda image: Taken(image, np.asarray(image), again=lambda: np.asarray(image)),
    "PIL.Image.fromarray(np.asarray(blob))",
    shape=IMAGE,
    dtype="uint8",
)
plainly("matplotlib", lambda image: _array(image.get_array()), "axes.imshow(blob)")
plainly(
    "matplotlib",
    lambda lines: _over(lines[0], lines[0].get_ydata(orig=False)),
    "axes.plot(blob)",
    shape=(6,),
)
plainly(
    "matplotlib",
    lambda drawn: Taken(None, drawn[0]),
    "axes.hist(blob)",
    shape=(6,),
    expected=lambda x: np.histogram(x)[0],
)


def _filtered(image):
    from skimage.filters import gaussian

    return gaussian(image)


def _resized(image):
    from skimage.transform import resize

    return resize(image, (4, 4))


for _text, _expected in (
    ("filters.gaussian(blob)", _filtered),
    ("transform.resize(blob, (4, 4))", _resized),
):
    plainly(
        "skimage", lambda x: Taken(None, x), f"skimage.{_text}", shape=IMAGE, expected=_expected
    )


# --- files ---------------------------------------------------------------------------------------


@taking("h5py", "dataset.read_direct(np.asarray(blob.cpu))", expected=lambda x: x + 100)
def _(blob, folder):
    import h5py

    with h5py.File(folder / "file.h5", "w") as file:
        numbers = np.arange(100, 100 + blob.size, dtype=blob.dtype).reshape(blob.shape)
        dataset = file.create_dataset("x", data=numbers)
        array = np.asarray(blob.cpu)
        dataset.read_direct(array)
        return Taken(array, lambda: blob, address(array))


@taking("safetensors", 'safetensors.torch.save({"x": torch.from_dlpack(blob.const)})')
def _(blob, _folder):
    import torch
    from safetensors.torch import load, save

    return Taken(None, load(save({"x": torch.from_dlpack(blob.const)}))["x"])


# --- processes -----------------------------------------------------------------------------------


@taking("joblib", 'joblib.dump(blob, "file")')
def _(blob, folder):
    import joblib

    joblib.dump(blob, folder / "file")
    return Taken(None, joblib.load(folder / "file"))


plainly(
    "joblib",
    lambda sums: Taken(None, sums),
    'joblib.Parallel(2, "threading")(calls)',
    'joblib.Parallel(2, "loky")(calls)',
    expected=lambda x: [x.sum()] * 2,
)
plainly("pickle", lambda text: Taken(text, lambda: pickle.loads(text)), "pickle.dumps(blob)")


@taking("pickle", "pickle.dumps(blob, 5, buffer_callback=…)")
def _(blob, _folder):
    buffers = []
    pickled = pickle.dumps(blob, 5, buffer_callback=buffers.append)
    (raw,) = (buffer.raw() for buffer in buffers)
    return Taken(raw, lambda: pickle.loads(pickled, buffers=buffers), address(np.asarray(raw)))


@taking("pickle", "pickle.dumps(Blob.in_shared_memory(…))", made=Blob.in_shared_memory)
def _(blob, _folder):
    other = pickle.loads(pickle.dumps(blob))
    return Taken(other, lambda: other, again=other.tolist)
