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
    xpx.at(VECTOR)[2:5].set(0.0)
    xpx.at(VECTOR)[2:5].set(0.0, copy=True)
    xpx.atleast_nd(IMAGE, ndim=3)
    xpx.broadcast_shapes(IMAGE.shape, (1, 9))
    xpx.cov(SAMPLES.T)
    xpx.create_diagonal(VECTOR)
    xpx.create_diagonal(VECTOR, offset=-1)
    str(xpx.default_dtype(VECTOR.__array_namespace__()))
    xpx.deg2rad(VECTOR)
    xpx.diag_indices(4, xp=VECTOR.__array_namespace__())
    xpx.expand_dims(IMAGE, axis=(0, 2))
    xpx.isclose(VECTOR, VECTOR + 1e-12)
    xpx.isin(INTEGERS, PLACES)
    xpx.kron(MATRIX, SYMMETRIC)
    xpx.lazy_apply(np.sort, VECTOR, as_numpy=True, shape=VECTOR.shape, dtype=VECTOR.dtype)
    xpx.nan_to_num(WITH_NANS)
    xpx.nanmax(WITH_NANS, axis=0)
    xpx.nanmean(WITH_NANS, axis=0)
    xpx.nanmin(WITH_NANS, axis=0)
    xpx.nansum(WITH_NANS, axis=0)
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
    xpx.testing.assert_equal(VECTOR, VECTOR)
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
    array_api.rearrange(CUBE, "a b c -> c (a b)")
    array_api.rearrange([CUBE, CUBE], "n a b c -> a n b c")
    array_api.reduce(CUBE, "a (b 3) c -> a b", "max")
    array_api.reduce(CUBE, "a b c -> b", "mean")
    array_api.repeat(CUBE, "a b c -> a (b r) c", r=2)
    array_api.unpack(CUBE, [(2,), ()], "a * c")
    einops.asnumpy(CUBE)
    einops.einsum(MATRIX, SYMMETRIC, "i j, j k -> i k")
    einops.pack([CUBE, CUBE[:, 0]], "a * c")[0]
    einops.parse_shape(CUBE, "a _ c")
    einops.rearrange(CUBE, "a b c -> c (a b)")
    einops.rearrange([CUBE, CUBE], "n a b c -> a n b c")
    einops.reduce(CUBE, "a b c -> b", "mean")
    einops.reduce(CUBE, "a b c -> a c", "prod")
    einops.repeat(CUBE, "a b c -> a (b r) c", r=2)
    einops.unpack(CUBE, [(2,), ()], "a * c")


def scipy():
    """Calls of SciPy's functions for arrays of any library, with ``SCIPY_ARRAY_API=1``."""
    from scipy import constants, differentiate, fft, integrate, interpolate, linalg, ndimage, optimize, signal, special, stats
    from scipy.cluster import hierarchy, vq
    from scipy.optimize import elementwise
    from scipy.spatial.transform import Rotation

    COLUMN = SAMPLES[:, 0]
    OTHER_COLUMN = SAMPLES[:, 1]
    COUNTS = np.asarray([16.0, 18.0, 16.0, 14.0, 12.0, 12.0])
    LINKAGE = hierarchy.linkage(SAMPLES, "average")
    ZEROS, ONES, TWOS, KNOTS = np.zeros(2), np.ones(2), np.full(2, 2.0), np.arange(9.0)
    WHERE, BANDS, CUTOFF = (np.array([[1.5, 2.5], [3.25, 4.0]]), np.array([0.0, 0.5, 1.0]), np.array(0.2))
    NUMERATOR, DENOMINATOR = signal.butter(3, 0.2)
    SECTIONS = signal.butter(4, 0.2, output="sos")
    TAPS = signal.firwin(9, 0.3)
    hierarchy.cophenet(LINKAGE)
    hierarchy.fcluster(LINKAGE, 3, criterion="maxclust")
    hierarchy.inconsistent(LINKAGE)
    hierarchy.is_valid_linkage(LINKAGE)
    hierarchy.leaves_list(LINKAGE)
    hierarchy.linkage(SAMPLES, "ward")
    vq.kmeans2(SAMPLES, SAMPLES[:3], minit="matrix")
    vq.vq(SAMPLES, SAMPLES[:3])
    vq.whiten(SAMPLES)
    constants.convert_temperature(VECTOR, "C", "K")
    constants.lambda2nu(VECTOR)
    differentiate.derivative(lambda t: t**3, VECTOR).df
    differentiate.hessian(optimize.rosen, VECTOR).ddf
    differentiate.jacobian(lambda t: t**2, VECTOR).df
    integrate.cubature(lambda x: x[:, 0] ** 2 * x[:, 1], ZEROS, ONES).estimate
    integrate.cumulative_simpson(SIGNAL, dx=0.5)
    integrate.cumulative_trapezoid(VECTOR, TIMES)
    integrate.romb(VECTOR)
    integrate.simpson(VECTOR, TIMES)
    integrate.tanhsinh(lambda x: x**2, VECTOR, VECTOR + 1.0).integral
    integrate.trapezoid(VECTOR, TIMES)
    elementwise.find_minimum(lambda x: (x - 0.5) ** 2, (VECTOR - 1, VECTOR, VECTOR + 2)).x
    elementwise.find_root(lambda x: x**2 - 2.0, (ZEROS, TWOS)).x
    optimize.rosen(VECTOR)
    optimize.rosen_der(VECTOR)
    fft.dct(SIGNAL)
    fft.fft(SIGNAL)
    fft.fft2(IMAGE)
    fft.fftfreq(8, xp=SIGNAL.__array_namespace__())
    fft.fftn(CUBE)
    fft.fftshift(SIGNAL)
    fft.fht(SIGNAL, dln=0.1, mu=2.0)
    fft.hfft(SIGNAL)
    fft.idctn(IMAGE)
    fft.ifft(SIGNAL + 1j)
    fft.irfft(SIGNAL + 1j)
    fft.rfft(SIGNAL)
    fft.rfftn(IMAGE)
    interpolate.Akima1DInterpolator(TIMES, VECTOR)(TIMES[:-1] + 0.1)
    interpolate.BSpline(KNOTS, KNOTS[:6], 2)(KNOTS[2:6])
    interpolate.CubicSpline(TIMES, VECTOR)(TIMES[:-1] + 0.1)
    interpolate.make_interp_spline(TIMES, VECTOR)(TIMES[:-1] + 0.1)
    interpolate.PchipInterpolator(TIMES, VECTOR)(TIMES[:-1] + 0.1)
    interpolate.RBFInterpolator(SAMPLES, TARGET)(SAMPLES[:5] + 0.1)
    interpolate.RegularGridInterpolator((KNOTS[:8], KNOTS), IMAGE)(WHERE)
    linalg.block_diag(MATRIX, SYMMETRIC)
    linalg.cholesky(SYMMETRIC)
    linalg.det(MATRIX)
    linalg.eigh(SYMMETRIC)
    linalg.expm(MATRIX)
    linalg.fiedler(VECTOR)
    linalg.inv(MATRIX)
    linalg.lu(MATRIX)
    linalg.norm(MATRIX)
    linalg.orthogonal_procrustes(MATRIX, SYMMETRIC)
    linalg.qr(MATRIX)
    linalg.solve(MATRIX, SYMMETRIC)
    linalg.svd(MATRIX)
    ndimage.binary_dilation(MASK)
    ndimage.center_of_mass(IMAGE)
    ndimage.convolve(IMAGE, SYMMETRIC)
    ndimage.distance_transform_edt(MASK)
    ndimage.fourier_gaussian(IMAGE + 0j, 1.5)
    ndimage.gaussian_filter(IMAGE, 1.5)
    ndimage.grey_opening(IMAGE, size=3)
    ndimage.label(MASK)
    ndimage.map_coordinates(IMAGE, WHERE)
    ndimage.median_filter(IMAGE, size=3)
    ndimage.rotate(IMAGE, 30.0)
    ndimage.sobel(IMAGE)
    ndimage.sum_labels(IMAGE, MASK.astype(np.int64), 1)
    ndimage.zoom(IMAGE, 1.5)
    signal.butter(3, CUTOFF)
    signal.convolve(SIGNAL, TAPS)
    signal.correlate(SIGNAL, TAPS)
    signal.detrend(SIGNAL)
    signal.envelope(SIGNAL)
    signal.fftconvolve(SIGNAL, TAPS)
    signal.filtfilt(NUMERATOR, DENOMINATOR, SIGNAL)
    signal.firwin2(9, BANDS, BANDS[::-1])
    signal.freqz(NUMERATOR, DENOMINATOR)
    signal.hilbert(SIGNAL)
    signal.lfilter(NUMERATOR, DENOMINATOR, SIGNAL)
    signal.medfilt(SIGNAL)
    signal.oaconvolve(SIGNAL, TAPS)
    signal.resample(SIGNAL, 20)
    signal.resample_poly(SIGNAL, 3, 2)
    signal.savgol_filter(SIGNAL, 5, 2)
    signal.sosfilt(SECTIONS, SIGNAL)
    signal.sosfiltfilt(SECTIONS, SIGNAL)
    signal.upfirdn(TAPS, SIGNAL, 2)
    signal.wiener(SIGNAL)
    signal.windows.hann(8, xp=SIGNAL.__array_namespace__())
    signal.zpk2tf(VECTOR[:2], VECTOR[4:7], 2.0)
    Rotation.from_quat(ROTATIONS).apply(SAMPLES[:5, :3])
    Rotation.from_quat(ROTATIONS).as_matrix()
    Rotation.from_quat(ROTATIONS).as_euler("xyz")
    Rotation.from_quat(ROTATIONS).mean().as_matrix()
    special.betainc(VECTOR, VECTOR, VECTOR)
    special.entr(VECTOR)
    special.erf(VECTOR)
    special.expit(VECTOR)
    special.gamma(VECTOR)
    special.gammainc(VECTOR, VECTOR)
    special.gammaln(VECTOR)
    special.i0(VECTOR)
    special.j1(VECTOR)
    special.logit(VECTOR)
    special.logsumexp(SAMPLES, axis=1)
    special.ndtr(VECTOR)
    special.ndtri(VECTOR)
    special.rel_entr(VECTOR, VECTOR[::-1])
    special.softmax(SAMPLES, axis=1)
    special.xlogy(VECTOR, VECTOR)
    special.zeta(VECTOR + 2.0, VECTOR)
    stats.bartlett(COLUMN, OTHER_COLUMN)
    stats.chisquare(COUNTS)
    stats.circmean(POSITIVE)
    stats.combine_pvalues(VECTOR)
    stats.describe(SAMPLES)
    stats.differential_entropy(COLUMN)
    stats.directional_stats(SAMPLES).mean_direction
    stats.entropy(POSITIVE)
    stats.f_oneway(COLUMN, OTHER_COLUMN)
    stats.gmean(POSITIVE)
    stats.gzscore(POSITIVE)
    stats.iqr(SAMPLES)
    stats.kendalltau(COLUMN, OTHER_COLUMN)
    stats.kruskal(COLUMN, OTHER_COLUMN)
    stats.kstat(COLUMN)
    stats.kurtosis(SAMPLES)
    stats.levene(COLUMN, OTHER_COLUMN)
    stats.mannwhitneyu(COLUMN, OTHER_COLUMN)
    stats.median_abs_deviation(SAMPLES)
    stats.moment(SAMPLES, 3)
    stats.normaltest(SAMPLES)
    (stats.pearsonr(TARGET, PREDICTED).statistic, stats.pearsonr(TARGET, PREDICTED).pvalue)
    stats.quantile(SAMPLES, VECTOR[:4])
    stats.rankdata(SAMPLES)
    stats.sem(SAMPLES)
    stats.skew(SAMPLES)
    stats.skew(WITH_NANS)
    stats.tmean(COLUMN, (-1.0, 1.0))
    stats.trim_mean(SAMPLES, 0.1)
    tuple(stats.ttest_1samp(SAMPLES, 0.0))
    tuple(stats.ttest_ind(COLUMN, OTHER_COLUMN))
    stats.variation(POSITIVE)
    tuple(stats.wilcoxon(COLUMN, OTHER_COLUMN))
    stats.zscore(SAMPLES)


def scikit_learn():
    """Calls of scikit-learn with ``array_api_dispatch=True``."""
    import sklearn
    from sklearn import metrics
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeCV
    from sklearn.metrics import cluster, pairwise
    from sklearn.mixture import GaussianMixture
    from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, train_test_split
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import (
        Binarizer,
        KernelCenterer,
        LabelBinarizer,
        LabelEncoder,
        MaxAbsScaler,
        MinMaxScaler,
        Normalizer,
        PolynomialFeatures,
        StandardScaler,
        maxabs_scale,
        minmax_scale,
        normalize,
        scale,
    )
    from sklearn.utils import extmath, resample, shuffle

    sklearn.set_config(array_api_dispatch=True)
    POSITIVE_TARGET, POSITIVE_PREDICTED = POSITIVE[:, 0], POSITIVE[:, 1]

    def _fitted(estimator, attribute, *data):
        """Fit an estimator and return an attribute of it."""
        return getattr(sklearn.clone(estimator).fit(*data), attribute)

    def _predicted(estimator, method, *data):
        """Fit an estimator and return the result of a method for the same samples."""
        fitted = sklearn.clone(estimator).fit(*data)
        return getattr(fitted, method)(data[0])

    def _predicted_by_pickled(estimator, *data):
        """Fit an estimator and return the prediction of a pickled and unpickled copy."""
        fitted = sklearn.clone(estimator).fit(*data)
        return pickle.loads(pickle.dumps(fitted)).predict(data[0])

    def _transformed_back(estimator, *data):
        """Fit a transformer and return the samples after transform and inverse transform."""
        fitted = sklearn.clone(estimator).fit(*data)
        return fitted.inverse_transform(fitted.transform(data[0]))

    _mixture = GaussianMixture(3, init_params="random_from_data", random_state=0)
    _pipeline = make_pipeline(StandardScaler(), PCA(2), Ridge(solver="svd"))
    _logistic = LogisticRegression(solver="lbfgs")
    _predicted(CalibratedClassifierCV(LinearDiscriminantAnalysis(), method="temperature", cv=3), "predict_proba", SAMPLES, CLASSES)
    _fitted(PCA(2), "components_", SAMPLES)
    _transformed_back(PCA(2), SAMPLES)
    _predicted(PCA(2, svd_solver="randomized", random_state=0), "transform", SAMPLES)
    _predicted(PCA(2), "transform", SAMPLES)
    _predicted(PCA(2, whiten=True, svd_solver="covariance_eigh"), "transform", SAMPLES)
    _predicted(LinearDiscriminantAnalysis(), "predict", CLUSTERED, CLASSES)
    _predicted(LinearDiscriminantAnalysis(), "predict_proba", CLUSTERED, CLASSES)
    _predicted(Nystroem(n_components=6, random_state=0), "transform", SAMPLES)
    _predicted(LinearRegression(), "predict", SAMPLES, TARGET)
    _fitted(_logistic, "coef_", SAMPLES, CLASSES)
    _predicted(_logistic, "predict", SAMPLES, CLASSES)
    _fitted(Ridge(solver="svd"), "coef_", SAMPLES, TARGET)
    _predicted(Ridge(solver="svd"), "predict", SAMPLES, TARGET)
    _predicted(RidgeCV(), "predict", SAMPLES, TARGET)
    _fitted(_mixture, "means_", CLUSTERED)
    _predicted(_mixture, "score_samples", CLUSTERED)
    _predicted(GaussianNB(), "predict", SAMPLES, CLASSES)
    _predicted(GaussianNB(), "predict_proba", SAMPLES, CLASSES)
    _predicted(_pipeline, "predict", SAMPLES, TARGET)
    _predicted_by_pickled(_pipeline, SAMPLES, TARGET)
    metrics.accuracy_score(CLASSES, PREDICTED_CLASSES)
    metrics.average_precision_score(BINARY, SCORES)
    metrics.balanced_accuracy_score(CLASSES, PREDICTED_CLASSES)
    metrics.brier_score_loss(BINARY, SCORES)
    metrics.calinski_harabasz_score(SAMPLES, CLASSES)
    cluster.entropy(CLASSES)
    metrics.confusion_matrix(CLASSES, PREDICTED_CLASSES)
    metrics.d2_tweedie_score(TARGET, PREDICTED)
    metrics.det_curve(BINARY, SCORES)
    metrics.explained_variance_score(TARGET, PREDICTED)
    metrics.f1_score(BINARY, PREDICTED_BINARY)
    metrics.hamming_loss(BINARY, PREDICTED_BINARY)
    metrics.log_loss(BINARY, SCORES)
    metrics.max_error(TARGET, PREDICTED)
    metrics.mean_absolute_error(TARGET, PREDICTED)
    metrics.mean_gamma_deviance(POSITIVE_TARGET, POSITIVE_PREDICTED)
    metrics.mean_squared_error(TARGET, PREDICTED)
    metrics.mean_squared_error(SAMPLES, POSITIVE, multioutput="raw_values")
    metrics.median_absolute_error(TARGET, PREDICTED)
    metrics.multilabel_confusion_matrix(CLASSES, PREDICTED_CLASSES)
    metrics.precision_recall_curve(BINARY, SCORES)
    metrics.precision_score(CLASSES, PREDICTED_CLASSES, average=None)
    metrics.r2_score(TARGET, PREDICTED)
    metrics.recall_score(BINARY, PREDICTED_BINARY)
    metrics.roc_auc_score(BINARY, SCORES)
    metrics.roc_curve(BINARY, SCORES)
    metrics.roc_curve(BINARY, SCORES, drop_intermediate=False)
    metrics.zero_one_loss(CLASSES, PREDICTED_CLASSES)
    pairwise.additive_chi2_kernel(POSITIVE)
    pairwise.chi2_kernel(POSITIVE)
    pairwise.cosine_similarity(SAMPLES, OTHER_SAMPLES)
    pairwise.euclidean_distances(SAMPLES, OTHER_SAMPLES)
    pairwise.laplacian_kernel(SAMPLES, OTHER_SAMPLES)
    pairwise.linear_kernel(SAMPLES, OTHER_SAMPLES)
    pairwise.paired_cosine_distances(SAMPLES, POSITIVE)
    pairwise.pairwise_distances(SAMPLES, OTHER_SAMPLES, metric="euclidean")
    pairwise.polynomial_kernel(SAMPLES, OTHER_SAMPLES)
    pairwise.rbf_kernel(SAMPLES, OTHER_SAMPLES)
    pairwise.sigmoid_kernel(SAMPLES, OTHER_SAMPLES)
    _predicted(GridSearchCV(Ridge(solver="svd"), {"alpha": [0.1, 1.0]}, cv=3), "predict", SAMPLES, TARGET)
    cross_val_predict(Ridge(solver="svd"), SAMPLES, TARGET, cv=3)
    cross_val_score(Ridge(solver="svd"), SAMPLES, TARGET, cv=3)
    train_test_split(SAMPLES, TARGET, random_state=0)
    _predicted(Binarizer(threshold=0.5), "transform", SAMPLES)
    _predicted(KernelCenterer(), "transform", SYMMETRIC)
    LabelBinarizer().fit_transform(CLASSES)
    _transformed_back(LabelEncoder(), CLASSES)
    LabelEncoder().fit_transform(CLASSES)
    _predicted(MaxAbsScaler(), "transform", SAMPLES)
    _predicted(MinMaxScaler(), "transform", SAMPLES)
    _predicted(Normalizer(), "transform", SAMPLES)
    _predicted(PolynomialFeatures(), "transform", SAMPLES)
    _predicted(StandardScaler(), "transform", SAMPLES)
    _transformed_back(StandardScaler(), SAMPLES)
    maxabs_scale(SAMPLES)
    minmax_scale(SAMPLES)
    normalize(SAMPLES, norm="l1")
    scale(SAMPLES)
    extmath.randomized_range_finder(SAMPLES, size=3, n_iter=2, random_state=0)
    extmath.randomized_svd(SAMPLES, n_components=2, random_state=0)
    resample(SAMPLES, random_state=0)
    shuffle(SAMPLES, random_state=0)


def xarray():
    """Calls of xarray on arrays that hold Blobs."""
    import xarray as xr

    def _array(data):
        """Name the axes of an image, with coordinates for one of them."""
        return xr.DataArray(data, dims=("y", "x"), coords={"x": np.arange(data.shape[1])})

    _array(IMAGE)
    _array(IMAGE) + _array(IMAGE).isel(y=0)
    _array(IMAGE).T
    _array(IMAGE).argmax("x")
    _array(IMAGE).astype("float32")
    _array(IMAGE)[0].broadcast_like(_array(IMAGE))
    _array(IMAGE).clip(0.25, 0.75)
    _array(IMAGE).coarsen(x=3).mean()
    _array(IMAGE).copy(deep=True)
    _array(IMAGE).cumprod("x", skipna=False)
    _array(IMAGE).cumsum("x")
    _array(IMAGE).cumsum("x", skipna=False)
    _array(IMAGE).differentiate("x")
    _array(IMAGE).dot(_array(IMAGE), dim="y")
    _array(WITH_NANS).fillna(0.0)
    _array(IMAGE).groupby("x").mean()
    _array(IMAGE).isel(x=slice(1, 6, 2), y=3)
    _array(WITH_NANS).isnull()
    _array(IMAGE).max()
    _array(IMAGE).mean("y")
    _array(WITH_NANS).mean("y", skipna=True)
    _array(IMAGE).median("y")
    _array(IMAGE).median("y", skipna=False)
    _array(IMAGE).pad(y=1)
    _array(IMAGE).quantile(0.5, "y")
    _array(IMAGE).quantile(0.5, skipna=False)
    _array(IMAGE).roll(x=2)
    _array(IMAGE).rolling(x=3).sum()
    _array(IMAGE).sel(x=[1, 3])
    _array(IMAGE).shift(x=2)
    _array(IMAGE).sortby("x", ascending=False)
    _array(IMAGE).stack(z=("x", "y"))
    _array(IMAGE).std("y")
    _array(IMAGE).std(skipna=False, ddof=1)
    _array(IMAGE).sum("y", skipna=False)
    _array(IMAGE).var("y", skipna=False)
    _array(IMAGE).where(_array(MASK))
    _array(IMAGE.astype(np.float32)).where(_array(MASK))
    xr.Dataset({"a": _array(IMAGE), "b": _array(IMAGE) * 2}).mean()
    xr.NamedArray(("a", "b", "c"), CUBE).permute_dims("c", "a", "b")
    xr.Variable(("a", "b", "c"), CUBE).sum("b")
    xr.apply_ufunc(np.exp, _array(IMAGE))
    xr.concat([_array(IMAGE), _array(IMAGE)], "y")
    xr.cross(_array(IMAGE)[:, :3], _array(IMAGE)[:, :3], dim="x")
    xr.where(_array(MASK), _array(IMAGE), 0.0)
    xr.zeros_like(_array(IMAGE))
