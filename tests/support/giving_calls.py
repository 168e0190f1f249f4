"""What to pass to which consumer: the calls of the table in docs/consumers.md, in order.

Each takes one Blob, `b`. All other arguments are ndarrays.
"""

import ast
import re
from io import BytesIO  # noqa: F401  # for the calls
from typing import Any, NamedTuple

import numpy as np
from other_processes import total  # noqa: F401  # for the calls

# What to pass for a Blob.
WAYS = {
    "b": lambda b: b,
    "np.asarray(b)": np.asarray,
    "np.array(b)": np.array,
    "b.cpu": lambda b: b.cpu,
    "np.asarray(b.cpu)": lambda b: np.asarray(b.cpu),
    "b.to_torch()": lambda b: b.to_torch(),
}
ITSELF, CONST, COPY, SIDE, ALIAS, TENSOR = WAYS

_rng = np.random.default_rng(seed=0)
GRAY = _rng.random((16, 16), "f4")
IMAGE = _rng.integers(0, 255, (16, 16, 3), "u1")
MASK = GRAY > 0.5
x, mask = GRAY, MASK
TABLE = _rng.random((40, 3), "f4")
LABELS = TABLE.sum(1)
AUDIO = _rng.random(4096, "f4")
NUMBERS = np.arange(8, dtype="f4")
EXACT = NUMBERS.astype("f8")

shapes = [({"type": "Polygon", "coordinates": [[(1, 1), (9, 1), (9, 9), (1, 1)]]}, 7)]
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


def doubling():
    import warp as wp

    @wp.kernel
    def double(y: wp.array(dtype=wp.float32)):
        y[wp.tid()] *= 2.0

    return double


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
        LinearRegression=sklearn.linear_model:LinearRegression
        StandardScaler=sklearn.preprocessing:StandardScaler
        MinMaxScaler=sklearn.preprocessing:MinMaxScaler PCA=sklearn.decomposition:PCA
        cffi=cffi units=astropy:units fits=astropy.io:fits pint=pint
        random=random sympy=sympy njit=numba:njit jnp=jax.numpy jax=jax pd=pandas pl=polars
        Figure=matplotlib.figure:Figure Image=PIL:Image morphology=skimage:morphology
        segmentation=skimage:segmentation filters=skimage:filters
        sktransform=skimage:transform xr=xarray joblib=joblib iio=imageio.v3 cv2=cv2
        functional=torchvision.transforms:functional librosa=librosa soxr=soxr pv=pyvista
        numpy_to_vtk=vtkmodules.util.numpy_support:numpy_to_vtk features=rasterio:features
        transform=rasterio:transform warp=rasterio:warp fill=rasterio:fill nx=networkx
        rr=rerun imagecodecs=imagecodecs mahotas=mahotas einx=einx vector=vector wp=warp
        get_problem=pymoo.problems:get_problem
        onnxruntime=onnxruntime lgb=lightgbm catboost=catboost spaces=gymnasium:spaces
    """.split()
)


class Giving(NamedTuple):
    """A call that passes a Blob to a consumer.

    `module`: the required package.
    `give`: what to pass for a Blob, one of `WAYS`.
    `array`: the contents of the Blob.
    `text`: the call, as the table shows it.
    `code`: the statements that make it, if they are others; the last one's value is the result.
    """

    module: str
    give: str
    array: np.ndarray
    text: str
    code: str = ""

    def function(self, b: Any) -> Any:
        """Make the call with an array, or with an object in place of one; return the result."""
        tree = ast.parse(self.code or self.text)
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


# The package, what to pass, the contents, the call, and the code that makes it if it is another.
TABLE_OF_CALLS = """
# Python and NumPy
random | ALIAS | NUMBERS | random.shuffle(b) | random.seed(1); random.shuffle(b)
numpy | ALIAS | GRAY | rng.shuffle(b) | np.random.default_rng(1).shuffle(b)
numpy | ALIAS | NUMBERS | rng.random(out=b) | np.random.default_rng(1).random(out=b, dtype='f4')
torch | ALIAS | GRAY | torch.from_numpy(b) | torch.from_numpy(b).mul_(2).tolist()
torch | CONST | GRAY | torch.asarray(b.const, copy=True), written |
    torch.asarray(getattr(b, 'const', b), copy=True).mul_(2); None
torch | CONST | GRAY | torch.tensor([b, b]) | torch.tensor([b, b]).tolist()
torch | TENSOR | np.array([0, 1]) | tensor[b] | torch.tensor(GRAY)[b].tolist()
torch | TENSOR | np.array([0, 1]) | tensor[b] = value | written = torch.zeros(4, 4);
    written[b] = 1; written.tolist()
# science
scipy | ITSELF | GRAY | csr_array + b | csr_array(MASK) + b
scipy | ITSELF | NUMBERS | csr_array @ b | tridiagonal('csr') @ b
scipy | ITSELF | EXACT | sparse.linalg.spsolve(A, b), cg(A, b) | m = tridiagonal('csc');
    [linalg.spsolve(m, b), linalg.cg(m, b, rtol=1e-10)[0]]
scipy | CONST | EXACT | sparse.linalg.splu(A).solve(b) | linalg.splu(tridiagonal('csc')).solve(b)
scipy | ITSELF | np.eye(8) * 2 | sparse.linalg.cg(b, x) | linalg.cg(b, EXACT)[0]
scipy | CONST | NUMBERS | sparse.diags_array(b) | scipy_sparse.diags_array(b).toarray()
scipy | ALIAS | 0 * GRAY | ndimage.gaussian_filter(x, 1, output=b)
scipy | ALIAS | 0 * GRAY | ndimage.label(x, output=b) | ndimage.label(MASK, output=b)
scipy | ALIAS | 0.0 * MASK | ndimage.distance_transform_edt(x, distances=b) |
    ndimage.distance_transform_edt(MASK, distances=b)
scipy | ALIAS | ~MASK | ndimage.binary_dilation(x, output=b) |
    ndimage.binary_dilation(MASK, output=b)
scipy | ALIAS | EXACT | linalg.blas.daxpy(x, b) | blas.daxpy(np.ones(8), b)
sklearn | ITSELF | TABLE | LinearRegression().fit(b, y) | LinearRegression().fit(b, LABELS).coef_
sklearn | ALIAS | TABLE | StandardScaler(copy=False).fit_transform(b)
sklearn | ALIAS | TABLE | MinMaxScaler(copy=False).fit_transform(b)
sklearn | ALIAS | TABLE[:8] | PCA(copy=False).fit(b) | PCA(copy=False).fit(b).components_
astropy | ITSELF | GRAY | u.m * b | (units.m * b).value
astropy | ITSELF | GRAY | np.hypot(quantity, b * u.m) | np.hypot(GRAY * units.km, b * units.m).value
astropy | ITSELF | GRAY | np.dot(quantity, b) | np.dot(GRAY * units.km, b).value
astropy | ITSELF | GRAY | fits.PrimaryHDU(b).writeto(file) | file = BytesIO();
    fits.PrimaryHDU(b).writeto(file); fits.getdata(BytesIO(file.getvalue()))
astropy | CONST | GRAY | fits.writeto(file, b) | file = BytesIO(); fits.writeto(file, b);
    fits.getdata(BytesIO(file.getvalue()))
sparse | ITSELF | GRAY | COO + b | sparse.COO.from_numpy(GRAY * MASK) + b
sparse | CONST | GRAY | COO @ b | sparse.COO.from_numpy(GRAY * MASK) @ b
sparse | CONST | np.array(0, "f4") | sparse.where(mask, COO, b) |
    coo = sparse.COO.from_numpy(GRAY * MASK);
    isinstance(sparse.where(coo > 0.6, coo, b), sparse.COO)
pint | ITSELF | GRAY | b @ quantity | (b @ (GRAY * pint.UnitRegistry().m)).magnitude
cffi | ALIAS | NUMBERS | ffi.from_buffer(np.asarray(b)), written |
    cffi.FFI().from_buffer('float[]', np.asarray(b))[0] = 9
sympy | ITSELF | NUMBERS | sympy.Matrix(b) | sympy.Matrix(b).tolist()
sympy | ITSELF | NUMBERS | symbol + b[0] | [str(sympy.Symbol('a') + b[1])]
sympy | CONST | NUMBERS | symbol * b | [str(sympy.Symbol('a') * b)]
einx | CONST | GRAY | einx.sum('a [b]', b)
vector | CONST | NUMBERS | vectors * b | (vector.array({'x': NUMBERS, 'y': NUMBERS}) * b).x
pymoo | CONST | np.eye(8)[:, :2] | problem.evaluate(b) | get_problem('zdt1', n_var=2).evaluate(b)
warp | ALIAS | NUMBERS | wp.launch(kernel, …, inputs=[b]) | wp.launch(doubling(), 8, inputs=[b])
numba | SIDE | GRAY | njit(…)(b), which writes | njit(lambda y: y.fill(2))(b)
jax | ITSELF | GRAY | jnp.einsum(…, b, b) | jnp.einsum('ij,ij->i', b, b)
jax | CONST | GRAY | jax.jit(jnp.sin)(b) | jax.jit(jax.numpy.sin)(b)
# tables and plots
pandas | ITSELF | NUMBERS[:3] | series.isin(b) | pd.Series(NUMBERS).isin(b)
pandas | CONST | NUMBERS > 3 | frame[b] | pd.DataFrame({'x': NUMBERS})[b]
pandas | CONST | NUMBERS > 3 | series.iloc[b] | pd.Series(NUMBERS).iloc[b]
pandas | CONST | NUMBERS | pd.unique(b)
pandas | ITSELF | TABLE | frame + b | pd.DataFrame(TABLE) + b
pandas | CONST | NUMBERS > 3 | series[b], a mask | pd.Series(NUMBERS)[b]
pandas | CONST | NUMBERS > 3 | frame.loc[b, 'x'] = value, a mask |
    frame = pd.DataFrame({'x': NUMBERS}); frame.loc[b, 'x'] = 0; frame
pandas | CONST | NUMBERS // 3 | frame.groupby(b) | pd.DataFrame({'x': NUMBERS}).groupby(b).sum()
pandas | ITSELF | NUMBERS > 3 | series.where(b, 0) | pd.Series(NUMBERS).where(b, 0)
pandas | CONST | TABLE | frame += b | frame = pd.DataFrame(TABLE); frame += b; frame
polars | CONST | NUMBERS | pl.Series('x', b, dtype=…) |
    series = pl.Series('x', b, dtype=pl.Float64); [series.name, *map(str, [series.dtype, *series])]
polars | CONST | NUMBERS | pl.Series([b, b]) | [str(pl.Series([b, b]).dtype)]
polars | CONST | NUMBERS | pl.DataFrame([b, b]) |
    [str(kind) for kind in pl.DataFrame([b, b]).dtypes]
polars | CONST | NUMBERS > 3 | frame.filter(b) | pl.DataFrame({'x': NUMBERS}).filter(b).to_numpy()
polars | CONST | NUMBERS | pl.lit(b), column + b | frame = pl.DataFrame({'x': NUMBERS});
    frame.select(pl.lit(b) + 1, pl.col('x') + b).to_numpy()
polars | CONST | np.array([2, 0]) | frame[b] | pl.DataFrame({'x': NUMBERS})[b].to_numpy()
matplotlib | ITSELF | TABLE | axes.boxplot(b), axes.hist(b) | axes = Figure().subplots();
    medians = [line.get_ydata()[0] for line in axes.boxplot(b)['medians']];
    np.vstack([medians, axes.hist(b, bins=4)[0].T])
matplotlib | ITSELF | TABLE | axes.imshow(b) | Figure().subplots().imshow(b).get_array()
matplotlib | ITSELF | NUMBERS | axes.plot(b) | Figure().subplots().plot(b)[0].get_ydata()
xarray | ITSELF | GRAY | xr.DataArray(b).mean('dim_0') | xr.DataArray(b).mean('dim_0').values
# pictures and sound
PIL | CONST | IMAGE | PIL.Image.fromarray(b) | np.asarray(Image.fromarray(b))
skimage | CONST | GRAY | morphology.dilation(b)
skimage | ALIAS | 0 * GRAY | morphology.dilation(x, out=b)
skimage | CONST | MASK | morphology.remove_small_objects(b) |
    morphology.remove_small_objects(b, max_size=3)
skimage | CONST | MASK | morphology.remove_small_holes(b) |
    morphology.remove_small_holes(b, max_size=3)
skimage | COPY | MASK | morphology.skeletonize(b)
skimage | CONST | GRAY | segmentation.watershed(b) | segmentation.watershed(b, 2)
skimage | ITSELF | GRAY | filters.gaussian(b)
skimage | ITSELF | GRAY | transform.resize(b, (4, 4)) | sktransform.resize(b, (4, 4))
imageio | CONST | IMAGE | iio.imwrite('x.gif', [b, b]) |
    list(iio.imwrite('<bytes>', [b, b], extension='.gif'))
cv2 | CONST | IMAGE | cv2.GaussianBlur(b, …) | cv2.GaussianBlur(b, (3, 3), 0)
cv2 | ALIAS | IMAGE | cv2.rectangle(b, …) | cv2.rectangle(b, (0, 0), (3, 3), (255, 0, 0))
torchvision | CONST | IMAGE | to_tensor(b) | functional.to_tensor(b)
librosa | CONST | AUDIO | librosa.stft(b) | np.abs(librosa.stft(b, n_fft=256))
soxr | CONST | AUDIO.astype("f8") | soxr.resample(b, …), float64 | soxr.resample(b, 8000, 4000)
pyvista | COPY | TABLE | pv.PolyData(b) | pv.PolyData(b).points
pyvista | ALIAS | TABLE | mesh.point_data['x'] = b, written |
    mesh = pv.PolyData(np.zeros((40, 3), 'f4')); mesh.point_data['x'] = b;
    mesh.point_data['x'][0] = 9
vtkmodules | ALIAS | TABLE | numpy_to_vtk(b), written | numpy_to_vtk(b).SetTuple3(0, 9, 9, 9)
rerun | CONST | np.ones((2, 4, 3), "f4") | rr.LineStrips3D(b) |
    rr.LineStrips3D(b).strips.as_arrow_array().to_pylist()
imagecodecs | CONST | IMAGE[..., 0] * np.uint16(99) | imagecodecs.delta_encode(b)
mahotas | ALIAS | GRAY | mahotas.haar(b, inline=True)
# maps and graphs
rasterio | ALIAS | 0 * GRAY | features.rasterize(shapes, out=b)
rasterio | ALIAS | 0 * GRAY | warp.reproject(x, b) | place = transform.from_origin(0, 16, 1, 1);
    warp.reproject(GRAY, b, src_transform=place, dst_transform=place, **CRS); None
rasterio | ALIAS | GRAY | fill.fillnodata(b, mask)
networkx | CONST | np.array([1, 2]) | graph.has_node(b[0]) | nx.path_graph(3).has_node(b[0])
networkx | CONST | (NUMBERS[:, None] > NUMBERS).astype("f4") | nx.Graph(b) |
    nx.Graph(b).number_of_edges()
# models
onnxruntime | CONST | TABLE | session.run(None, {'x': b}) | session().run(None, {'x': b})[0]
lightgbm | ITSELF | TABLE | lgb.Dataset(b), model.predict(b) |
    lgb.train(LIGHT, lgb.Dataset(b, label=LABELS), 3).predict(b)
lightgbm | CONST | LABELS | lgb.Dataset(x, label=b) |
    lgb.train(LIGHT, lgb.Dataset(TABLE, label=b), 3).predict(TABLE)
catboost | CONST | TABLE | CatBoostRegressor().fit(b, y) |
    catboost.CatBoostRegressor(**CAT).fit(b, LABELS).predict(TABLE)
gymnasium | CONST | np.array(2) | spaces.Discrete(5).contains(b)
gymnasium | CONST | np.array([1, 2]) | spaces.MultiDiscrete(…).contains(b) |
    spaces.MultiDiscrete([3, 3]).contains(b)
# files and processes
joblib | ITSELF | NUMBERS | joblib.dump(b, file), joblib.load(file) | file = BytesIO();
    joblib.dump(b, file); file.seek(0); joblib.load(file)
joblib | ITSELF | NUMBERS | joblib.Parallel(2)(calls with b) |
    joblib.Parallel(2)([joblib.delayed(total)(b)] * 2)
h5py | ALIAS | 0 * GRAY | dataset.read_direct(b) | dataset().read_direct(b)
h5py | CONST | GRAY * 2 | dataset.write_direct(b) | written = dataset(); written.write_direct(b);
    written[()]
h5py | CONST | GRAY > 1 | dataset[b], a mask | dataset()[b]
tables | CONST | np.array([True, False]) | array[b], a mask | masked(b)
"""
CALLS = [
    Giving(module, globals()[give], eval(array), text, *code)  # noqa: S307  # the table is ours
    for module, give, array, text, *code in (
        " ".join(row.split()).split(" | ")
        for row in re.split(r"\n(?! )", TABLE_OF_CALLS.strip())
        if not row.startswith("#")
    )
]
