"""Libraries that compute with the functions of any array library. Blobs should come out."""

import os
import pickle

import numpy as np

from conformance.consumers.inputs import *

# SciPy reads it once, when it is imported, and scikit-learn requires it for dispatching.
os.environ["SCIPY_ARRAY_API"] = "1"
EXPECTS_BLOBS = True


def array_api_extra():
    """Calls of array-api-extra: all its public functions."""

    import array_api_extra as xpx

    COMPLEX = VECTOR * np.exp(1j * VECTOR)
    PLACES = np.asarray([5, 2, 7])
    xpx.angle(COMPLEX)
    xpx.apply_where(MASK, (IMAGE, IMAGE + 1.0), lambda a, b: a * b, lambda a, b: a - b)
    xpx.apply_where(MASK, IMAGE, lambda a: -a, fill_value=0.0)
    xpx.argpartition(VECTOR[::-1].copy(), 0)[:1]
    xpx.at(VECTOR, PLACES).add(1.0)
    xpx.at(VECTOR)[2:5].max(0.5)
    xpx.at(IMAGE, MASK).multiply(2.0)
    xpx.at(VECTOR)[2:5].set(0.0, copy=True)
    xpx.broadcast_shapes(IMAGE.shape, (1, 9))
    xpx.cov(SAMPLES.T)
    xpx.create_diagonal(VECTOR)
    str(xpx.default_dtype(VECTOR.__array_namespace__()))
    xpx.deg2rad(VECTOR)
    xpx.isclose(VECTOR, VECTOR + 1e-12)
    xpx.isin(INTEGERS, PLACES)
    xpx.kron(MATRIX, SYMMETRIC)
    xpx.lazy_apply(np.sort, VECTOR, as_numpy=True, shape=VECTOR.shape, dtype=VECTOR.dtype)
    xpx.nan_to_num(WITH_NANS)
    xpx.nanmax(WITH_NANS, axis=0)
    xpx.nanmean(WITH_NANS, axis=0)
    xpx.nanmin(WITH_NANS, axis=0)
    xpx.nunique(INTEGERS)
    xpx.one_hot(INTEGERS, 8)
    xpx.pad(CUBE, 2, constant_values=-1.0)
    xpx.pad(CUBE, ((0, 1), (2, 0), (0, 0)))
    xpx.partition(VECTOR[::-1].copy(), 0)[:1]
    xpx.rad2deg(VECTOR)
    xpx.searchsorted(VECTOR, VECTOR + 0.01, side="right")
    xpx.setdiff1d(INTEGERS, PLACES)
    xpx.sinc(VECTOR)
    xpx.testing.assert_close(VECTOR, VECTOR)
    xpx.tril_indices(4, xp=VECTOR.__array_namespace__())
    xpx.triu_indices(4, xp=VECTOR.__array_namespace__())
    xpx.union1d(INTEGERS, PLACES)
    xpx.unravel_index(INTEGERS, (2, 4))


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


def scipy():
    """Calls of SciPy's functions for arrays of any library, with ``SCIPY_ARRAY_API=1``."""

    from scipy import differentiate, fft, integrate, interpolate, linalg, ndimage, optimize, signal, special, stats
    from scipy.cluster import hierarchy
    from scipy.optimize import elementwise
    from scipy.spatial.transform import Rotation

    COLUMN = SAMPLES[:, 0]
    OTHER_COLUMN = SAMPLES[:, 1]
    LINKAGE = hierarchy.linkage(SAMPLES, "average")
    ZEROS, ONES, TWOS, KNOTS = np.zeros(2), np.ones(2), np.full(2, 2.0), np.arange(9.0)
    WHERE, BANDS, CUTOFF = (np.array([[1.5, 2.5], [3.25, 4.0]]), np.array([0.0, 0.5, 1.0]), np.array(0.2))
    NUMERATOR, DENOMINATOR = signal.butter(3, 0.2)
    SECTIONS = signal.butter(4, 0.2, output="sos")
    TAPS = signal.firwin(9, 0.3)
    hierarchy.cophenet(LINKAGE)
    hierarchy.is_valid_linkage(LINKAGE)
    differentiate.hessian(optimize.rosen, VECTOR).ddf
    integrate.cubature(lambda x: x[:, 0] ** 2 * x[:, 1], ZEROS, ONES).estimate
    integrate.cumulative_simpson(SIGNAL, dx=0.5)
    integrate.romb(VECTOR)
    integrate.simpson(VECTOR, TIMES)
    integrate.tanhsinh(lambda x: x**2, VECTOR, VECTOR + 1.0).integral
    elementwise.find_minimum(lambda x: (x - 0.5) ** 2, (VECTOR - 1, VECTOR, VECTOR + 2)).x
    optimize.rosen_der(VECTOR)
    fft.fft(SIGNAL)
    fft.fft2(IMAGE)
    fft.fftfreq(8, xp=SIGNAL.__array_namespace__())
    fft.fftn(CUBE)
    fft.fftshift(SIGNAL)
    fft.hfft(SIGNAL)
    fft.ifft(SIGNAL + 1j)
    fft.rfftn(IMAGE)
    interpolate.Akima1DInterpolator(TIMES, VECTOR)(TIMES[:-1] + 0.1)
    interpolate.RBFInterpolator(SAMPLES, TARGET)(SAMPLES[:5] + 0.1)
    linalg.cholesky(SYMMETRIC)
    ndimage.distance_transform_edt(MASK)
    ndimage.label(MASK)
    signal.butter(3, CUTOFF)
    signal.envelope(SIGNAL)
    signal.firwin2(9, BANDS, BANDS[::-1])
    signal.freqz(NUMERATOR, DENOMINATOR)
    signal.hilbert(SIGNAL)
    signal.lfilter(NUMERATOR, DENOMINATOR, SIGNAL)
    signal.oaconvolve(SIGNAL, TAPS)
    signal.savgol_filter(SIGNAL, 5, 2)
    signal.sosfilt(SECTIONS, SIGNAL)
    signal.wiener(SIGNAL)
    Rotation.from_quat(ROTATIONS).as_euler("xyz")
    Rotation.from_quat(ROTATIONS).mean().as_matrix()
    special.logsumexp(SAMPLES, axis=1)
    stats.bartlett(COLUMN, OTHER_COLUMN)
    stats.circmean(POSITIVE)
    stats.describe(SAMPLES)
    stats.iqr(SAMPLES)
    stats.levene(COLUMN, OTHER_COLUMN)
    stats.mannwhitneyu(COLUMN, OTHER_COLUMN)
    (stats.pearsonr(TARGET, PREDICTED).statistic, stats.pearsonr(TARGET, PREDICTED).pvalue)
    stats.sem(SAMPLES)
    tuple(stats.ttest_ind(COLUMN, OTHER_COLUMN))
    stats.variation(POSITIVE)
    tuple(stats.wilcoxon(COLUMN, OTHER_COLUMN))


def scikit_learn():
    """Calls of scikit-learn with ``array_api_dispatch=True``."""

    import sklearn
    from sklearn import metrics
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeCV
    from sklearn.metrics import pairwise
    from sklearn.mixture import GaussianMixture
    from sklearn.model_selection import cross_val_score
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler, scale

    sklearn.set_config(array_api_dispatch=True)
    POSITIVE_TARGET, POSITIVE_PREDICTED = POSITIVE[:, 0], POSITIVE[:, 1]

    def _fitted(estimator, attribute, *data):
        """Fit an estimator and return an attribute of it."""
        return getattr(sklearn.clone(estimator).fit(*data), attribute)

    def _predicted(estimator, method, *data):
        """Fit an estimator and return the result of a method for the same samples."""
        fitted = sklearn.clone(estimator).fit(*data)
        return getattr(fitted, method)(data[0])

    _mixture = GaussianMixture(3, init_params="random_from_data", random_state=0)
    _pipeline = make_pipeline(StandardScaler(), PCA(2), Ridge(solver="svd"))
    _logistic = LogisticRegression(solver="lbfgs")
    _predicted(CalibratedClassifierCV(LinearDiscriminantAnalysis(), method="temperature", cv=3), "predict_proba", SAMPLES, CLASSES)
    _predicted(PCA(2, svd_solver="randomized", random_state=0), "transform", SAMPLES)
    _predicted(PCA(2, whiten=True, svd_solver="covariance_eigh"), "transform", SAMPLES)
    _predicted(Nystroem(n_components=6, random_state=0), "transform", SAMPLES)
    _predicted(LinearRegression(), "predict", SAMPLES, TARGET)
    _predicted(_logistic, "predict", SAMPLES, CLASSES)
    _predicted(RidgeCV(), "predict", SAMPLES, TARGET)
    _fitted(_mixture, "means_", CLUSTERED)
    _predicted(GaussianNB(), "predict_proba", SAMPLES, CLASSES)
    _predicted(_pipeline, "predict", SAMPLES, TARGET)
    metrics.accuracy_score(CLASSES, PREDICTED_CLASSES)
    metrics.brier_score_loss(BINARY, SCORES)
    metrics.det_curve(BINARY, SCORES)
    metrics.f1_score(BINARY, PREDICTED_BINARY)
    metrics.log_loss(BINARY, SCORES)
    metrics.precision_recall_curve(BINARY, SCORES)
    metrics.roc_auc_score(BINARY, SCORES)
    pairwise.sigmoid_kernel(SAMPLES, OTHER_SAMPLES)
    cross_val_score(Ridge(solver="svd"), SAMPLES, TARGET, cv=3)
    _predicted(MinMaxScaler(), "transform", SAMPLES)
    _predicted(PolynomialFeatures(), "transform", SAMPLES)
    scale(SAMPLES)


def xarray():
    """Calls of xarray on arrays that hold Blobs."""

    import xarray as xr

    def _array(data):
        """Name the axes of an image, with coordinates for one of them."""
        return xr.DataArray(data, dims=("y", "x"), coords={"x": np.arange(data.shape[1])})

    _array(IMAGE) + _array(IMAGE).isel(y=0)
    _array(IMAGE).astype("float32")
    _array(IMAGE)[0].broadcast_like(_array(IMAGE))
    _array(IMAGE).clip(0.25, 0.75)
    _array(IMAGE).coarsen(x=3).mean()
    _array(IMAGE).copy(deep=True)
    _array(IMAGE).dot(_array(IMAGE), dim="y")
    _array(WITH_NANS).fillna(0.0)
    _array(IMAGE).groupby("x").mean()
    _array(IMAGE).quantile(0.5, "y")
    _array(IMAGE).roll(x=2)
    _array(IMAGE).rolling(x=3).sum()
    _array(IMAGE).stack(z=("x", "y"))
    _array(IMAGE).std(skipna=False, ddof=1)
    _array(IMAGE).var("y", skipna=False)
    _array(IMAGE.astype(np.float32)).where(_array(MASK))
    xr.Dataset({"a": _array(IMAGE), "b": _array(IMAGE) * 2}).mean()
    xr.Variable(("a", "b", "c"), CUBE).sum("b")
    xr.apply_ufunc(np.exp, _array(IMAGE))
    xr.zeros_like(_array(IMAGE))
