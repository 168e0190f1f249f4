"""Libraries that learn: estimators, boosted trees, networks and their runtimes."""

import numpy as np

from conformance.consumers.inputs import *


def scikit_learn():
    import sklearn.cluster
    import sklearn.datasets
    import sklearn.ensemble
    import sklearn.feature_selection
    import sklearn.gaussian_process
    import sklearn.impute
    import sklearn.isotonic
    import sklearn.manifold
    import sklearn.mixture
    import sklearn.neighbors
    import sklearn.neural_network
    import sklearn.svm
    import sklearn.tree
    from sklearn import decomposition, linear_model, metrics, preprocessing, utils

    FOREST = sklearn.ensemble.RandomForestClassifier(3, random_state=0).fit(SAMPLES, CLASSES)
    linear_model.LinearRegression().fit(ND.SAMPLES, ND.TARGET, sample_weight=POSITIVE[:, 0]).coef_
    FOREST.predict(SAMPLES)
    sklearn.cluster.KMeans(3, init=CLUSTERED[:3], n_init=1).fit_predict(CLUSTERED)
    decomposition.PCA(2, copy=False).fit(SAMPLES).components_
    preprocessing.FunctionTransformer(np.log1p).fit_transform(POSITIVE)
    metrics.roc_curve(BINARY, SCORES)
    utils.class_weight.compute_class_weight("balanced", classes=INDEX, y=CLASSES)


def lightgbm():
    import lightgbm as lgb

    FEW = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 2, "num_leaves": 4}
    lgb.train(FEW, lgb.Dataset(ND.SAMPLES, label=TARGET), 3).predict(ND.SAMPLES)
    lgb.train(FEW, lgb.Dataset(ND.SAMPLES, ND.TARGET, weight=POSITIVE[:, 0]), 3).predict(ND.SAMPLES)
    lgb.train(FEW, lgb.Dataset(ND.SAMPLES, ND.TARGET, group=INDEX[1:2] + 24), 3).predict(ND.SAMPLES)
    lgb.train(FEW, lgb.Dataset(ND.SAMPLES, ND.TARGET, init_score=PREDICTED), 3).predict(ND.SAMPLES)
    lgb.LGBMRegressor(n_estimators=3, verbose=-1).fit(SAMPLES, TARGET).predict(SAMPLES)


def xgboost():
    import xgboost as xgb

    MODEL = xgb.train({"nthread": 1}, xgb.DMatrix(SAMPLES.copy(), TARGET.copy()), 3)
    xgb.train({}, xgb.DMatrix(ND.SAMPLES, ND.TARGET, weight=POSITIVE[:, 0]), 3).predict(xgb.DMatrix(ND.SAMPLES))
    xgb.QuantileDMatrix(FEATURES, TARGET).num_row()
    MODEL.inplace_predict(SAMPLES)


def catboost():
    import catboost

    def model():
        return catboost.CatBoostRegressor(iterations=3, verbose=0, thread_count=1, allow_writing_files=False)

    model().fit(SAMPLES, TARGET).predict(ND.SAMPLES)
    model().fit(ND.SAMPLES, TARGET).predict(ND.SAMPLES)
    model().fit(ND.SAMPLES, ND.TARGET, sample_weight=POSITIVE[:, 0]).predict(ND.SAMPLES)


def imbalanced_learn():
    from imblearn import over_sampling, under_sampling

    over_sampling.RandomOverSampler(random_state=0).fit_resample(SAMPLES[:20], CLASSES[:20])
    under_sampling.RandomUnderSampler(random_state=0).fit_resample(SAMPLES, CLASSES)


def hmmlearn():
    from hmmlearn import hmm

    hmm.GaussianHMM(2, random_state=0, n_iter=2).fit(SAMPLES).means_


def umap_learn():
    import umap

    umap.UMAP(n_neighbors=4, random_state=0, n_epochs=2, init="random").fit_transform(SAMPLES).shape


def onnx():
    import onnx
    from onnx import numpy_helper

    numpy_helper.to_array(numpy_helper.from_array(FLOATS))
    onnx.helper.make_tensor("x", onnx.TensorProto.FLOAT, FLOATS.shape, FLOATS.ravel()).float_data[:]
    onnx.helper.make_attribute("x", INDEX).ints[:]
    onnx.helper.make_attribute("x", VECTOR.tolist()).floats[:]


def onnxruntime():
    import onnxruntime
    from onnx import TensorProto, helper

    SIDES = [helper.make_tensor_value_info(x, TensorProto.FLOAT, [16, 18]) for x in "xy"]
    GRAPH = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", SIDES[:1], SIDES[1:])
    PROTO = helper.make_model(GRAPH, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    SESSION = onnxruntime.InferenceSession(PROTO.SerializeToString(), providers=["CPUExecutionProvider"])
    SESSION.run(None, {"x": FLOATS})
    onnxruntime.OrtValue.ortvalue_from_numpy(FLOATS).numpy()
    SESSION.run_with_ort_values(None, {"x": onnxruntime.OrtValue.from_dlpack(FLOATS)})[0].numpy()


def gymnasium():
    import gymnasium

    BOX = gymnasium.spaces.Box(-9, 9, (24, 4), dtype=np.float32)
    BOX.contains(FEATURES)
    gymnasium.spaces.Discrete(5).contains(NUMBER)
    gymnasium.spaces.Box(VECTOR, VECTOR + 1, dtype=np.float64).low
    gymnasium.make("CartPole-v1").unwrapped.action_space.contains(INDEX[1])
    gymnasium.spaces.Discrete(5).sample(mask=FLAGS[:5].astype("i1"))


def torch():
    import torch
    from torch.utils import data

    TENSOR = torch.arange(144.0, dtype=torch.float64).reshape(16, 9)
    torch.from_numpy(IMAGE)
    torch.Tensor(FLOATS)
    torch.tensor([VECTOR, TIMES])
    torch.tensor(VECTOR[0])
    TENSOR[FLAGS[:8].repeat(2)]
    TENSOR[NUMBER.item()]
    TENSOR.clone().copy_(torch.as_tensor(IMAGE.repeat(2, 0)))
    TENSOR.view(int(NUMBER), -1).shape
    torch.zeros(tuple(INDEX.tolist()))
    torch.full((2,), float(SCALAR))
    list(data.DataLoader(list(FEATURES), batch_size=8))


def jax():
    import jax
    import jax.numpy as jnp

    import syncblob.integrations.jax

    jax.config.update("jax_enable_x64", True)
    ARRAY = jnp.arange(72.0).reshape(8, 9)
    IMAGE + ARRAY
    ARRAY @ IMAGE.T
    ARRAY[INDEX]
    jax.lax.dynamic_slice(ARRAY, INDEX[:2], (2, 2))
    jax.nn.softmax(IMAGE)
    jax.dlpack.from_dlpack(IMAGE)


def safetensors():
    import safetensors.numpy
    import safetensors.torch
    import torch

    safetensors.numpy.save({"a": FLOATS.T})
    safetensors.torch.save({"a": torch.as_tensor(FLOATS)})


def nilearn():
    import nibabel
    from nilearn import image, signal

    signal.clean(SAMPLES, standardize=None, detrend=True)
    image.smooth_img(nibabel.Nifti1Image(VOLUME, np.eye(4)), 2).get_fdata()


def control():
    import control

    control.ss(MATRIX, VECTOR[:4, None], VECTOR[None, :4], [[0.0]]).A
    control.tf(VECTOR[:2], TIMES[:3]).num[0][0]


def filterpy():
    from filterpy import common, kalman

    kalman.predict(VECTOR[:4], SYMMETRIC)
    kalman.update(VECTOR[:4], SYMMETRIC, VECTOR[4:8], SYMMETRIC, np.eye(4))
    common.Q_discrete_white_noise(2, SCALAR)
