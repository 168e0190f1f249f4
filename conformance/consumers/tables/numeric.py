"""Libraries for numbers: Python's and NumPy's own, science, units, graphs and compilers."""

import numpy as np

from conformance.consumers.inputs import *


def numpy():
    import random

    random.shuffle(VECTOR)
    np.random.shuffle(VECTOR)
    np.random.default_rng(0).permuted(ND.IMAGE, axis=1, out=IMAGE)
    np.random.default_rng(0).choice(9, 3, p=VECTOR / VECTOR.sum())
    np.random.default_rng(0).random(out=ZEROS)
    np.random.seed(NUMBER)
    ND.IMAGE[:, INDEX] + IMAGE[:, INDEX]
    [1, 2, 3] + INDEX
    sorted(VECTOR[::-1])
    f"{SCALAR:.2f}"
    bytes(BYTES)
    np.vectorize(lambda x: x + 1)(VECTOR)
    np.ma.masked_array(IMAGE, mask=MASK).sum()
    IMAGE.tofile(TMP / "x") or (TMP / "x").read_bytes()
    IMAGE[MASK] += 1
    memoryview(IMAGE).shape
    b"".join([BYTES])


def scipy():
    from scipy import fft, integrate, io, linalg, ndimage, optimize, signal
    from scipy import sparse, stats
    from scipy.sparse import csgraph
    from scipy.sparse import linalg as sparse_linalg
    from scipy.spatial import distance, transform

    SPARSE = sparse.csr_array(MASK * 1.0)
    SQUARE = sparse.csc_array(np.diag([4.0, 5.0, 6.0, 7.0]) + np.eye(4, k=1))
    fft.fft(WAVES, overwrite_x=True)
    integrate.quad_vec(lambda x: x * VECTOR, 0, 1)[0]
    io.wavfile.write(TMP / "x.wav", 8000, AUDIO) or io.wavfile.read(TMP / "x.wav")[1]
    linalg.toeplitz(VECTOR)
    linalg.circulant(VECTOR)
    linalg.blas.daxpy(VECTOR, TIMES)
    ndimage.gaussian_filter(ND.FLOATS, 1, output=OUT)
    ndimage.map_coordinates(IMAGE, POINTS[:, :2].T * 5)
    ndimage.label(ND.BLACK, output=REGIONS)
    ndimage.binary_dilation(ND.BLACK, output=BLACK)
    ndimage.distance_transform_edt(ND.MASK, distances=ZEROS)
    optimize.minimize_scalar(lambda x: ((x - VECTOR) ** 2).sum()).x
    optimize.least_squares(lambda x: x - 1, VECTOR).x
    signal.argrelmax(SIGNAL)
    signal.detrend(SIGNAL, overwrite_data=True)
    signal.lombscargle(TIMES, VECTOR, [1.0, 2.0])
    IMAGE @ SPARSE.T
    SPARSE + IMAGE
    SPARSE[:, FLAGS]
    sparse.diags_array(VECTOR)
    sparse_linalg.splu(SQUARE).solve(VECTOR[:4])
    sparse_linalg.lsqr(SPARSE, VECTOR[:8])[0]
    sparse_linalg.svds(IMAGE, 2, v0=VECTOR[:8])[1]
    csgraph.shortest_path(ADJACENCY)
    distance.cdist(ND.MATRIX, ND.MATRIX, out=SYMMETRIC)
    transform.Rotation.from_quat(ROTATIONS).as_matrix()
    stats.ttest_ind(VECTOR, TIMES)
    stats.fisher_exact(EDGES[:2] + 1)
    stats.rv_discrete(values=(INDEX, VECTOR[:3] / VECTOR[:3].sum())).mean()


def numba():
    from numba import guvectorize, njit, vectorize

    @njit
    def total(x):
        s = 0.0
        for v in x.ravel():
            s += v
        return s

    @njit
    def fill(x):
        x[:] = 7

    @njit
    def row(x, i):
        return x[i].copy()

    @vectorize
    def add(x, y):
        return x + y

    @guvectorize(["(f8[:], f8[:], f8[:])"], "(n),(n)->(n)")
    def swap(x, y, out):
        for i in range(x.shape[0]):
            out[i] = x[i] - y[i]

    total(IMAGE.T)
    row(IMAGE, int(NUMBER))
    fill(IMAGE)
    add(VECTOR, 1.0, TIMES)
    swap(VECTOR, TIMES)
    njit(lambda x: x[0])((VECTOR, TIMES))


def sympy():
    import sympy

    X = sympy.symbols("x")
    sympy.Matrix(MATRIX.round(1)).shape
    sympy.Array(EDGES).tolist()
    sympy.lambdify(X, sympy.sin(X))(VECTOR)
    sympy.lambdify(X, X**2 + 1, "numpy")(IMAGE)
    sympy.Matrix([1, 2]).T * sympy.Matrix(INDEX[:2])
    sympy.Integer(1) + NUMBER.item()
    str(X + INDEX[1])
    str((X * INDEX)[0])
    str((INDEX * X)[0])
    sympy.Poly(INDEX.tolist(), X).all_coeffs()
    sympy.Rational(int(NUMBER), 3)


def pint():
    import pint

    U = pint.UnitRegistry()
    U.m * VECTOR
    VECTOR / U.s
    (VECTOR * U.m).to("km")
    (VECTOR * U.m) + (ND.VECTOR * U.m)
    VECTOR * (ND.VECTOR * U.m)
    VECTOR @ (ND.VECTOR * U.m)
    np.mean(VECTOR * U.m)
    (VECTOR * U.m)[2:4]
    (VECTOR * U.m).sum()
    (VECTOR * U.m).ito("cm")
    (VECTOR * U.m) > 0.3 * U.m
    np.max((ND.VECTOR * U.m)[FLAGS])


def uncertainties():
    from uncertainties import unumpy

    unumpy.nominal_values(unumpy.uarray(VECTOR, 0.1))
    unumpy.nominal_values(unumpy.uarray(ND.VECTOR, 0.1) + VECTOR)


def astropy():
    import astropy.units as u
    from astropy import convolution, cosmology, table, time, wcs
    from astropy.io import fits
    from astropy.modeling import fitting, models
    from astropy.nddata import CCDData
    from astropy.timeseries import LombScargle, TimeSeries

    u.m * VECTOR
    VECTOR << u.m
    VECTOR * (ND.VECTOR * u.m)
    (ND.VECTOR * u.m)[INDEX]
    u.Quantity([VECTOR * u.m, VECTOR * u.km])
    u.m.to(u.km, VECTOR)
    (VECTOR * u.Hz).to("m", u.spectral())
    table.Table(IMAGE).colnames
    table.Table({"a": ND.VECTOR})[FLAGS]["a"].data
    fits.CompImageHDU(FLOATS).data
    fits.writeto(TMP / "x.fits", FLOATS) or fits.getdata(TMP / "x.fits")
    convolution.convolve_fft(IMAGE, convolution.Box2DKernel(3))
    convolution.CustomKernel(VECTOR).array
    models.Gaussian1D(amplitude=SCALAR).amplitude.value
    fitting.LevMarLSQFitter()(models.Gaussian1D(), VECTOR, TIMES).mean.value
    CCDData(FLOATS, unit="adu").data
    LombScargle(TIMES, VECTOR).power([1.0, 2.0])
    wcs.WCS(naxis=2).wcs_pix2world(POINTS[:, :2], 0)
    cosmology.Planck18.comoving_distance(VECTOR)
    TimeSeries(time=time.Time(TIMES, format="mjd"), data={"a": VECTOR})["a"].value


def sparse():
    import sparse

    COO = sparse.COO.from_numpy(np.eye(9))
    sparse.COO(IMAGE)
    sparse.COO(EDGES.T, VECTOR[:4], shape=(4, 4))
    COO @ VECTOR
    IMAGE @ COO
    COO * VECTOR
    VECTOR * COO
    sparse.where(COO > 0.5, COO, SCALAR * 0)
    COO[INDEX]
    sparse.kron(COO, MATRIX)


def numexpr():
    import numexpr

    numexpr.evaluate("a + 1", {"a": IMAGE})
    numexpr.evaluate("a + 1", {"a": ND.IMAGE}, out=ZEROS)
    numexpr.NumExpr("2 * a")(VECTOR)


def bottleneck():
    import bottleneck as bn

    bn.nanmean(WITH_NANS)
    bn.replace(WITH_NANS, np.nan, 0)


def dask():
    import dask.array as da

    da.from_array(IMAGE).sum().compute()
    (da.from_array(IMAGE, chunks=4) + 1).compute()
    (da.ones((8, 9)) + IMAGE).compute()
    (IMAGE + da.ones((8, 9))).compute()
    da.ones((9, 9))[INDEX].compute()
    da.where(MASK, da.ones((8, 9)), 0).compute()


def networkx():
    import networkx as nx

    PATH = nx.path_graph(5)
    sorted(nx.from_numpy_array(ADJACENCY).edges)
    sorted(nx.from_edgelist(EDGES.tolist()).nodes)
    nx.Graph(ADJACENCY).number_of_edges()
    PATH.has_edge(INDEX[0], INDEX[1])
    PATH.degree(INDEX[0])
    nx.shortest_path(PATH, INDEX[1], INDEX[0])
    nx.rescale_layout(POINTS)


def statsmodels():
    import statsmodels.api as sm

    sm.OLS(TARGET, SAMPLES).fit().params
    sm.WLS(TARGET, SAMPLES, weights=POSITIVE[:, 0]).fit().params
    sm.nonparametric.KDEUnivariate(SIGNAL).fit().density
    sm.tsa.ExponentialSmoothing(SIGNAL).fit().fittedvalues


def pywavelets():
    import pywt

    pywt.dwt(SIGNAL, "db2")
    pywt.dwt2(IMAGE, "haar")
    pywt.swt(SIGNAL, "haar", level=1)


def cvxpy():
    import cvxpy as cp

    X = cp.Variable(4)

    def solved(objective, constraints=()):
        cp.Problem(objective, list(constraints)).solve(solver=cp.CLARABEL)
        return X.value.round(4)

    solved(cp.Minimize(VECTOR[:4] @ X), [X >= 1])
    cp.Parameter(9, value=VECTOR).value


def lmfit():
    import lmfit

    MODEL = lmfit.models.LinearModel()
    MODEL.guess(TIMES, x=VECTOR)["slope"].value
    MODEL.eval(x=VECTOR, slope=2, intercept=1)
    lmfit.minimize(lambda p, x: p["a"] * x - 1, lmfit.create_params(a=1), args=(VECTOR,)).residual


def emcee():
    import emcee

    SAMPLER = emcee.EnsembleSampler(10, 4, lambda x: -0.5 * (x**2).sum())
    emcee.autocorr.integrated_time(SIGNAL, quiet=True)
    SAMPLER.run_mcmc(OTHER_SAMPLES, 2).coords.shape


def boost_histogram():
    import boost_histogram as bh

    bh.axis.Regular(4, 0, 1).index(VECTOR)
    bh.numpy.histogram(SIGNAL, bins=4)


def awkward():
    import awkward as ak

    ak.from_numpy(IMAGE).tolist()
    (ak.Array([1.0, 2.0, 3.0]) + VECTOR[:3]).tolist()
    ak.Array(list(range(9)))[INDEX].tolist()
    ak.unflatten(VECTOR, INDEX * 3).tolist()


def shapely():
    import shapely

    BOX = shapely.box(0, 0, 1, 1)
    shapely.Point(POINTS[0]).wkt
    shapely.LineString(POINTS[:, :2]).length
    shapely.MultiPoint(POINTS).bounds
    shapely.linestrings(POINTS[None])[0].wkt
    shapely.affinity.translate(BOX, SCALAR).bounds


def pyproj():
    import pyproj

    T = pyproj.Transformer.from_crs(4326, 3857)
    T.transform(VECTOR, TIMES)
    T.transform(VECTOR, TIMES, inplace=True)


def einops():
    """Calls of einops: its array API functions, and its own functions."""

    import einops
    from einops import array_api
    import syncblob.integrations.einops

    array_api.pack([CUBE, CUBE[:, 0]], "a * c")[0]
    array_api.rearrange([CUBE, CUBE], "n a b c -> a n b c")
    array_api.reduce(CUBE, "a (b 3) c -> a b", "max")
    array_api.reduce(CUBE, "a b c -> b", "mean")
    array_api.repeat(CUBE, "a b c -> a (b r) c", r=2)
    einops.asnumpy(CUBE)
    einops.einsum(MATRIX, SYMMETRIC, "i j, j k -> i k")
    einops.pack([CUBE, CUBE[:, 0]], "a * c")[0]
    einops.parse_shape(CUBE, "a _ c")
    einops.rearrange([CUBE, CUBE], "n a b c -> a n b c")
    einops.reduce(CUBE, "a b c -> b", "mean")
    einops.repeat(CUBE, "a b c -> a (b r) c", r=2)
