"""Calls of scikit-learn with ``array_api_dispatch=True``."""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING, Any

import sklearn
from sklearn import metrics
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeCV
from sklearn.metrics import cluster, pairwise
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
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

from conformance.consumers.calls import call
from conformance.consumers.inputs import (
    BINARY,
    CLASSES,
    CLUSTERED,
    OTHER_SAMPLES,
    POSITIVE,
    PREDICTED,
    PREDICTED_BINARY,
    PREDICTED_CLASSES,
    SAMPLES,
    SCORES,
    SYMMETRIC,
    TARGET,
)

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

__all__ = ["CALLS"]

sklearn.set_config(array_api_dispatch=True)

_POSITIVE_TARGET, _POSITIVE_PREDICTED = POSITIVE[:, 0], POSITIVE[:, 1]


def _fitted(estimator: BaseEstimator, attribute: str, *data: Any) -> Any:
    """Fit an estimator and return an attribute of it."""
    return getattr(sklearn.clone(estimator).fit(*data), attribute)


def _predicted(estimator: BaseEstimator, method: str, *data: Any) -> Any:
    """Fit an estimator and return the result of a method for the same samples."""
    fitted = sklearn.clone(estimator).fit(*data)
    return getattr(fitted, method)(data[0])


def _predicted_by_pickled(estimator: BaseEstimator, *data: Any) -> Any:
    """Fit an estimator and return the prediction of a pickled and unpickled copy."""
    fitted = sklearn.clone(estimator).fit(*data)
    return pickle.loads(pickle.dumps(fitted)).predict(data[0])  # noqa: S301  # made just here


def _transformed_back(estimator: BaseEstimator, *data: Any) -> Any:
    """Fit a transformer and return the samples after transform and inverse transform."""
    fitted = sklearn.clone(estimator).fit(*data)
    return fitted.inverse_transform(fitted.transform(data[0]))


_mixture = GaussianMixture(3, init_params="random_from_data", random_state=0)
_pipeline = make_pipeline(StandardScaler(), PCA(2), Ridge(solver="svd"))
_logistic = LogisticRegression(solver="lbfgs")

CALLS = [
    # --- estimators
    call(
        "calibration.CalibratedClassifierCV",
        partial(
            _predicted,
            CalibratedClassifierCV(LinearDiscriminantAnalysis(), method="temperature", cv=3),
            "predict_proba",
        ),
        SAMPLES,
        CLASSES,
    ),
    call("decomposition.PCA components_", partial(_fitted, PCA(2), "components_"), SAMPLES),
    call("decomposition.PCA inverse_transform", partial(_transformed_back, PCA(2)), SAMPLES),
    call(
        "decomposition.PCA randomized",
        partial(_predicted, PCA(2, svd_solver="randomized", random_state=0), "transform"),
        SAMPLES,
    ),
    call("decomposition.PCA transform", partial(_predicted, PCA(2), "transform"), SAMPLES),
    call(
        "decomposition.PCA whiten",
        partial(_predicted, PCA(2, whiten=True, svd_solver="covariance_eigh"), "transform"),
        SAMPLES,
    ),
    call(
        "discriminant_analysis.LinearDiscriminantAnalysis predict",
        partial(_predicted, LinearDiscriminantAnalysis(), "predict"),
        CLUSTERED,
        CLASSES,
    ),
    call(
        "discriminant_analysis.LinearDiscriminantAnalysis predict_proba",
        partial(_predicted, LinearDiscriminantAnalysis(), "predict_proba"),
        CLUSTERED,
        CLASSES,
    ),
    call(
        "kernel_approximation.Nystroem",
        partial(_predicted, Nystroem(n_components=6, random_state=0), "transform"),
        SAMPLES,
    ),
    call(
        "linear_model.LinearRegression",
        partial(_predicted, LinearRegression(), "predict"),
        SAMPLES,
        TARGET,
    ),
    call(
        "linear_model.LogisticRegression coef_",
        partial(_fitted, _logistic, "coef_"),
        SAMPLES,
        CLASSES,
    ),
    call(
        "linear_model.LogisticRegression predict",
        partial(_predicted, _logistic, "predict"),
        SAMPLES,
        CLASSES,
    ),
    call(
        "linear_model.Ridge coef_",
        partial(_fitted, Ridge(solver="svd"), "coef_"),
        SAMPLES,
        TARGET,
    ),
    call(
        "linear_model.Ridge predict",
        partial(_predicted, Ridge(solver="svd"), "predict"),
        SAMPLES,
        TARGET,
    ),
    call(
        "linear_model.RidgeCV",
        partial(_predicted, RidgeCV(), "predict"),
        SAMPLES,
        TARGET,
    ),
    call(
        "mixture.GaussianMixture means_",
        partial(_fitted, _mixture, "means_"),
        CLUSTERED,
    ),
    call(
        "mixture.GaussianMixture score_samples",
        partial(_predicted, _mixture, "score_samples"),
        CLUSTERED,
    ),
    call(
        "naive_bayes.GaussianNB predict",
        partial(_predicted, GaussianNB(), "predict"),
        SAMPLES,
        CLASSES,
    ),
    call(
        "naive_bayes.GaussianNB predict_proba",
        partial(_predicted, GaussianNB(), "predict_proba"),
        SAMPLES,
        CLASSES,
    ),
    call(
        "pipeline.make_pipeline",
        partial(_predicted, _pipeline, "predict"),
        SAMPLES,
        TARGET,
    ),
    call(
        "pipeline.make_pipeline pickled",
        partial(_predicted_by_pickled, _pipeline),
        SAMPLES,
        TARGET,
    ),
    # --- metrics
    call("metrics.accuracy_score", metrics.accuracy_score, CLASSES, PREDICTED_CLASSES),
    call("metrics.average_precision_score", metrics.average_precision_score, BINARY, SCORES),
    call(
        "metrics.balanced_accuracy_score",
        metrics.balanced_accuracy_score,
        CLASSES,
        PREDICTED_CLASSES,
    ),
    call("metrics.brier_score_loss", metrics.brier_score_loss, BINARY, SCORES),
    call("metrics.calinski_harabasz_score", metrics.calinski_harabasz_score, SAMPLES, CLASSES),
    call("metrics.cluster.entropy", cluster.entropy, CLASSES),
    call("metrics.confusion_matrix", metrics.confusion_matrix, CLASSES, PREDICTED_CLASSES),
    call("metrics.d2_tweedie_score", metrics.d2_tweedie_score, TARGET, PREDICTED),
    call("metrics.det_curve", metrics.det_curve, BINARY, SCORES),
    call("metrics.explained_variance_score", metrics.explained_variance_score, TARGET, PREDICTED),
    call("metrics.f1_score", metrics.f1_score, BINARY, PREDICTED_BINARY),
    call("metrics.hamming_loss", metrics.hamming_loss, BINARY, PREDICTED_BINARY),
    call("metrics.log_loss", metrics.log_loss, BINARY, SCORES),
    call("metrics.max_error", metrics.max_error, TARGET, PREDICTED),
    call("metrics.mean_absolute_error", metrics.mean_absolute_error, TARGET, PREDICTED),
    call(
        "metrics.mean_gamma_deviance",
        metrics.mean_gamma_deviance,
        _POSITIVE_TARGET,
        _POSITIVE_PREDICTED,
    ),
    call("metrics.mean_squared_error", metrics.mean_squared_error, TARGET, PREDICTED),
    call(
        "metrics.mean_squared_error raw_values",
        metrics.mean_squared_error,
        SAMPLES,
        POSITIVE,
        multioutput="raw_values",
    ),
    call("metrics.median_absolute_error", metrics.median_absolute_error, TARGET, PREDICTED),
    call(
        "metrics.multilabel_confusion_matrix",
        metrics.multilabel_confusion_matrix,
        CLASSES,
        PREDICTED_CLASSES,
    ),
    call("metrics.precision_recall_curve", metrics.precision_recall_curve, BINARY, SCORES),
    call(
        "metrics.precision_score per class",
        metrics.precision_score,
        CLASSES,
        PREDICTED_CLASSES,
        average=None,
    ),
    call("metrics.r2_score", metrics.r2_score, TARGET, PREDICTED),
    call("metrics.recall_score", metrics.recall_score, BINARY, PREDICTED_BINARY),
    call("metrics.roc_auc_score", metrics.roc_auc_score, BINARY, SCORES),
    call("metrics.roc_curve", metrics.roc_curve, BINARY, SCORES),
    call(
        "metrics.roc_curve drop_intermediate=False",
        partial(metrics.roc_curve, drop_intermediate=False),
        BINARY,
        SCORES,
    ),
    call("metrics.zero_one_loss", metrics.zero_one_loss, CLASSES, PREDICTED_CLASSES),
    # --- metrics.pairwise
    call(
        "metrics.pairwise.additive_chi2_kernel",
        pairwise.additive_chi2_kernel,
        POSITIVE,
    ),
    call("metrics.pairwise.chi2_kernel", pairwise.chi2_kernel, POSITIVE),
    call("metrics.pairwise.cosine_similarity", pairwise.cosine_similarity, SAMPLES, OTHER_SAMPLES),
    call(
        "metrics.pairwise.euclidean_distances",
        pairwise.euclidean_distances,
        SAMPLES,
        OTHER_SAMPLES,
    ),
    call("metrics.pairwise.laplacian_kernel", pairwise.laplacian_kernel, SAMPLES, OTHER_SAMPLES),
    call("metrics.pairwise.linear_kernel", pairwise.linear_kernel, SAMPLES, OTHER_SAMPLES),
    call(
        "metrics.pairwise.paired_cosine_distances",
        pairwise.paired_cosine_distances,
        SAMPLES,
        POSITIVE,
    ),
    call(
        "metrics.pairwise.pairwise_distances",
        pairwise.pairwise_distances,
        SAMPLES,
        OTHER_SAMPLES,
        metric="euclidean",
    ),
    call("metrics.pairwise.polynomial_kernel", pairwise.polynomial_kernel, SAMPLES, OTHER_SAMPLES),
    call("metrics.pairwise.rbf_kernel", pairwise.rbf_kernel, SAMPLES, OTHER_SAMPLES),
    call("metrics.pairwise.sigmoid_kernel", pairwise.sigmoid_kernel, SAMPLES, OTHER_SAMPLES),
    # --- model_selection
    call(
        "model_selection.GridSearchCV",
        partial(
            _predicted, GridSearchCV(Ridge(solver="svd"), {"alpha": [0.1, 1.0]}, cv=3), "predict"
        ),
        SAMPLES,
        TARGET,
    ),
    call(
        "model_selection.cross_val_predict",
        partial(cross_val_predict, Ridge(solver="svd"), cv=3),
        SAMPLES,
        TARGET,
    ),
    call(
        "model_selection.cross_val_score",
        partial(cross_val_score, Ridge(solver="svd"), cv=3),
        SAMPLES,
        TARGET,
    ),
    call(
        "model_selection.train_test_split",
        partial(train_test_split, random_state=0),
        SAMPLES,
        TARGET,
    ),
    # --- preprocessing
    call(
        "preprocessing.Binarizer",
        partial(_predicted, Binarizer(threshold=0.5), "transform"),
        SAMPLES,
    ),
    call(
        "preprocessing.KernelCenterer",
        partial(_predicted, KernelCenterer(), "transform"),
        SYMMETRIC,
    ),
    call("preprocessing.LabelBinarizer", lambda y: LabelBinarizer().fit_transform(y), CLASSES),
    call(
        "preprocessing.LabelEncoder inverse_transform",
        partial(_transformed_back, LabelEncoder()),
        CLASSES,
    ),
    call("preprocessing.LabelEncoder", lambda y: LabelEncoder().fit_transform(y), CLASSES),
    call(
        "preprocessing.MaxAbsScaler",
        partial(_predicted, MaxAbsScaler(), "transform"),
        SAMPLES,
    ),
    call(
        "preprocessing.MinMaxScaler",
        partial(_predicted, MinMaxScaler(), "transform"),
        SAMPLES,
    ),
    call("preprocessing.Normalizer", partial(_predicted, Normalizer(), "transform"), SAMPLES),
    call(
        "preprocessing.PolynomialFeatures",
        partial(_predicted, PolynomialFeatures(), "transform"),
        SAMPLES,
    ),
    call(
        "preprocessing.StandardScaler",
        partial(_predicted, StandardScaler(), "transform"),
        SAMPLES,
    ),
    call(
        "preprocessing.StandardScaler inverse_transform",
        partial(_transformed_back, StandardScaler()),
        SAMPLES,
    ),
    call("preprocessing.maxabs_scale", maxabs_scale, SAMPLES),
    call("preprocessing.minmax_scale", minmax_scale, SAMPLES),
    call("preprocessing.normalize", partial(normalize, norm="l1"), SAMPLES),
    call("preprocessing.scale", scale, SAMPLES),
    # --- utils
    call(
        "utils.extmath.randomized_range_finder",
        partial(extmath.randomized_range_finder, size=3, n_iter=2, random_state=0),
        SAMPLES,
    ),
    call(
        "utils.extmath.randomized_svd",
        partial(extmath.randomized_svd, n_components=2, random_state=0),
        SAMPLES,
    ),
    call("utils.resample", partial(resample, random_state=0), SAMPLES),
    call("utils.shuffle", partial(shuffle, random_state=0), SAMPLES),
]
