"""What to pass to which consumer: the calls of the second table in docs/consumers.md, in order.

Each takes one Blob. All other arguments are ndarrays.
"""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = []

WAYS = {
    "b": lambda b: b,
    "np.asarray(b)": np.asarray,
    "np.array(b)": np.array,
    "b.cpu": lambda b: b.cpu,
    "np.asarray(b.cpu)": lambda b: np.asarray(b.cpu),
    "b.to_torch()": lambda b: b.to_torch(),
}

_rng = np.random.default_rng(seed=0)
GRAY = _rng.random((16, 16), "f4")
IMAGE = _rng.integers(0, 255, (16, 16, 3), "u1")
MASK = GRAY > 0.5
TABLE = _rng.random((40, 3), "f4")
LABELS = TABLE.sum(1)
AUDIO = _rng.random(4096, "f4")
NUMBERS = np.arange(8, dtype="f4")


class Giving(NamedTuple):
    """A call that passes a Blob to a consumer.

    Attributes
    ----------
    module
        The required package.
    text
        The call, as the table shows it.
    function
        Makes the call with an array, or with an object in place of one, and returns the result.
    array
        The contents of the Blob.
    give
        What to pass for a Blob, one of `WAYS`.
    """

    module: str
    text: str
    function: Callable[[Any], Any]
    array: np.ndarray
    give: str


def giving(module, text, array, give="np.asarray(b)"):
    """Add a function to the table."""

    def register(function):
        CALLS.append(Giving(module, text, function, array, give))
        return function

    return register


# --- Python and NumPy ----------------------------------------------------------------------------


@giving("random", "random.shuffle(b)", NUMBERS, "np.asarray(b.cpu)")
def _(x):
    random.seed(1)
    random.shuffle(x)


@giving("numpy", "rng.shuffle(b), of rows", GRAY, "np.asarray(b.cpu)")
def _(x):
    np.random.default_rng(1).shuffle(x)


@giving("numpy", "rng.random(out=b)", NUMBERS, "np.asarray(b.cpu)")
def _(x):
    np.random.default_rng(1).random(out=x, dtype="f4")


@giving("torch", "torch.from_numpy(b)", GRAY, "np.asarray(b.cpu)")
def _(x):
    import torch

    return torch.from_numpy(x).mul_(2).tolist()


@giving("torch", "torch.tensor([b, b])", GRAY, "b")
def _(x):
    import torch

    return torch.tensor([x, x]).tolist()


@giving("torch", "tensor[b]", np.array([0, 1]), "b")
def _(x):
    import torch

    return torch.tensor(GRAY)[x].tolist()


@giving("torch", "tensor[b] = value", np.array([0, 1]), "b")
def _(x):
    import torch

    written = torch.zeros(4, 4)
    written[x] = 1
    return written.tolist()


# --- science -------------------------------------------------------------------------------------


@giving("scipy", "csr_array + b", GRAY, "b")
def _(x):
    from scipy.sparse import csr_array

    return csr_array(MASK) + x


def _tridiagonal(kind):
    from scipy import sparse

    ones = np.ones(8)
    matrix = sparse.diags_array([-ones[1:], 3 * ones, -ones[1:]], offsets=[-1, 0, 1])
    return matrix.asformat(kind)


@giving("scipy", "csr_array @ b", NUMBERS, "b")
def _(x):
    return _tridiagonal("csr") @ x


@giving("scipy", "sparse.linalg.spsolve(A, b), cg(A, b)", NUMBERS.astype("f8"), "b")
def _(x):
    from scipy.sparse import linalg

    matrix = _tridiagonal("csc")
    return [linalg.spsolve(matrix, x), linalg.cg(matrix, x, rtol=1e-10)[0]]


@giving("scipy", "sparse.linalg.splu(A).solve(b)", NUMBERS.astype("f8"))
def _(x):
    from scipy.sparse import linalg

    return linalg.splu(_tridiagonal("csc")).solve(x)


@giving("scipy", "sparse.linalg.cg(b, x)", np.eye(8) * 2, "b")
def _(x):
    from scipy.sparse import linalg

    return linalg.cg(x, NUMBERS.astype("f8"))[0]


@giving("scipy", "sparse.diags_array(b)", NUMBERS)
def _(x):
    from scipy import sparse

    return sparse.diags_array(x).toarray()


@giving("scipy", "ndimage.gaussian_filter(x, 1, output=b)", 0 * GRAY, "np.asarray(b.cpu)")
def _(x):
    from scipy import ndimage

    ndimage.gaussian_filter(GRAY, 1, output=x)


@giving("scipy", "ndimage.label(x, output=b)", 0 * GRAY, "np.asarray(b.cpu)")
def _(x):
    from scipy import ndimage

    ndimage.label(MASK, output=x)


@giving("scipy", "ndimage.distance_transform_edt(x, distances=b)", 0.0 * MASK, "np.asarray(b.cpu)")
def _(x):
    from scipy import ndimage

    ndimage.distance_transform_edt(MASK, distances=x)


@giving("scipy", "ndimage.binary_dilation(x, output=b)", ~MASK, "np.asarray(b.cpu)")
def _(x):
    from scipy import ndimage

    ndimage.binary_dilation(MASK, output=x)


@giving("scipy", "linalg.blas.daxpy(x, b)", NUMBERS.astype("f8"), "np.asarray(b.cpu)")
def _(x):
    from scipy.linalg import blas

    return blas.daxpy(np.ones(8), x)


@giving("sklearn", "LinearRegression().fit(b, y)", TABLE, "b")
def _(x):
    from sklearn.linear_model import LinearRegression

    return LinearRegression().fit(x, LABELS).coef_


@giving("sklearn", "StandardScaler(copy=False).fit_transform(b)", TABLE, "np.asarray(b.cpu)")
def _(x):
    from sklearn.preprocessing import StandardScaler

    return StandardScaler(copy=False).fit_transform(x)


@giving("sklearn", "MinMaxScaler(copy=False).fit_transform(b)", TABLE, "np.asarray(b.cpu)")
def _(x):
    from sklearn.preprocessing import MinMaxScaler

    return MinMaxScaler(copy=False).fit_transform(x)


@giving("sklearn", "PCA(copy=False).fit(b)", TABLE[:8], "np.asarray(b.cpu)")
def _(x):
    from sklearn.decomposition import PCA

    return PCA(copy=False).fit(x).components_


@giving("astropy", "u.m * b", GRAY, "b")
def _(x):
    from astropy import units

    return (units.m * x).value


@giving("astropy", "np.hypot(quantity, b * u.m)", GRAY, "b")
def _(x):
    from astropy import units

    return np.hypot(GRAY * units.km, x * units.m).value


@giving("astropy", "np.dot(quantity, b)", GRAY, "b")
def _(x):
    from astropy import units

    return np.dot(GRAY * units.km, x).value


@giving("astropy", "fits.PrimaryHDU(b).writeto(file)", GRAY, "b")
def _(x):
    from astropy.io import fits

    file = io.BytesIO()
    fits.PrimaryHDU(x).writeto(file)
    return fits.getdata(io.BytesIO(file.getvalue()))


@giving("astropy", "fits.writeto(file, b)", GRAY)
def _(x):
    from astropy.io import fits

    file = io.BytesIO()
    fits.writeto(file, x)
    return fits.getdata(io.BytesIO(file.getvalue()))


@giving("sparse", "COO + b", GRAY, "b")
def _(x):
    import sparse

    return sparse.COO.from_numpy(GRAY * MASK) + x


@giving("sparse", "COO @ b", GRAY)
def _(x):
    import sparse

    return sparse.COO.from_numpy(GRAY * MASK) @ x


@giving("sparse", "sparse.where(mask, COO, b)", np.array(0, "f4"))
def _(x):
    import sparse

    coo = sparse.COO.from_numpy(GRAY * MASK)
    return isinstance(sparse.where(coo > 0.6, coo, x), sparse.COO)


@giving("pint", "b @ quantity", GRAY, "b")
def _(x):
    import pint

    return (x @ (GRAY * pint.UnitRegistry().m)).magnitude


@giving("sympy", "sympy.Matrix(b)", NUMBERS, "b")
def _(x):
    import sympy

    return sympy.Matrix(x).tolist()


@giving("numba", "njit(…)(b)", GRAY, "b")
def _(x):
    from numba import njit

    return njit(lambda y: y.sum())(x)


@giving("numba", "njit(…)(b), which writes", GRAY, "b.cpu")
def _(x):
    from numba import njit

    @njit
    def change(y):
        y[0, 0] = 2

    change(x)


@giving("jax", "jnp.einsum(…, b, b)", GRAY, "b")
def _(x):
    import jax.numpy as jnp

    return jnp.einsum("ij,ij->i", x, x)


@giving("jax", "jax.jit(jnp.sin)(b)", GRAY)
def _(x):
    import jax

    return jax.jit(jax.numpy.sin)(x)


# --- tables and plots ----------------------------------------------------------------------------


@giving("pandas", "series.isin(b)", NUMBERS[:3], "b")
def _(x):
    import pandas as pd

    return pd.Series(NUMBERS).isin(x)


@giving("pandas", "frame[b]", NUMBERS > 3)
def _(x):
    import pandas as pd

    return pd.DataFrame({"x": NUMBERS})[x]


@giving("pandas", "series.iloc[b]", NUMBERS > 3)
def _(x):
    import pandas as pd

    return pd.Series(NUMBERS).iloc[x]


@giving("pandas", "pd.unique(b)", NUMBERS)
def _(x):
    import pandas as pd

    return pd.unique(x)


@giving("pandas", "frame + b", TABLE, "b")
def _(x):
    import pandas as pd

    return pd.DataFrame(TABLE) + x


@giving("pandas", "series[b], a mask", NUMBERS > 3)
def _(x):
    import pandas as pd

    return pd.Series(NUMBERS)[x]


@giving("pandas", "frame.loc[b, 'x'] = value, a mask", NUMBERS > 3)
def _(x):
    import pandas as pd

    frame = pd.DataFrame({"x": NUMBERS})
    frame.loc[x, "x"] = 0
    return frame


@giving("pandas", "frame.groupby(b)", NUMBERS // 3)
def _(x):
    import pandas as pd

    return pd.DataFrame({"x": NUMBERS}).groupby(x).sum()


@giving("pandas", "series.where(b, 0)", NUMBERS > 3, "b")
def _(x):
    import pandas as pd

    return pd.Series(NUMBERS).where(x, 0)


@giving("pandas", "frame += b", TABLE)
def _(x):
    import pandas as pd

    frame = pd.DataFrame(TABLE)
    frame += x
    return frame


@giving("polars", "pl.DataFrame({'x': b})", NUMBERS, "b")
def _(x):
    import polars as pl

    return pl.DataFrame({"x": x}).to_numpy()


@giving("polars", "pl.Series('x', b, dtype=…)", NUMBERS, "b")
def _(x):
    import polars as pl

    series = pl.Series("x", x, dtype=pl.Float64)
    return [series.name, *map(str, [series.dtype, *series])]


@giving("polars", "pl.Series([b, b])", NUMBERS)
def _(x):
    import polars as pl

    return [str(pl.Series([x, x]).dtype)]


@giving("polars", "pl.DataFrame([b, b])", NUMBERS)
def _(x):
    import polars as pl

    return [str(kind) for kind in pl.DataFrame([x, x]).dtypes]


@giving("polars", "pl.DataFrame(b)", TABLE, "b")
def _(x):
    import polars as pl

    return pl.DataFrame(x).to_numpy()


@giving("polars", "frame.filter(b)", NUMBERS > 3)
def _(x):
    import polars as pl

    return pl.DataFrame({"x": NUMBERS}).filter(x).to_numpy()


@giving("matplotlib", "axes.boxplot(b), axes.hist(b)", TABLE, "b")
def _(x):
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    medians = [line.get_ydata()[0] for line in axes.boxplot(x)["medians"]]
    return np.vstack([medians, axes.hist(x, bins=4)[0].T])


# --- pictures and sound --------------------------------------------------------------------------


@giving("PIL", "PIL.Image.fromarray(b)", IMAGE)
def _(x):
    from PIL import Image

    return np.asarray(Image.fromarray(x))


@giving("skimage", "morphology.dilation(b)", GRAY)
def _(x):
    from skimage import morphology

    return morphology.dilation(x)


@giving("skimage", "morphology.dilation(x, out=b)", 0 * GRAY, "np.asarray(b.cpu)")
def _(x):
    from skimage import morphology

    morphology.dilation(GRAY, out=x)


@giving("skimage", "morphology.remove_small_objects(b)", MASK)
def _(x):
    from skimage import morphology

    return morphology.remove_small_objects(x, max_size=3)


@giving("skimage", "morphology.remove_small_holes(b)", MASK)
def _(x):
    from skimage import morphology

    return morphology.remove_small_holes(x, max_size=3)


@giving("skimage", "morphology.skeletonize(b)", MASK, "np.array(b)")
def _(x):
    from skimage import morphology

    return morphology.skeletonize(x)


@giving("skimage", "segmentation.watershed(b)", GRAY)
def _(x):
    from skimage import segmentation

    return segmentation.watershed(x, 2)


@giving("imageio", "iio.imwrite('x.gif', [b, b])", IMAGE)
def _(x):
    import imageio.v3 as iio

    return list(iio.imwrite("<bytes>", [x, x], extension=".gif"))


@giving("cv2", "cv2.GaussianBlur(b, …)", IMAGE)
def _(x):
    import cv2

    return cv2.GaussianBlur(x, (3, 3), 0)


@giving("cv2", "cv2.rectangle(b, …)", IMAGE, "np.asarray(b.cpu)")
def _(x):
    import cv2

    return cv2.rectangle(x, (0, 0), (3, 3), (255, 0, 0))


@giving("torchvision", "to_tensor(b)", IMAGE)
def _(x):
    from torchvision.transforms import functional

    return functional.to_tensor(x)


@giving("librosa", "librosa.stft(b)", AUDIO)
def _(x):
    import librosa

    return np.abs(librosa.stft(x, n_fft=256))


@giving("soxr", "soxr.resample(b, …), float64", AUDIO.astype("f8"))
def _(x):
    import soxr

    return soxr.resample(x, 8000, 4000)


@giving("pyvista", "pv.PolyData(b)", TABLE, "np.array(b)")
def _(x):
    import pyvista as pv

    return pv.PolyData(x).points


@giving("pyvista", "mesh.point_data['x'] = b, written", TABLE, "np.asarray(b.cpu)")
def _(x):
    import pyvista as pv

    mesh = pv.PolyData(np.zeros((40, 3), "f4"))
    mesh.point_data["x"] = x
    mesh.point_data["x"][0] = 9


@giving("vtkmodules", "numpy_to_vtk(b), written", TABLE, "np.asarray(b.cpu)")
def _(x):
    from vtkmodules.util.numpy_support import numpy_to_vtk

    numpy_to_vtk(x).SetTuple3(0, 9, 9, 9)


# --- maps and graphs -----------------------------------------------------------------------------


_SHAPES = [({"type": "Polygon", "coordinates": [[(1, 1), (9, 1), (9, 9), (1, 1)]]}, 7)]


@giving("rasterio", "features.rasterize(shapes, out=b)", 0 * GRAY, "np.asarray(b.cpu)")
def _(x):
    from rasterio import features

    features.rasterize(_SHAPES, out=x)


@giving("rasterio", "warp.reproject(x, b)", 0 * GRAY, "np.asarray(b.cpu)")
def _(x):
    from rasterio import transform, warp

    place = transform.from_origin(0, 16, 1, 1)
    places = {f"{side}_transform": place for side in ("src", "dst")}
    warp.reproject(GRAY, x, **places, src_crs="EPSG:4326", dst_crs="EPSG:4326")


@giving("rasterio", "fill.fillnodata(b, mask)", GRAY, "np.asarray(b.cpu)")
def _(x):
    from rasterio import fill

    return fill.fillnodata(x, mask=MASK)


@giving("networkx", "graph.has_node(b[0])", np.array([1, 2]))
def _(x):
    import networkx as nx

    return nx.path_graph(3).has_node(x[0])


@giving("networkx", "nx.Graph(b)", (NUMBERS[:, None] > NUMBERS).astype("f4"))
def _(x):
    import networkx as nx

    return nx.Graph(x).number_of_edges()


# --- models --------------------------------------------------------------------------------------


def _session():
    import onnxruntime
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [40, 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", [x], [y])
    opset = helper.make_opsetid("", 13)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


@giving("onnxruntime", "session.run(None, {'x': b})", TABLE)
def _(x):
    return _session().run(None, {"x": x})[0]


@giving("onnxruntime", "OrtValue.from_dlpack(b)", TABLE, "b")
def _(x):
    import onnxruntime

    value = onnxruntime.OrtValue.from_dlpack(x)
    return _session().run_with_ort_values(None, {"x": value})[0].numpy()


_LIGHT = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 2, "num_leaves": 4}


@giving("lightgbm", "lgb.Dataset(b), model.predict(b)", TABLE, "b")
def _(x):
    import lightgbm as lgb

    return lgb.train(_LIGHT, lgb.Dataset(x, label=LABELS), 3).predict(x)


@giving("lightgbm", "lgb.Dataset(x, label=b)", LABELS)
def _(x):
    import lightgbm as lgb

    return lgb.train(_LIGHT, lgb.Dataset(TABLE, label=x), 3).predict(TABLE)


@giving("catboost", "CatBoostRegressor().fit(b, y)", TABLE)
def _(x):
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(iterations=3, verbose=0, thread_count=1, allow_writing_files=False)
    return model.fit(x, LABELS).predict(TABLE)


@giving("gymnasium", "spaces.Discrete(5).contains(b)", np.array(2))
def _(x):
    from gymnasium import spaces

    return spaces.Discrete(5).contains(x)


@giving("gymnasium", "spaces.MultiDiscrete(…).contains(b)", np.array([1, 2]))
def _(x):
    from gymnasium import spaces

    return spaces.MultiDiscrete([3, 3]).contains(x)


# --- files ---------------------------------------------------------------------------------------


def _dataset():
    import h5py

    file = h5py.File("in memory", "w", driver="core", backing_store=False)
    return file.create_dataset("x", data=GRAY)


@giving("h5py", "dataset.read_direct(b)", 0 * GRAY, "np.asarray(b.cpu)")
def _(x):
    _dataset().read_direct(x)


@giving("h5py", "dataset.write_direct(b)", GRAY * 2)
def _(x):
    dataset = _dataset()
    dataset.write_direct(x)
    return dataset[()]


@giving("tables", "array[b], a mask", np.array([True, False]))
def _(x):
    import tables

    with tables.open_file(
        "in memory", "w", driver="H5FD_CORE", driver_core_backing_store=0
    ) as file:
        return file.create_array("/", "x", obj=NUMBERS[:2])[x]
