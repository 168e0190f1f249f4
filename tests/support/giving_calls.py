"""What to pass to which consumer: the calls of the second table in docs/consumers.md, in order.

Each takes one Blob, `b`. All other arguments are ndarrays.
"""

from __future__ import annotations

import ast
from io import BytesIO  # noqa: F401  # for the calls
from typing import Any, NamedTuple

import numpy as np

# What to pass for a Blob.
WAYS = {
    "b": lambda b: b,
    "np.asarray(b)": np.asarray,
    "np.array(b)": np.array,
    "b.cpu": lambda b: b.cpu,
    "np.asarray(b.cpu)": lambda b: np.asarray(b.cpu),
    "b.to_torch()": lambda b: b.to_torch(),
}
ITSELF, CONST, COPY, SIDE, ALIAS = [*WAYS][:5]

_rng = np.random.default_rng(seed=0)
GRAY = _rng.random((16, 16), "f4")
IMAGE = _rng.integers(0, 255, (16, 16, 3), "u1")
MASK = GRAY > 0.5
TABLE = _rng.random((40, 3), "f4")
LABELS = TABLE.sum(1)
AUDIO = _rng.random(4096, "f4")
NUMBERS = np.arange(8, dtype="f4")
EXACT = NUMBERS.astype("f8")

SHAPES = [({"type": "Polygon", "coordinates": [[(1, 1), (9, 1), (9, 9), (1, 1)]]}, 7)]
CRS = {"src_crs": "EPSG:4326", "dst_crs": "EPSG:4326"}
LIGHT = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 2, "num_leaves": 4}
CAT = {"iterations": 3, "verbose": 0, "thread_count": 1, "allow_writing_files": False}


def tridiagonal(kind):
    from scipy import sparse

    ones = np.ones(8)
    matrix = sparse.diags_array([-ones[1:], 3 * ones, -ones[1:]], offsets=[-1, 0, 1])
    return matrix.asformat(kind)


def session():
    import onnxruntime
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [40, 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", [x], [y])
    opset = helper.make_opsetid("", 13)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def dataset():
    import h5py

    file = h5py.File("in memory", "w", driver="core", backing_store=False)
    return file.create_dataset("x", data=GRAY)


def masked(mask):
    import tables

    settings = {"driver": "H5FD_CORE", "driver_core_backing_store": 0}
    with tables.open_file("in memory", "w", **settings) as file:
        return file.create_array("/", "x", obj=NUMBERS[:2])[mask]


# Where the names of the calls are; each is imported by the calls that have it.
NAMES = dict(
    pair.split("=")
    for pair in """
        torch=torch csr_array=scipy.sparse:csr_array linalg=scipy.sparse:linalg
        scipy_sparse=scipy:sparse sparse=sparse ndimage=scipy:ndimage blas=scipy.linalg:blas
        LinearRegression=sklearn.linear_model:LinearRegression preprocessing=sklearn:preprocessing
        PCA=sklearn.decomposition:PCA units=astropy:units fits=astropy.io:fits pint=pint
        random=random sympy=sympy njit=numba:njit jnp=jax.numpy jax=jax pd=pandas pl=polars
        Figure=matplotlib.figure:Figure Image=PIL:Image morphology=skimage:morphology
        segmentation=skimage:segmentation iio=imageio.v3 cv2=cv2
        functional=torchvision.transforms:functional librosa=librosa soxr=soxr pv=pyvista
        numpy_to_vtk=vtkmodules.util.numpy_support:numpy_to_vtk features=rasterio:features
        transform=rasterio:transform warp=rasterio:warp fill=rasterio:fill nx=networkx
        onnxruntime=onnxruntime lgb=lightgbm catboost=catboost spaces=gymnasium:spaces
    """.split()
)


class Giving(NamedTuple):
    """A call that passes a Blob to a consumer.

    Attributes
    ----------
    module
        The required package.
    text
        The call, as the table shows it.
    code
        The statements that make it; the last one's value is the result.
    array
        The contents of the Blob.
    give
        What to pass for a Blob, one of `WAYS`.
    """

    module: str
    text: str
    code: str
    array: np.ndarray
    give: str

    def function(self, b: Any) -> Any:
        """Make the call with an array, or with an object in place of one; return the result."""
        tree = ast.parse(self.code)
        names = globals() | {"b": b}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in NAMES:
                module, _, name = NAMES[node.id].partition(":")
                what = f"from {module} import {name}" if name else f"import {module}"
                exec(f"{what} as {node.id}", names)  # noqa: S102  # the table is ours
        last = tree.body.pop()
        exec(compile(tree, self.text, "exec"), names)  # noqa: S102  # as above
        if not isinstance(last, ast.Expr):
            tree = ast.Module([last], [])
            return exec(compile(tree, self.text, "exec"), names)  # noqa: S102  # as above
        return eval(compile(ast.Expression(last.value), self.text, "eval"), names)  # noqa: S307  # as above


CALLS = [
    # Python and NumPy
    Giving("random", "random.shuffle(b)", "random.seed(1); random.shuffle(b)", NUMBERS, ALIAS),
    Giving("numpy", "rng.shuffle(b), of rows", "np.random.default_rng(1).shuffle(b)", GRAY, ALIAS),
    Giving(
        "numpy",
        "rng.random(out=b)",
        "np.random.default_rng(1).random(out=b, dtype='f4')",
        NUMBERS,
        ALIAS,
    ),
    Giving("torch", "torch.from_numpy(b)", "torch.from_numpy(b).mul_(2).tolist()", GRAY, ALIAS),
    Giving("torch", "torch.tensor([b, b])", "torch.tensor([b, b]).tolist()", GRAY, ITSELF),
    Giving("torch", "tensor[b]", "torch.tensor(GRAY)[b].tolist()", np.array([0, 1]), ITSELF),
    Giving(
        "torch",
        "tensor[b] = value",
        "written = torch.zeros(4, 4); written[b] = 1; written.tolist()",
        np.array([0, 1]),
        ITSELF,
    ),
    # science
    Giving("scipy", "csr_array + b", "csr_array(MASK) + b", GRAY, ITSELF),
    Giving("scipy", "csr_array @ b", "tridiagonal('csr') @ b", NUMBERS, ITSELF),
    Giving(
        "scipy",
        "sparse.linalg.spsolve(A, b), cg(A, b)",
        "m = tridiagonal('csc'); [linalg.spsolve(m, b), linalg.cg(m, b, rtol=1e-10)[0]]",
        EXACT,
        ITSELF,
    ),
    Giving(
        "scipy",
        "sparse.linalg.splu(A).solve(b)",
        "linalg.splu(tridiagonal('csc')).solve(b)",
        EXACT,
        CONST,
    ),
    Giving("scipy", "sparse.linalg.cg(b, x)", "linalg.cg(b, EXACT)[0]", np.eye(8) * 2, ITSELF),
    Giving(
        "scipy", "sparse.diags_array(b)", "scipy_sparse.diags_array(b).toarray()", NUMBERS, CONST
    ),
    Giving(
        "scipy",
        "ndimage.gaussian_filter(x, 1, output=b)",
        "ndimage.gaussian_filter(GRAY, 1, output=b)",
        0 * GRAY,
        ALIAS,
    ),
    Giving("scipy", "ndimage.label(x, output=b)", "ndimage.label(MASK, output=b)", 0 * GRAY, ALIAS),
    Giving(
        "scipy",
        "ndimage.distance_transform_edt(x, distances=b)",
        "ndimage.distance_transform_edt(MASK, distances=b)",
        0.0 * MASK,
        ALIAS,
    ),
    Giving(
        "scipy",
        "ndimage.binary_dilation(x, output=b)",
        "ndimage.binary_dilation(MASK, output=b)",
        ~MASK,
        ALIAS,
    ),
    Giving("scipy", "linalg.blas.daxpy(x, b)", "blas.daxpy(np.ones(8), b)", EXACT, ALIAS),
    Giving(
        "sklearn",
        "LinearRegression().fit(b, y)",
        "LinearRegression().fit(b, LABELS).coef_",
        TABLE,
        ITSELF,
    ),
    Giving(
        "sklearn",
        "StandardScaler(copy=False).fit_transform(b)",
        "preprocessing.StandardScaler(copy=False).fit_transform(b)",
        TABLE,
        ALIAS,
    ),
    Giving(
        "sklearn",
        "MinMaxScaler(copy=False).fit_transform(b)",
        "preprocessing.MinMaxScaler(copy=False).fit_transform(b)",
        TABLE,
        ALIAS,
    ),
    Giving(
        "sklearn", "PCA(copy=False).fit(b)", "PCA(copy=False).fit(b).components_", TABLE[:8], ALIAS
    ),
    Giving("astropy", "u.m * b", "(units.m * b).value", GRAY, ITSELF),
    Giving(
        "astropy",
        "np.hypot(quantity, b * u.m)",
        "np.hypot(GRAY * units.km, b * units.m).value",
        GRAY,
        ITSELF,
    ),
    Giving("astropy", "np.dot(quantity, b)", "np.dot(GRAY * units.km, b).value", GRAY, ITSELF),
    Giving(
        "astropy",
        "fits.PrimaryHDU(b).writeto(file)",
        "file = BytesIO(); fits.PrimaryHDU(b).writeto(file); "
        "fits.getdata(BytesIO(file.getvalue()))",
        GRAY,
        ITSELF,
    ),
    Giving(
        "astropy",
        "fits.writeto(file, b)",
        "file = BytesIO(); fits.writeto(file, b); fits.getdata(BytesIO(file.getvalue()))",
        GRAY,
        CONST,
    ),
    Giving("sparse", "COO + b", "sparse.COO.from_numpy(GRAY * MASK) + b", GRAY, ITSELF),
    Giving("sparse", "COO @ b", "sparse.COO.from_numpy(GRAY * MASK) @ b", GRAY, CONST),
    Giving(
        "sparse",
        "sparse.where(mask, COO, b)",
        "coo = sparse.COO.from_numpy(GRAY * MASK); "
        "isinstance(sparse.where(coo > 0.6, coo, b), sparse.COO)",
        np.array(0, "f4"),
        CONST,
    ),
    Giving("pint", "b @ quantity", "(b @ (GRAY * pint.UnitRegistry().m)).magnitude", GRAY, ITSELF),
    Giving("sympy", "sympy.Matrix(b)", "sympy.Matrix(b).tolist()", NUMBERS, ITSELF),
    Giving("numba", "njit(…)(b)", "njit(lambda y: y.sum())(b)", GRAY, ITSELF),
    Giving("numba", "njit(…)(b), which writes", "njit(lambda y: y.fill(2))(b)", GRAY, SIDE),
    Giving("jax", "jnp.einsum(…, b, b)", "jnp.einsum('ij,ij->i', b, b)", GRAY, ITSELF),
    Giving("jax", "jax.jit(jnp.sin)(b)", "jax.jit(jax.numpy.sin)(b)", GRAY, CONST),
    # tables and plots
    Giving("pandas", "series.isin(b)", "pd.Series(NUMBERS).isin(b)", NUMBERS[:3], ITSELF),
    Giving("pandas", "frame[b]", "pd.DataFrame({'x': NUMBERS})[b]", NUMBERS > 3, CONST),
    Giving("pandas", "series.iloc[b]", "pd.Series(NUMBERS).iloc[b]", NUMBERS > 3, CONST),
    Giving("pandas", "pd.unique(b)", "pd.unique(b)", NUMBERS, CONST),
    Giving("pandas", "frame + b", "pd.DataFrame(TABLE) + b", TABLE, ITSELF),
    Giving("pandas", "series[b], a mask", "pd.Series(NUMBERS)[b]", NUMBERS > 3, CONST),
    Giving(
        "pandas",
        "frame.loc[b, 'x'] = value, a mask",
        "frame = pd.DataFrame({'x': NUMBERS}); frame.loc[b, 'x'] = 0; frame",
        NUMBERS > 3,
        CONST,
    ),
    Giving(
        "pandas",
        "frame.groupby(b)",
        "pd.DataFrame({'x': NUMBERS}).groupby(b).sum()",
        NUMBERS // 3,
        CONST,
    ),
    Giving("pandas", "series.where(b, 0)", "pd.Series(NUMBERS).where(b, 0)", NUMBERS > 3, ITSELF),
    Giving("pandas", "frame += b", "frame = pd.DataFrame(TABLE); frame += b; frame", TABLE, CONST),
    Giving(
        "polars", "pl.DataFrame({'x': b})", "pl.DataFrame({'x': b}).to_numpy()", NUMBERS, ITSELF
    ),
    Giving(
        "polars",
        "pl.Series('x', b, dtype=…)",
        "series = pl.Series('x', b, dtype=pl.Float64); "
        "[series.name, *map(str, [series.dtype, *series])]",
        NUMBERS,
        ITSELF,
    ),
    Giving("polars", "pl.Series([b, b])", "[str(pl.Series([b, b]).dtype)]", NUMBERS, CONST),
    Giving(
        "polars",
        "pl.DataFrame([b, b])",
        "[str(kind) for kind in pl.DataFrame([b, b]).dtypes]",
        NUMBERS,
        CONST,
    ),
    Giving("polars", "pl.DataFrame(b)", "pl.DataFrame(b).to_numpy()", TABLE, ITSELF),
    Giving(
        "polars",
        "frame.filter(b)",
        "pl.DataFrame({'x': NUMBERS}).filter(b).to_numpy()",
        NUMBERS > 3,
        CONST,
    ),
    Giving(
        "matplotlib",
        "axes.boxplot(b), axes.hist(b)",
        "axes = Figure().subplots(); "
        "medians = [line.get_ydata()[0] for line in axes.boxplot(b)['medians']]; "
        "np.vstack([medians, axes.hist(b, bins=4)[0].T])",
        TABLE,
        ITSELF,
    ),
    # pictures and sound
    Giving("PIL", "PIL.Image.fromarray(b)", "np.asarray(Image.fromarray(b))", IMAGE, CONST),
    Giving("skimage", "morphology.dilation(b)", "morphology.dilation(b)", GRAY, CONST),
    Giving(
        "skimage",
        "morphology.dilation(x, out=b)",
        "morphology.dilation(GRAY, out=b)",
        0 * GRAY,
        ALIAS,
    ),
    Giving(
        "skimage",
        "morphology.remove_small_objects(b)",
        "morphology.remove_small_objects(b, max_size=3)",
        MASK,
        CONST,
    ),
    Giving(
        "skimage",
        "morphology.remove_small_holes(b)",
        "morphology.remove_small_holes(b, max_size=3)",
        MASK,
        CONST,
    ),
    Giving("skimage", "morphology.skeletonize(b)", "morphology.skeletonize(b)", MASK, COPY),
    Giving("skimage", "segmentation.watershed(b)", "segmentation.watershed(b, 2)", GRAY, CONST),
    Giving(
        "imageio",
        "iio.imwrite('x.gif', [b, b])",
        "list(iio.imwrite('<bytes>', [b, b], extension='.gif'))",
        IMAGE,
        CONST,
    ),
    Giving("cv2", "cv2.GaussianBlur(b, …)", "cv2.GaussianBlur(b, (3, 3), 0)", IMAGE, CONST),
    Giving(
        "cv2", "cv2.rectangle(b, …)", "cv2.rectangle(b, (0, 0), (3, 3), (255, 0, 0))", IMAGE, ALIAS
    ),
    Giving("torchvision", "to_tensor(b)", "functional.to_tensor(b)", IMAGE, CONST),
    Giving("librosa", "librosa.stft(b)", "np.abs(librosa.stft(b, n_fft=256))", AUDIO, CONST),
    Giving(
        "soxr",
        "soxr.resample(b, …), float64",
        "soxr.resample(b, 8000, 4000)",
        AUDIO.astype("f8"),
        CONST,
    ),
    Giving("pyvista", "pv.PolyData(b)", "pv.PolyData(b).points", TABLE, COPY),
    Giving(
        "pyvista",
        "mesh.point_data['x'] = b, written",
        "mesh = pv.PolyData(np.zeros((40, 3), 'f4')); "
        "mesh.point_data['x'] = b; "
        "mesh.point_data['x'][0] = 9",
        TABLE,
        ALIAS,
    ),
    Giving(
        "vtkmodules",
        "numpy_to_vtk(b), written",
        "numpy_to_vtk(b).SetTuple3(0, 9, 9, 9)",
        TABLE,
        ALIAS,
    ),
    # maps and graphs
    Giving(
        "rasterio",
        "features.rasterize(shapes, out=b)",
        "features.rasterize(SHAPES, out=b)",
        0 * GRAY,
        ALIAS,
    ),
    Giving(
        "rasterio",
        "warp.reproject(x, b)",
        "place = transform.from_origin(0, 16, 1, 1); "
        "warp.reproject(GRAY, b, src_transform=place, dst_transform=place, **CRS); None",
        0 * GRAY,
        ALIAS,
    ),
    Giving("rasterio", "fill.fillnodata(b, mask)", "fill.fillnodata(b, mask=MASK)", GRAY, ALIAS),
    Giving(
        "networkx",
        "graph.has_node(b[0])",
        "nx.path_graph(3).has_node(b[0])",
        np.array([1, 2]),
        CONST,
    ),
    Giving(
        "networkx",
        "nx.Graph(b)",
        "nx.Graph(b).number_of_edges()",
        (NUMBERS[:, None] > NUMBERS).astype("f4"),
        CONST,
    ),
    # models
    Giving(
        "onnxruntime",
        "session.run(None, {'x': b})",
        "session().run(None, {'x': b})[0]",
        TABLE,
        CONST,
    ),
    Giving(
        "onnxruntime",
        "OrtValue.from_dlpack(b)",
        "value = onnxruntime.OrtValue.from_dlpack(b); "
        "session().run_with_ort_values(None, {'x': value})[0].numpy()",
        TABLE,
        ITSELF,
    ),
    Giving(
        "lightgbm",
        "lgb.Dataset(b), model.predict(b)",
        "lgb.train(LIGHT, lgb.Dataset(b, label=LABELS), 3).predict(b)",
        TABLE,
        ITSELF,
    ),
    Giving(
        "lightgbm",
        "lgb.Dataset(x, label=b)",
        "lgb.train(LIGHT, lgb.Dataset(TABLE, label=b), 3).predict(TABLE)",
        LABELS,
        CONST,
    ),
    Giving(
        "catboost",
        "CatBoostRegressor().fit(b, y)",
        "catboost.CatBoostRegressor(**CAT).fit(b, LABELS).predict(TABLE)",
        TABLE,
        CONST,
    ),
    Giving(
        "gymnasium",
        "spaces.Discrete(5).contains(b)",
        "spaces.Discrete(5).contains(b)",
        np.array(2),
        CONST,
    ),
    Giving(
        "gymnasium",
        "spaces.MultiDiscrete(…).contains(b)",
        "spaces.MultiDiscrete([3, 3]).contains(b)",
        np.array([1, 2]),
        CONST,
    ),
    # files
    Giving("h5py", "dataset.read_direct(b)", "dataset().read_direct(b)", 0 * GRAY, ALIAS),
    Giving(
        "h5py",
        "dataset.write_direct(b)",
        "written = dataset(); written.write_direct(b); written[()]",
        GRAY * 2,
        CONST,
    ),
    Giving("tables", "array[b], a mask", "masked(b)", np.array([True, False]), CONST),
]
