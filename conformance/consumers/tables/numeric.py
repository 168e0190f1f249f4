"""Libraries for numbers: NumPy's own functions, science, units, graphs and compilers."""

import numpy as np

from conformance.consumers.inputs import *


def numpy():
    import random

    random.shuffle(VECTOR)
    random.choice(VECTOR)
    random.choices(VECTOR, k=3)
    random.sample(list(VECTOR), 3)
    random.choices([1, 2, 3], weights=POINTS[0])
    np.random.shuffle(VECTOR)
    np.random.permutation(VECTOR)
    np.random.choice(VECTOR, 3)
    np.random.default_rng(0).shuffle(VECTOR)
    np.random.default_rng(0).permutation(IMAGE)
    np.random.default_rng(0).permuted(IMAGE, axis=1)
    np.random.default_rng(0).permuted(ND.IMAGE, axis=1, out=IMAGE)
    np.random.default_rng(0).choice(VECTOR, 3)
    np.random.default_rng(0).choice(9, 3, p=VECTOR / VECTOR.sum())
    np.random.default_rng(0).random(out=ZEROS)
    np.random.default_rng(0).standard_normal(out=ZEROS)
    np.random.default_rng(0).normal(VECTOR, 1.0)
    np.random.default_rng(0).poisson(VECTOR)
    np.random.default_rng(0).multinomial(5, VECTOR / VECTOR.sum())
    np.random.default_rng(0).multivariate_normal(VECTOR[:4], SYMMETRIC)
    np.random.default_rng(0).integers(COUNTS)
    np.random.seed(NUMBER)
    np.asarray(IMAGE)
    np.array(IMAGE)
    np.array([VECTOR, VECTOR])
    np.array(IMAGE, dtype="f4")
    np.array(IMAGE, ndmin=3)
    np.asarray(IMAGE, order="F")
    np.ascontiguousarray(IMAGE.T)
    np.asfortranarray(IMAGE)
    np.asanyarray(IMAGE)
    np.require(IMAGE, "f4", "CW")
    np.from_dlpack(IMAGE)
    np.fromiter(VECTOR, float)
    np.copyto(ZEROS, ND.IMAGE)
    np.copyto(ZEROS, IMAGE, where=MASK)
    np.add(IMAGE, 1, out=ZEROS)
    np.add(ND.IMAGE, ND.IMAGE, out=ZEROS)
    np.add.at(VECTOR, ND.INDEX, 1)
    np.multiply(IMAGE, 2, where=MASK, out=ZEROS)
    np.put(VECTOR, [0, 2], 7)
    np.place(IMAGE, MASK, [7, 8])
    np.putmask(IMAGE, IMAGE > 0.5, 0)
    np.put_along_axis(IMAGE, ND.INDEX[None], 9, axis=1)
    np.fill_diagonal(MATRIX, 0)
    np.clip(IMAGE, 0.2, 0.8, out=IMAGE)
    np.nan_to_num(WITH_NANS, copy=False)
    np.take(ND.IMAGE, INDEX, axis=0)
    np.take_along_axis(IMAGE, np.argsort(IMAGE, 1), 1)
    ND.IMAGE[MASK]
    ND.IMAGE[INDEX]
    ND.IMAGE[:, INDEX] + IMAGE[:, INDEX]
    ND.IMAGE[NUMBER]
    ND.IMAGE + IMAGE
    ND.IMAGE @ IMAGE.T
    np.float64(2) * IMAGE
    [1, 2, 3] + INDEX
    2**VECTOR
    divmod(VECTOR, 0.3)
    [10, 20, 30][NUMBER]
    list(range(NUMBER))
    list(VECTOR)
    sorted(VECTOR[::-1])
    sum(VECTOR)
    max(VECTOR)
    list(zip(VECTOR, TIMES))
    list(map(float, VECTOR))
    dict(zip(INTEGERS.tolist(), INTEGERS))
    [x.item() for x in INDEX]
    0.5 in VECTOR
    float(SCALAR)
    f"{SCALAR:.2f}"
    SCALAR.round(1)
    str(IMAGE)
    bytes(BYTES)
    bool(SCALAR)
    isinstance(next(iter(VECTOR)), float)
    np.vectorize(lambda x: x + 1)(VECTOR)
    np.apply_along_axis(sorted, 0, IMAGE)
    np.apply_over_axes(np.sum, VOLUME, [0, 2])
    np.frompyfunc(lambda x: x + 1, 1, 1)(INTEGERS)
    np.piecewise(VECTOR, [VECTOR < 0.5, VECTOR >= 0.5], [-1, 1])
    np.select([VECTOR < 0.3, VECTOR > 0.6], [VECTOR, -VECTOR])
    np.histogram(SIGNAL, bins=5)
    np.histogram2d(VECTOR, TIMES, bins=3)[0]
    np.digitize(VECTOR, VECTOR[::3])
    np.bincount(COUNTS)
    np.interp(0.5, VECTOR, TIMES)
    np.polyfit(VECTOR, TIMES, 2)
    np.polyval([1, 2, 3], VECTOR)
    np.polynomial.Polynomial(INDEX)(2.0)
    np.polynomial.Polynomial.fit(VECTOR, TIMES, 2).coef
    np.polynomial.chebyshev.chebval(VECTOR, [1, 2])
    np.einsum("ij,kj->ik", IMAGE, IMAGE)
    np.linalg.solve(MATRIX, VECTOR[:4])
    np.linalg.lstsq(SAMPLES, TARGET)[0]
    np.linalg.svd(MATRIX)[1]
    np.linalg.eigh(SYMMETRIC)[0]
    np.linalg.norm(IMAGE, axis=0)
    np.fft.rfft(SIGNAL)
    np.fft.fftshift(IMAGE)
    np.gradient(IMAGE)
    np.trapezoid(VECTOR, TIMES)
    np.convolve(SIGNAL, VECTOR)
    np.cov(SAMPLES.T)
    np.corrcoef(VECTOR, TIMES)
    np.percentile(IMAGE, [25, 75], axis=0)
    np.median(IMAGE)
    np.unique(INTEGERS, return_counts=True)
    np.isin(INTEGERS, [1, 3])
    np.nanmean(WITH_NANS, axis=0)
    np.meshgrid(VECTOR, INDEX)
    np.ix_(INDEX, INDEX)
    np.broadcast_to(VECTOR, (3, 9))
    np.pad(IMAGE, 1, mode="reflect")
    np.concatenate([IMAGE, ND.IMAGE])
    np.stack([VECTOR, TIMES], axis=1)
    np.block([[MATRIX, MATRIX]])
    np.r_[VECTOR, 1, 2]
    np.c_[VECTOR, TIMES]
    np.lib.stride_tricks.sliding_window_view(VECTOR, 3)
    np.ma.masked_array(IMAGE, mask=MASK).sum()
    np.ma.masked_where(IMAGE > 0.5, IMAGE).mean()
    np.ma.masked_invalid(WITH_NANS).compressed()
    list(np.nditer(VECTOR))
    list(np.ndenumerate(INDEX))
    list(np.ndindex(IMAGE.shape))
    np.testing.assert_allclose(IMAGE, ND.IMAGE)
    np.testing.assert_array_equal(IMAGE, IMAGE)
    np.testing.assert_almost_equal(IMAGE, IMAGE)
    np.array_str(VECTOR)
    np.array2string(VECTOR, precision=2)
    np.format_float_positional(SCALAR)
    np.shares_memory(IMAGE, IMAGE.T)
    np.can_cast(IMAGE.dtype, "f4")
    np.result_type(INDEX, 1.0)
    np.iscomplexobj(WAVES)
    np.savetxt(TMP / "x", IMAGE) or (TMP / "x").read_text()
    np.save(TMP / "x.npy", IMAGE) or np.load(TMP / "x.npy")
    np.savez(TMP / "x.npz", a=IMAGE) or np.load(TMP / "x.npz")["a"]
    IMAGE.tofile(TMP / "x") or (TMP / "x").read_bytes()
    IMAGE.astype("i4").view("u4")
    IMAGE.flags.c_contiguous
    IMAGE.flags["C_CONTIGUOUS"]
    IMAGE.strides
    IMAGE.itemsize
    IMAGE.T.copy(order="K").strides
    IMAGE.sort(axis=0)
    IMAGE.fill(3)
    IMAGE.ravel().argmax()
    IMAGE.min(axis=1).tolist()
    IMAGE.flat[5]
    IMAGE.__setitem__(MASK, 0)
    IMAGE.__setitem__((slice(None), 0), VECTOR[:8])
    IMAGE += 1
    IMAGE *= ND.VECTOR
    INTEGERS //= 2
    IMAGE[INDEX] = 0
    IMAGE[MASK] += 1
    IMAGE[2:4, ::2] = 5
    memoryview(IMAGE).shape
    bytearray(BYTES)
    b"".join([BYTES])


def scipy():
    from scipy import cluster, fft, integrate, interpolate, io, linalg, ndimage, optimize, signal
    from scipy import sparse, spatial, special, stats
    from scipy.sparse import csgraph
    from scipy.sparse import linalg as sparse_linalg
    from scipy.spatial import distance, transform

    SPARSE = sparse.csr_array(MASK * 1.0)
    SQUARE = sparse.csc_array(np.diag([4.0, 5.0, 6.0, 7.0]) + np.eye(4, k=1))
    cluster.hierarchy.linkage(SAMPLES)
    cluster.vq.kmeans2(SAMPLES, 3, seed=0)[1]
    fft.fft(SIGNAL)
    fft.rfft2(IMAGE)
    fft.dct(VECTOR)
    fft.fft(WAVES, overwrite_x=True)
    integrate.simpson(VECTOR, x=TIMES)
    integrate.cumulative_trapezoid(VECTOR, TIMES)
    integrate.odeint(lambda y, t: -y, VECTOR, [0, 1])
    integrate.solve_ivp(lambda t, y: -y, (0, 1), VECTOR).y
    integrate.quad(lambda x, a: a * x, 0, 1, args=(SCALAR,))
    integrate.quad_vec(lambda x: x * VECTOR, 0, 1)[0]
    interpolate.interp1d(VECTOR, TIMES)(0.5)
    interpolate.interp1d(ND.VECTOR, ND.TIMES)(VECTOR)
    interpolate.CubicSpline(VECTOR, TIMES)(0.5)
    interpolate.PchipInterpolator(VECTOR, TIMES)(0.5)
    interpolate.Akima1DInterpolator(VECTOR, TIMES)(0.5)
    interpolate.UnivariateSpline(VECTOR, TIMES)(0.5)
    interpolate.make_interp_spline(VECTOR, TIMES)(0.5)
    interpolate.splrep(VECTOR, TIMES)
    interpolate.RegularGridInterpolator((VECTOR[:8], VECTOR), IMAGE)([[0.1, 0.2]])
    interpolate.griddata(POINTS[:, :2], POINTS[:, 2], ([0.5], [0.5]))
    interpolate.LinearNDInterpolator(POINTS[:, :2], POINTS[:, 2])([[0.5, 0.5]])
    interpolate.RBFInterpolator(SAMPLES, TARGET)(SAMPLES)
    interpolate.RectBivariateSpline(VECTOR[:8], VECTOR, IMAGE)(0.2, 0.3)
    io.savemat(TMP / "x.mat", {"a": IMAGE}) or io.loadmat(TMP / "x.mat")["a"]
    io.wavfile.write(TMP / "x.wav", 8000, AUDIO) or io.wavfile.read(TMP / "x.wav")[1]
    io.mmwrite(TMP / "x.mtx", IMAGE) or io.mmread(TMP / "x.mtx")
    linalg.solve(MATRIX, VECTOR[:4])
    linalg.solve(SYMMETRIC, VECTOR[:4], assume_a="pos", overwrite_a=True)
    linalg.solve_banded((1, 1), IMAGE[:3], VECTOR)
    linalg.solve_triangular(MATRIX, VECTOR[:4])
    linalg.solve_toeplitz(TIMES, VECTOR)
    linalg.inv(MATRIX)
    linalg.det(MATRIX)
    linalg.eig(MATRIX)[0]
    linalg.eigh(SYMMETRIC)[0]
    linalg.eigvals_banded(IMAGE[:2])
    linalg.svd(IMAGE)[1]
    linalg.lu_factor(MATRIX)[0]
    linalg.lu_factor(MATRIX, overwrite_a=True)[0]
    linalg.cho_factor(SYMMETRIC)[0]
    linalg.qr(IMAGE)[1]
    linalg.lstsq(SAMPLES, TARGET)[0]
    linalg.pinv(IMAGE)
    linalg.expm(MATRIX)
    linalg.logm(SYMMETRIC)
    linalg.sqrtm(SYMMETRIC)
    linalg.schur(MATRIX)[0]
    linalg.null_space(IMAGE)
    linalg.toeplitz(VECTOR)
    linalg.circulant(VECTOR)
    linalg.hankel(VECTOR)
    linalg.convolution_matrix(VECTOR, 3)
    linalg.block_diag(MATRIX, SYMMETRIC)
    linalg.blas.ddot(VECTOR, TIMES)
    linalg.blas.dgemm(1.0, MATRIX, SYMMETRIC)
    linalg.blas.daxpy(VECTOR, TIMES)
    linalg.lapack.dgetrf(MATRIX)[0]
    ndimage.gaussian_filter(FLOATS, 1)
    ndimage.gaussian_filter(ND.FLOATS, 1, output=OUT)
    ndimage.uniform_filter(IMAGE, 3)
    ndimage.median_filter(GRAY, 3)
    ndimage.sobel(IMAGE)
    ndimage.convolve(IMAGE, MATRIX)
    ndimage.correlate1d(IMAGE, VECTOR[:3])
    ndimage.generic_filter(IMAGE, np.max, 3)
    ndimage.zoom(FLOATS, 2)
    ndimage.rotate(GRAY, 30)
    ndimage.shift(IMAGE, 1.5)
    ndimage.affine_transform(IMAGE, np.eye(2) * 0.5)
    ndimage.map_coordinates(IMAGE, POINTS[:, :2].T * 5)
    ndimage.label(BLACK)
    ndimage.label(ND.BLACK, output=REGIONS)
    ndimage.find_objects(REGIONS + 1)[0][0].start
    ndimage.sum_labels(FLOATS, REGIONS, [1, 2])
    ndimage.center_of_mass(FLOATS, REGIONS, [1, 2])
    ndimage.binary_erosion(BLACK)
    ndimage.binary_fill_holes(BLACK)
    ndimage.binary_dilation(ND.BLACK, output=BLACK)
    ndimage.grey_dilation(GRAY, size=3)
    ndimage.distance_transform_edt(BLACK)
    ndimage.distance_transform_edt(ND.MASK, distances=ZEROS)
    ndimage.distance_transform_cdt(BLACK)
    ndimage.watershed_ift(GRAY, REGIONS)
    optimize.minimize(lambda x: ((x - 1) ** 2).sum(), VECTOR).x
    optimize.minimize(lambda x: ((x - ND.VECTOR) ** 2).sum(), VECTOR, method="Nelder-Mead").x
    optimize.minimize(optimize.rosen, VECTOR, jac=optimize.rosen_der, method="L-BFGS-B").x
    optimize.minimize_scalar(lambda x: ((x - VECTOR) ** 2).sum()).x
    optimize.least_squares(lambda x: x - 1, VECTOR).x
    optimize.curve_fit(lambda x, a, b: a * x + b, VECTOR, TIMES)[0]
    optimize.fsolve(lambda x: x**2 - 1, VECTOR)
    optimize.root(lambda x: x**2 - 1, VECTOR).x
    optimize.brentq(lambda x: x - SCALAR, 0, 5)
    optimize.linprog(VECTOR[:4], A_ub=MATRIX, b_ub=VECTOR[:4]).x
    optimize.nnls(SAMPLES, TARGET)[0]
    optimize.linear_sum_assignment(IMAGE)
    optimize.differential_evolution(lambda x: ((x - 1) ** 2).sum(), EDGES[:2], rng=0, maxiter=2).x
    signal.lfilter(VECTOR, [1.0], SIGNAL)
    signal.lfilter([1.0], TIMES, SIGNAL)
    signal.filtfilt([0.5], [1.0, 0.2], SIGNAL)
    signal.sosfilt(signal.butter(2, 0.2, output="sos"), SIGNAL)
    signal.convolve(SIGNAL, VECTOR)
    signal.correlate(SIGNAL, VECTOR)
    signal.fftconvolve(IMAGE, MATRIX)
    signal.convolve2d(IMAGE, MATRIX)
    signal.find_peaks(SIGNAL)[0]
    signal.peak_prominences(SIGNAL, signal.find_peaks(ND.SIGNAL)[0])[0]
    signal.argrelmax(SIGNAL)
    signal.resample(SIGNAL, 32)
    signal.resample_poly(SIGNAL, 1, 2)
    signal.decimate(SIGNAL, 2)
    signal.savgol_filter(SIGNAL, 5, 2)
    signal.medfilt(SIGNAL)
    signal.wiener(IMAGE)
    signal.detrend(SIGNAL)
    signal.detrend(SIGNAL, overwrite_data=True)
    signal.hilbert(SIGNAL)
    signal.welch(SIGNAL, nperseg=16)
    signal.periodogram(SIGNAL)
    signal.spectrogram(SIGNAL, nperseg=16)[2]
    signal.stft(SIGNAL, nperseg=16)[2]
    signal.coherence(SIGNAL, SIGNAL, nperseg=16)[1]
    signal.lombscargle(TIMES, VECTOR, [1.0, 2.0])
    signal.freqz(VECTOR)[1]
    signal.StateSpace(MATRIX, VECTOR[:4, None], VECTOR[None, :4], [[0.0]]).A
    SPARSE @ VECTOR
    SPARSE @ IMAGE.T
    IMAGE @ SPARSE.T
    SPARSE + IMAGE
    SPARSE * VECTOR
    SPARSE.multiply(IMAGE)
    SPARSE.dot(VECTOR)
    SPARSE[INDEX]
    SPARSE[:, FLAGS]
    sparse.csr_array(IMAGE)
    sparse.coo_array((VECTOR[:3], (INDEX, INDEX)))
    sparse.csr_array((VECTOR[:3], (INDEX, INDEX)), shape=(4, 4))
    sparse.csr_array((VECTOR[:3], INDEX, np.array([0, 1, 2, 3])))
    sparse.diags_array(VECTOR)
    sparse.dia_array((IMAGE, np.arange(8)), shape=(9, 9))
    sparse.kron(SPARSE, MATRIX)
    sparse.hstack([SPARSE, sparse.csr_array(IMAGE)])
    sparse.block_diag([MATRIX, SYMMETRIC])
    sparse_linalg.spsolve(SQUARE, VECTOR[:4])
    sparse_linalg.spsolve(SQUARE, MATRIX)
    sparse_linalg.splu(SQUARE).solve(VECTOR[:4])
    sparse_linalg.factorized(SQUARE)(VECTOR[:4])
    sparse_linalg.spsolve_triangular(sparse.csr_array(np.tril(ND.MATRIX)), VECTOR[:4])
    sparse_linalg.cg(SQUARE, VECTOR[:4])[0]
    sparse_linalg.cg(SYMMETRIC, VECTOR[:4], x0=VECTOR[:4])[0]
    sparse_linalg.gmres(MATRIX, VECTOR[:4])[0]
    sparse_linalg.bicgstab(SQUARE, VECTOR[:4])[0]
    sparse_linalg.lsqr(SPARSE, VECTOR[:8])[0]
    sparse_linalg.eigsh(SYMMETRIC, 2, v0=VECTOR[:4])[0]
    sparse_linalg.eigs(SQUARE, 2, v0=VECTOR[:4])[0]
    sparse_linalg.svds(IMAGE, 2, v0=VECTOR[:8])[1]
    sparse_linalg.aslinearoperator(MATRIX).matvec(VECTOR[:4])
    sparse_linalg.aslinearoperator(SQUARE) @ VECTOR[:4]
    sparse_linalg.expm_multiply(SQUARE, VECTOR[:4])
    sparse_linalg.norm(sparse.csr_array(IMAGE))
    csgraph.shortest_path(ADJACENCY)
    csgraph.connected_components(ADJACENCY)
    csgraph.minimum_spanning_tree(ADJACENCY)
    csgraph.laplacian(ADJACENCY)
    spatial.KDTree(POINTS).query([0.5, 0.5, 0.5], 3)
    spatial.KDTree(ND.POINTS).query(POINTS)[0]
    spatial.cKDTree(POINTS).query_ball_point(POINTS[0], 0.3)
    spatial.ConvexHull(POINTS).vertices
    spatial.Delaunay(POINTS[:, :2]).simplices
    spatial.Delaunay(ND.POINTS).find_simplex(POINTS)
    spatial.Voronoi(POINTS[:, :2]).vertices
    spatial.procrustes(SAMPLES, POSITIVE)[2]
    distance.cdist(SAMPLES, OTHER_SAMPLES)
    distance.pdist(SAMPLES, "cosine")
    distance.squareform(SYMMETRIC - np.diag(np.diag(SYMMETRIC)), checks=False)
    distance.euclidean(VECTOR, TIMES)
    distance.cosine(VECTOR, TIMES)
    distance.cdist(ND.MATRIX, ND.MATRIX, out=SYMMETRIC)
    distance.jensenshannon(VECTOR, TIMES)
    transform.Rotation.from_quat(ROTATIONS).as_matrix()
    transform.Rotation.from_matrix(np.eye(3)).apply(POINTS)
    transform.Rotation.from_euler("xyz", POINTS).as_quat()
    transform.Rotation.from_rotvec(POINTS).as_rotvec()
    special.erf(VECTOR)
    special.gamma(VECTOR, ND.VECTOR)
    special.logsumexp(IMAGE, axis=0)
    special.softmax(IMAGE, axis=1)
    special.jv(INDEX, 0.5)
    special.comb(5, INDEX)
    special.factorial(INDEX)
    special.eval_legendre(2, VECTOR)
    special.sph_harm_y(1, 2, VECTOR, VECTOR)
    stats.norm.pdf(VECTOR)
    stats.norm(VECTOR, TIMES).cdf(0.5)
    stats.norm.fit(SIGNAL)
    stats.gamma.fit(POSITIVE[:, 0])
    stats.norm.rvs(VECTOR, random_state=0)
    stats.describe(VECTOR)
    stats.ttest_ind(VECTOR, TIMES)
    stats.pearsonr(VECTOR, TIMES)
    stats.spearmanr(VECTOR, TIMES)
    stats.linregress(VECTOR, TIMES).slope
    stats.theilslopes(VECTOR, TIMES)
    stats.ks_2samp(VECTOR, TIMES)
    stats.kstest(VECTOR, "norm")
    stats.shapiro(VECTOR)
    stats.chi2_contingency(EDGES + 1)
    stats.fisher_exact(EDGES[:2] + 1)
    stats.f_oneway(VECTOR, TIMES)
    stats.kruskal(VECTOR, TIMES)
    stats.wilcoxon(VECTOR, TIMES)
    stats.mode(INTEGERS)
    stats.zscore(IMAGE)
    stats.rankdata(INTEGERS)
    stats.binned_statistic(VECTOR, TIMES, bins=3).statistic
    stats.gaussian_kde(SIGNAL)(VECTOR)
    stats.gaussian_kde(ND.SIGNAL).evaluate(VECTOR)
    stats.multivariate_normal(VECTOR[:4], SYMMETRIC).pdf(SAMPLES)
    stats.multivariate_normal(VECTOR[:4], ND.SYMMETRIC).rvs(random_state=0)
    stats.bootstrap((VECTOR,), np.mean, n_resamples=9, rng=0).bootstrap_distribution
    stats.permutation_test((VECTOR, TIMES), np.dot, n_resamples=9, rng=0, vectorized=False).pvalue
    stats.qmc.scale(POINTS, 1, 2)
    stats.rv_discrete(values=(INDEX, VECTOR[:3] / VECTOR[:3].sum())).mean()
    stats.rv_histogram(np.histogram(SIGNAL, bins=5)).mean()
    stats.probplot(VECTOR)[1]
    stats.boxcox(TIMES)
    stats.trim_mean(SIGNAL, 0.1)
    stats.iqr(SIGNAL)
    stats.entropy(VECTOR)
    stats.wasserstein_distance(VECTOR, TIMES)
    stats.circmean(VECTOR)
    stats.tukey_hsd(VECTOR, TIMES).pvalue


def numba():
    from numba import guvectorize, njit, typed, vectorize

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

    @njit
    def pair(x, y):
        return x @ y

    @vectorize
    def add(x, y):
        return x + y

    @guvectorize(["(f8[:], f8[:], f8[:])"], "(n),(n)->(n)")
    def swap(x, y, out):
        for i in range(x.shape[0]):
            out[i] = x[i] - y[i]

    total(IMAGE)
    total(FLOATS)
    total(IMAGE.T)
    row(IMAGE, 2)
    row(IMAGE, int(NUMBER))
    pair(MATRIX, SYMMETRIC)
    pair(MATRIX, ND.SYMMETRIC)
    fill(IMAGE)
    fill(VECTOR)
    add(VECTOR, 1.0)
    add(VECTOR, ND.TIMES)
    add(VECTOR, 1.0, TIMES)
    swap(VECTOR, TIMES)
    total.py_func(VECTOR)
    njit(lambda x: x.shape[0])(IMAGE)
    njit(lambda x: np.sort(x))(VECTOR)
    njit(lambda x: x.mean())(MASK)
    njit(lambda x: (x[0], x))(VECTOR)
    njit(lambda x: x[0])((VECTOR, TIMES))
    njit(lambda x: x[0][0])(typed.List([VECTOR]))


def sympy():
    import sympy

    X = sympy.symbols("x")
    sympy.Matrix(EDGES).tolist()
    sympy.Matrix(MATRIX.round(1)).shape
    sympy.Array(EDGES).tolist()
    sympy.ImmutableMatrix(EDGES).tolist()
    sympy.lambdify(X, sympy.sin(X))(VECTOR)
    sympy.lambdify(X, X**2 + 1, "numpy")(IMAGE)
    sympy.Matrix([1, 2]).T * sympy.Matrix(INDEX[:2])
    sympy.Integer(1) + NUMBER.item()
    str(X * NUMBER)
    str(X + INDEX[1])
    str((X * INDEX)[0])
    str((INDEX * X)[0])
    sympy.Poly(INDEX.tolist(), X).all_coeffs()
    sympy.Rational(int(NUMBER), 3)


def pint():
    import pint

    U = pint.UnitRegistry()
    U.Quantity(VECTOR, "m")
    VECTOR * U.m
    U.m * VECTOR
    VECTOR / U.s
    (VECTOR * U.m).to("km")
    (VECTOR * U.m) + (ND.VECTOR * U.m)
    (ND.VECTOR * U.m) + (VECTOR * U.m)
    (ND.VECTOR * U.m) * VECTOR
    VECTOR * (ND.VECTOR * U.m)
    VECTOR @ (ND.VECTOR * U.m)
    np.mean(VECTOR * U.m)
    np.sqrt(VECTOR * U.m**2)
    np.concatenate([VECTOR * U.m, ND.VECTOR * U.km])
    (VECTOR * U.m).magnitude
    (VECTOR * U.m)[2:4]
    (VECTOR * U.m).sum()
    (VECTOR * U.m).ito("cm")
    (VECTOR * U.m).m_as("km")
    (VECTOR * U.m) > 0.3 * U.m
    np.max((ND.VECTOR * U.m)[FLAGS])
    (SCALAR * U.m).to("cm")
    str(INDEX * U.m)
    U.convert(VECTOR, "m", "km")


def uncertainties():
    from uncertainties import unumpy

    unumpy.nominal_values(unumpy.uarray(VECTOR, 0.1))
    unumpy.std_devs(unumpy.uarray(VECTOR, TIMES))
    unumpy.nominal_values(unumpy.sin(unumpy.uarray(VECTOR, VECTOR)))
    unumpy.nominal_values(unumpy.uarray(ND.VECTOR, 0.1) + VECTOR)
    unumpy.nominal_values(VECTOR)


def astropy():
    import astropy.units as u
    from astropy import convolution, cosmology, stats, table, time, visualization, wcs
    from astropy.coordinates import SkyCoord
    from astropy.io import fits
    from astropy.modeling import fitting, models
    from astropy.nddata import CCDData, NDData
    from astropy.timeseries import LombScargle, TimeSeries

    u.Quantity(VECTOR, "m")
    u.Quantity(VECTOR, "m", copy=False)
    VECTOR * u.m
    u.m * VECTOR
    VECTOR << u.m
    (VECTOR * u.m).to("km")
    (ND.VECTOR * u.m) * VECTOR
    VECTOR * (ND.VECTOR * u.m)
    (ND.VECTOR * u.m) + VECTOR * u.m
    np.hypot(VECTOR * u.m, ND.VECTOR * u.m)
    np.dot(ND.VECTOR * u.m, VECTOR)
    (ND.VECTOR * u.m)[INDEX]
    u.Quantity([VECTOR * u.m, VECTOR * u.km])
    u.m.to(u.km, VECTOR)
    (VECTOR * u.Hz).to("m", u.spectral())
    SkyCoord(VECTOR * u.deg, VECTOR * u.deg).ra.deg
    SkyCoord(VECTOR, TIMES, unit="deg").galactic.l.deg
    time.Time(TIMES, format="mjd").jd
    time.TimeDelta(VECTOR, format="sec").to_value("s")
    table.Table({"a": VECTOR, "b": TIMES})["a"].data
    table.Table(IMAGE).colnames
    table.Column(VECTOR, name="a")
    table.QTable({"a": VECTOR * u.m})["a"]
    table.Table({"a": ND.VECTOR})[FLAGS]["a"].data
    table.Table({"a": ND.VECTOR[:3]})[INDEX]["a"].data
    fits.PrimaryHDU(FLOATS).data
    fits.PrimaryHDU(FLOATS).header["NAXIS"]
    fits.HDUList([fits.PrimaryHDU(FLOATS)]).writeto(TMP / "x.fits")
    fits.ImageHDU(FLOATS).data
    fits.CompImageHDU(FLOATS).data
    fits.Column(name="a", format="D", array=VECTOR).array
    fits.writeto(TMP / "x.fits", FLOATS) or fits.getdata(TMP / "x.fits")
    fits.BinTableHDU.from_columns([fits.Column("a", "D", array=VECTOR)]).data["a"]
    stats.sigma_clip(SIGNAL, 2).mean()
    stats.sigma_clipped_stats(IMAGE)
    stats.mad_std(SIGNAL)
    stats.biweight_location(SIGNAL)
    stats.freedman_bin_width(SIGNAL)
    convolution.convolve(IMAGE, convolution.Gaussian2DKernel(0.5))
    convolution.convolve(SIGNAL, VECTOR)
    convolution.convolve_fft(IMAGE, convolution.Box2DKernel(3))
    convolution.CustomKernel(VECTOR).array
    models.Gaussian1D()(VECTOR)
    models.Polynomial2D(1)(IMAGE, IMAGE)
    models.Gaussian1D(amplitude=SCALAR).amplitude.value
    fitting.LinearLSQFitter()(models.Linear1D(), VECTOR, TIMES).slope.value
    fitting.LevMarLSQFitter()(models.Gaussian1D(), VECTOR, TIMES).mean.value
    CCDData(FLOATS, unit="adu").data
    NDData(FLOATS).data
    LombScargle(TIMES, VECTOR).power([1.0, 2.0])
    visualization.ZScaleInterval().get_limits(FLOATS)
    visualization.PercentileInterval(90)(FLOATS)
    visualization.LogStretch()(FLOATS)
    visualization.simple_norm(FLOATS, "sqrt").vmax
    visualization.make_lupton_rgb(FLOATS, FLOATS, FLOATS)
    wcs.WCS(naxis=2).wcs_pix2world(POINTS[:, :2], 0)
    wcs.WCS(naxis=2).pixel_to_world_values(VECTOR, TIMES)
    cosmology.Planck18.comoving_distance(VECTOR)
    TimeSeries(time=time.Time(TIMES, format="mjd"), data={"a": VECTOR})["a"].value


def sparse():
    import sparse

    COO = sparse.COO.from_numpy(np.eye(9))
    sparse.COO.from_numpy(IMAGE)
    sparse.COO(IMAGE)
    sparse.COO(EDGES.T, VECTOR[:4], shape=(4, 4))
    sparse.GCXS.from_numpy(IMAGE)
    sparse.asarray(IMAGE)
    COO @ VECTOR
    IMAGE @ COO
    COO * VECTOR
    COO + SCALAR * 0
    VECTOR * COO
    np.multiply(COO, VECTOR)
    sparse.dot(COO, VECTOR)
    sparse.tensordot(COO, VECTOR, 1)
    sparse.matmul(COO, IMAGE.T)
    sparse.einsum("ij,j->i", COO, VECTOR)
    sparse.where(COO > 0.5, COO, SCALAR * 0)
    COO[INDEX]
    sparse.concatenate([COO, sparse.COO.from_numpy(IMAGE)])
    sparse.kron(COO, MATRIX)


def numexpr():
    import numexpr

    numexpr.evaluate("a + 1", {"a": IMAGE})
    numexpr.evaluate("a * b", {"a": VECTOR, "b": ND.TIMES})
    numexpr.evaluate("sum(a)", {"a": FLOATS})
    numexpr.evaluate("where(m, a, 0)", {"a": IMAGE, "m": MASK})
    numexpr.evaluate("a + 1", {"a": ND.IMAGE}, out=ZEROS)
    numexpr.NumExpr("2 * a")(VECTOR)


def bottleneck():
    import bottleneck as bn

    bn.nanmean(WITH_NANS)
    bn.nansum(WITH_NANS, axis=0)
    bn.nanmedian(WITH_NANS, axis=1)
    bn.move_mean(SIGNAL, 3)
    bn.rankdata(SIGNAL)
    bn.push(WITH_NANS)
    bn.replace(WITH_NANS, np.nan, 0)
    bn.argpartition(VECTOR, 3)[3]
    bn.anynan(WITH_NANS)


def dask():
    import dask
    import dask.array as da

    da.from_array(IMAGE).sum().compute()
    da.from_array(IMAGE, chunks=4).mean(axis=0).compute()
    (da.from_array(IMAGE, chunks=4) + 1).compute()
    da.asarray(IMAGE).T.compute()
    (da.ones((8, 9)) + IMAGE).compute()
    (IMAGE + da.ones((8, 9))).compute()
    da.ones((9, 9))[FLAGS].compute()
    da.ones((9, 9))[INDEX].compute()
    da.where(MASK, da.ones((8, 9)), 0).compute()
    da.stack([da.from_array(IMAGE), da.from_array(ND.IMAGE)]).compute()
    da.store(da.ones((8, 9)), ZEROS)
    dask.delayed(np.sum)(IMAGE).compute()
    dask.compute(IMAGE)[0]
    dask.base.tokenize(IMAGE) == dask.base.tokenize(IMAGE)
    da.map_blocks(lambda x: x + 1, da.from_array(IMAGE)).compute()


def networkx():
    import networkx as nx

    PATH = nx.path_graph(5)
    sorted(nx.from_numpy_array(ADJACENCY).edges)
    nx.from_numpy_array(ADJACENCY, create_using=nx.DiGraph).number_of_edges()
    sorted(nx.from_edgelist(EDGES.tolist()).nodes)
    nx.Graph(ADJACENCY).number_of_edges()
    nx.to_networkx_graph(ADJACENCY).number_of_nodes()
    PATH.has_node(INDEX)
    PATH.has_node(NUMBER)
    INDEX in PATH
    PATH.has_edge(INDEX[0], INDEX[1])
    PATH.degree(INDEX[0])
    sorted(PATH.subgraph(INDEX).nodes)
    sorted(PATH.nbunch_iter(INDEX))
    nx.shortest_path(PATH, INDEX[1], INDEX[0])
    nx.spectral_layout(nx.from_numpy_array(ADJACENCY)) is None
    nx.set_node_attributes(PATH, dict(enumerate(VECTOR)), "x") or PATH.nodes[1]["x"]
    nx.rescale_layout(POINTS)
    nx.to_numpy_array(nx.from_numpy_array(ADJACENCY))


def statsmodels():
    import statsmodels.api as sm
    from statsmodels.nonparametric.smoothers_lowess import lowess
    from statsmodels.stats import diagnostic, weightstats
    from statsmodels.tsa import stattools

    sm.OLS(TARGET, SAMPLES).fit().params
    sm.OLS(TARGET, sm.add_constant(SAMPLES)).fit().bse
    sm.WLS(TARGET, SAMPLES, weights=POSITIVE[:, 0]).fit().params
    sm.GLM(BINARY, SAMPLES, family=sm.families.Binomial()).fit().params
    sm.Logit(PREDICTED_BINARY, SAMPLES).fit(disp=0, maxiter=5).params
    sm.RLM(TARGET, SAMPLES).fit().params
    sm.add_constant(SAMPLES)
    sm.OLS(ND.TARGET, ND.SAMPLES).fit().predict(SAMPLES)
    sm.nonparametric.KDEUnivariate(SIGNAL).fit().density
    lowess(TARGET, SAMPLES[:, 0])
    weightstats.ttest_ind(VECTOR, TIMES)
    weightstats.DescrStatsW(VECTOR, weights=TIMES).mean
    diagnostic.acorr_ljungbox(SIGNAL, lags=2)
    stattools.acf(SIGNAL, nlags=4)
    stattools.adfuller(SIGNAL, maxlag=2)[0]
    sm.tsa.ARIMA(SIGNAL, order=(1, 0, 0)).fit().params
    sm.tsa.ExponentialSmoothing(SIGNAL).fit().fittedvalues
    sm.tsa.filters.hpfilter(SIGNAL)[0]
    sm.stats.durbin_watson(SIGNAL)


def pywavelets():
    import pywt

    pywt.dwt(SIGNAL, "db2")
    pywt.wavedec(SIGNAL, "haar", level=2)
    pywt.dwt2(IMAGE, "haar")
    pywt.waverec(pywt.wavedec(SIGNAL, "haar"), "haar")
    pywt.cwt(SIGNAL, [1, 2], "mexh")[0]
    pywt.threshold(SIGNAL, 0.5)
    pywt.swt(SIGNAL, "haar", level=1)


def cvxpy():
    import cvxpy as cp

    X = cp.Variable(4)

    def solved(objective, constraints=()):
        cp.Problem(objective, list(constraints)).solve(solver=cp.CLARABEL)
        return X.value.round(4)

    solved(cp.Minimize(cp.sum_squares(SAMPLES @ X - TARGET)))
    solved(cp.Minimize(cp.quad_form(X, SYMMETRIC)), [X >= VECTOR[:4]])
    solved(cp.Minimize(cp.sum(X)), [X >= VECTOR[:4]])
    solved(cp.Minimize(VECTOR[:4] @ X), [X >= 1])
    cp.Constant(IMAGE).value
    cp.Parameter(9, value=VECTOR).value
    cp.multiply(VECTOR[:4], X).shape


def lmfit():
    import lmfit

    MODEL = lmfit.models.LinearModel()
    MODEL.fit(TIMES, x=VECTOR, slope=1, intercept=0).best_fit
    MODEL.guess(TIMES, x=VECTOR)["slope"].value
    MODEL.eval(x=VECTOR, slope=2, intercept=1)
    lmfit.minimize(lambda p, x: p["a"] * x - 1, lmfit.create_params(a=1), args=(VECTOR,)).residual


def emcee():
    import emcee

    SAMPLER = emcee.EnsembleSampler(10, 4, lambda x: -0.5 * (x**2).sum())
    emcee.autocorr.integrated_time(SIGNAL, quiet=True)
    SAMPLER.run_mcmc(OTHER_SAMPLES, 2).coords.shape
    emcee.State(OTHER_SAMPLES).coords


def boost_histogram():
    import boost_histogram as bh

    bh.Histogram(bh.axis.Regular(4, 0, 1)).fill(VECTOR).view()
    bh.Histogram(bh.axis.Regular(4, 0, 1)).fill(VECTOR, weight=TIMES).view()
    bh.Histogram(bh.axis.Variable(VECTOR)).axes[0].edges
    bh.axis.Regular(4, 0, 1).index(VECTOR)
    bh.numpy.histogram(SIGNAL, bins=4)


def awkward():
    import awkward as ak

    ak.from_numpy(IMAGE).tolist()
    ak.Array(VECTOR).tolist()
    ak.Array({"a": VECTOR}).tolist()
    (ak.Array([1.0, 2.0, 3.0]) + VECTOR[:3]).tolist()
    ak.Array(list(range(9)))[FLAGS].tolist()
    ak.Array(list(range(9)))[INDEX].tolist()
    ak.unflatten(VECTOR, INDEX * 3).tolist()
    ak.to_numpy(VECTOR)
    ak.sum(IMAGE, axis=0)


def shapely():
    import shapely

    BOX = shapely.box(0, 0, 1, 1)
    shapely.points(POINTS)[0].wkt
    shapely.points(VECTOR, TIMES)[0].wkt
    shapely.Point(POINTS[0]).wkt
    shapely.LineString(POINTS[:, :2]).length
    shapely.Polygon(POINTS[:3, :2]).area
    shapely.MultiPoint(POINTS).bounds
    shapely.contains_xy(BOX, VECTOR, TIMES)
    shapely.contains_xy(BOX, POINTS[:, :2])
    shapely.linestrings(POINTS[None])[0].wkt
    shapely.buffer(BOX, VECTOR)[0].area
    shapely.affinity.translate(BOX, SCALAR).bounds
    shapely.STRtree([BOX]).query(shapely.points(POINTS))


def pyproj():
    import pyproj

    T = pyproj.Transformer.from_crs(4326, 3857)
    T.transform(VECTOR, TIMES)
    T.transform(VECTOR, TIMES, inplace=True)
    pyproj.Geod(ellps="WGS84").inv(VECTOR, VECTOR, TIMES, TIMES)
    pyproj.Proj(3857)(VECTOR, TIMES)
