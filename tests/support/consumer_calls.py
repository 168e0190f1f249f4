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
    "jax": "import jax, jax.numpy as jnp",
    "pandas": "import pandas as pd",
    "tensorflow": "import tensorflow as tf",
    "xarray": "import xarray as xr",
    "pyarrow": "import pyarrow as pa",
    "PIL": "import PIL.Image",
    "skimage": "import skimage.filters, skimage.transform",
    "matplotlib": "from matplotlib.figure import Figure; axes = Figure().subplots()",
    "joblib": "import joblib; calls = [joblib.delayed(other_processes.total)(blob)] * 2",
}


def _array(array):
    return Taken(array, array, address(array))


def _tensor(tensor):
    return Taken(tensor, tensor, tensor.data_ptr())


def _of_jax(array):
    return Taken(array, array, array.unsafe_buffer_pointer())


def _of_pandas(table):
    return Taken(table, table, address(table.to_numpy()))


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


def _at_16_bytes(shape, dtype, **others):
    """Make a Blob whose host memory is aligned as little as NumPy's arrays are."""
    blob = Blob(shape, dtype, **others)
    memory = np.zeros(blob.nbytes + 64, np.uint8)
    start = (16 - address(memory)) % 64
    blob.set_cpu_data(memory[start : start + blob.nbytes].view(dtype).reshape(shape))
    return blob


# --- NumPy and PyTorch ---------------------------------------------------------------------------


plainly(
    "numpy",
    _array,
    *("np.asarray(blob)", "np.array(blob)", "np.from_dlpack(blob)", "np.from_dlpack(blob.const)"),
)


plainly(
    "torch",
    _tensor,
    *("torch.from_dlpack(blob)", "torch.from_dlpack(blob.const)", "torch.as_tensor(blob)"),
)


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


# --- other array libraries -----------------------------------------------------------------------


plainly(
    "jax",
    _of_jax,
    *("jax.dlpack.from_dlpack(blob.cpu)", "jax.device_put(np.asarray(blob))", "jnp.asarray(blob)"),
)
plainly(
    "jax",
    _of_jax,
    "jax.dlpack.from_dlpack(blob.cpu)  # at 16 bytes",
    "jax.device_put(np.asarray(blob))  # at 16 bytes",
    made=_at_16_bytes,
)


plainly(
    "tensorflow",
    lambda tensor: _over(tensor, np.asarray(memoryview(tensor))),
    "tf.experimental.dlpack.from_dlpack(blob.__dlpack__())",
    "tf.convert_to_tensor(blob)",
)
plainly(
    "tensorflow",
    lambda tensor: _over(tensor, np.asarray(memoryview(tensor))),
    "tf.convert_to_tensor(blob)  # at 16 bytes",
    made=_at_16_bytes,
)
plainly(
    "xarray",
    lambda array: Taken(array, lambda: array, address(array.data.gpu_data())),
    "xr.DataArray(blob)",
)


@taking("xarray", 'xr.DataArray(blob).mean("dim_0")', expected=lambda x: x.mean(0))
def _(blob, _folder):
    import xarray as xr

    array = xr.DataArray(blob).mean("dim_0")
    assert isinstance(array.data, Blob)
    return Taken(array, lambda: array)


# --- tables --------------------------------------------------------------------------------------


plainly("pandas", _of_pandas, "pd.DataFrame(np.asarray(blob), copy=False)", "pd.DataFrame(blob)")
plainly("pandas", _of_pandas, "pd.Series(blob)", shape=(6,))


plainly(
    "pyarrow",
    lambda array: Taken(array, array, array.buffers()[1].address),
    "pa.array(blob)",
    shape=(6,),
)
plainly(
    "pyarrow",
    lambda tensor: _over(tensor, tensor.to_numpy()),
    "pa.Tensor.from_numpy(np.asarray(blob))",
)


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


@taking("h5py", 'file.create_dataset("x", data=blob)')
def _(blob, folder):
    import h5py

    with h5py.File(folder / "file.h5", "w") as file:
        return Taken(None, file.create_dataset("x", data=blob)[()])


@taking("h5py", "dataset[...] = blob")
def _(blob, folder):
    import h5py

    with h5py.File(folder / "file.h5", "w") as file:
        dataset = file.create_dataset("x", blob.shape, blob.dtype)
        dataset[...] = blob
        return Taken(None, dataset[()])


@taking("h5py", "dataset.read_direct(np.asarray(blob.cpu))", expected=lambda x: x + 100)
def _(blob, folder):
    import h5py

    with h5py.File(folder / "file.h5", "w") as file:
        numbers = np.arange(100, 100 + blob.size, dtype=blob.dtype).reshape(blob.shape)
        dataset = file.create_dataset("x", data=numbers)
        array = np.asarray(blob.cpu)
        dataset.read_direct(array)
        return Taken(array, lambda: blob, address(array))


@taking("zarr", "array[...] = np.asarray(blob)")
def _(blob, _folder):
    import zarr

    array = zarr.create_array(store={}, shape=blob.shape, dtype=blob.dtype)
    array[...] = np.asarray(blob)
    return Taken(None, array[...])


@taking("safetensors", 'safetensors.numpy.save({"x": np.asarray(blob)})')
def _(blob, _folder):
    from safetensors.numpy import load, save

    return Taken(None, load(save({"x": np.asarray(blob)}))["x"])


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
