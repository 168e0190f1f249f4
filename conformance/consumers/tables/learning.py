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
    from sklearn import decomposition, linear_model, metrics, model_selection, preprocessing, utils
    from sklearn.pipeline import make_pipeline

    LINEAR = linear_model.LinearRegression().fit(SAMPLES, TARGET)
    FOREST = sklearn.ensemble.RandomForestClassifier(3, random_state=0).fit(SAMPLES, CLASSES)
    linear_model.LinearRegression().fit(SAMPLES, TARGET).coef_
    linear_model.LinearRegression().fit(ND.SAMPLES, TARGET).coef_
    linear_model.LinearRegression().fit(ND.SAMPLES, ND.TARGET, sample_weight=POSITIVE[:, 0]).coef_
    linear_model.Ridge().fit(SAMPLES, TARGET).coef_
    linear_model.Lasso().fit(SAMPLES, TARGET).coef_
    linear_model.ElasticNet().fit(FEATURES, TARGET).coef_
    linear_model.LogisticRegression().fit(SAMPLES, CLASSES).predict_proba(SAMPLES)
    linear_model.SGDClassifier(random_state=0).fit(SAMPLES, CLASSES).coef_
    linear_model.SGDRegressor(random_state=0).partial_fit(SAMPLES, TARGET).coef_
    linear_model.BayesianRidge().fit(SAMPLES, TARGET).coef_
    linear_model.HuberRegressor().fit(SAMPLES, TARGET).coef_
    linear_model.RANSACRegressor(random_state=0).fit(SAMPLES, TARGET).predict(SAMPLES)
    LINEAR.predict(SAMPLES)
    LINEAR.predict(FEATURES)
    LINEAR.score(SAMPLES, TARGET)
    FOREST.predict(SAMPLES)
    FOREST.predict_proba(FEATURES)
    FOREST.apply(SAMPLES)
    sklearn.ensemble.RandomForestClassifier(3, random_state=0).fit(SAMPLES, CLASSES).predict(SAMPLES)
    sklearn.ensemble.GradientBoostingRegressor(n_estimators=3).fit(SAMPLES, TARGET).predict(SAMPLES)
    sklearn.ensemble.HistGradientBoostingClassifier(max_iter=3).fit(SAMPLES, CLASSES).predict(SAMPLES)
    sklearn.ensemble.IsolationForest(n_estimators=5, random_state=0).fit_predict(SAMPLES)
    sklearn.ensemble.AdaBoostClassifier(n_estimators=3).fit(SAMPLES, CLASSES).predict(SAMPLES)
    sklearn.tree.DecisionTreeClassifier(random_state=0).fit(SAMPLES, CLASSES).predict(SAMPLES)
    sklearn.tree.DecisionTreeRegressor(random_state=0).fit(FEATURES, TARGET).predict(FEATURES)
    sklearn.svm.SVC().fit(SAMPLES, CLASSES).decision_function(SAMPLES)
    sklearn.svm.SVR().fit(SAMPLES, TARGET).predict(SAMPLES)
    sklearn.svm.LinearSVC(random_state=0).fit(SAMPLES, CLASSES).coef_
    sklearn.svm.OneClassSVM().fit(SAMPLES).predict(SAMPLES)
    sklearn.neighbors.KNeighborsClassifier().fit(SAMPLES, CLASSES).predict(SAMPLES)
    sklearn.neighbors.NearestNeighbors().fit(SAMPLES).kneighbors(OTHER_SAMPLES)
    sklearn.neighbors.KernelDensity().fit(SAMPLES).score_samples(SAMPLES)
    sklearn.neighbors.LocalOutlierFactor().fit_predict(SAMPLES)
    sklearn.neighbors.KDTree(SAMPLES).query(OTHER_SAMPLES)
    sklearn.neural_network.MLPClassifier(max_iter=3, random_state=0).fit(SAMPLES, CLASSES).predict(SAMPLES)
    sklearn.gaussian_process.GaussianProcessRegressor().fit(SAMPLES, TARGET).predict(SAMPLES)
    sklearn.isotonic.IsotonicRegression().fit(VECTOR, TIMES).predict(VECTOR)
    sklearn.cluster.KMeans(3, random_state=0).fit(CLUSTERED).labels_
    sklearn.cluster.KMeans(3, init=CLUSTERED[:3], n_init=1).fit_predict(CLUSTERED)
    sklearn.cluster.MiniBatchKMeans(3, random_state=0).fit_predict(CLUSTERED)
    sklearn.cluster.DBSCAN().fit_predict(CLUSTERED)
    sklearn.cluster.HDBSCAN(copy=True).fit_predict(CLUSTERED)
    sklearn.cluster.AgglomerativeClustering(3).fit_predict(CLUSTERED)
    sklearn.cluster.SpectralClustering(3, random_state=0).fit_predict(CLUSTERED)
    sklearn.cluster.MeanShift().fit_predict(CLUSTERED)
    sklearn.mixture.GaussianMixture(2, random_state=0).fit(CLUSTERED).means_
    decomposition.PCA(2).fit_transform(SAMPLES)
    decomposition.PCA(2, copy=False).fit(SAMPLES).components_
    decomposition.IncrementalPCA(2).fit_transform(SAMPLES)
    decomposition.NMF(2, random_state=0).fit_transform(POSITIVE)
    decomposition.FastICA(2, random_state=0).fit_transform(SAMPLES)
    decomposition.TruncatedSVD(2, random_state=0).fit_transform(SAMPLES)
    decomposition.KernelPCA(2).fit_transform(SAMPLES)
    decomposition.LatentDirichletAllocation(2, random_state=0, max_iter=2).fit_transform(POSITIVE)
    sklearn.manifold.TSNE(perplexity=5, random_state=0, max_iter=250).fit_transform(SAMPLES).shape
    sklearn.manifold.Isomap().fit_transform(SAMPLES).shape
    preprocessing.StandardScaler().fit_transform(SAMPLES)
    preprocessing.StandardScaler(copy=False).fit_transform(SAMPLES)
    preprocessing.MinMaxScaler().fit_transform(SAMPLES)
    preprocessing.MinMaxScaler(copy=False).fit_transform(SAMPLES)
    preprocessing.RobustScaler().fit_transform(SAMPLES)
    preprocessing.QuantileTransformer(n_quantiles=5).fit_transform(SAMPLES)
    preprocessing.PowerTransformer().fit_transform(POSITIVE)
    preprocessing.OneHotEncoder().fit_transform(CLASSES[:, None])
    preprocessing.OrdinalEncoder().fit_transform(CLASSES[:, None])
    preprocessing.LabelEncoder().fit_transform(CLASSES)
    preprocessing.LabelBinarizer().fit_transform(CLASSES)
    preprocessing.PolynomialFeatures().fit_transform(SAMPLES)
    preprocessing.KBinsDiscretizer(3, encode="ordinal").fit_transform(SAMPLES)
    preprocessing.SplineTransformer().fit_transform(SAMPLES)
    preprocessing.scale(SAMPLES)
    preprocessing.normalize(SAMPLES)
    preprocessing.binarize(SAMPLES)
    preprocessing.FunctionTransformer(np.log1p).fit_transform(POSITIVE)
    sklearn.impute.SimpleImputer().fit_transform(WITH_NANS)
    sklearn.impute.KNNImputer().fit_transform(WITH_NANS)
    sklearn.feature_selection.SelectKBest(k=2).fit_transform(SAMPLES, CLASSES)
    sklearn.feature_selection.VarianceThreshold().fit_transform(SAMPLES)
    sklearn.feature_selection.mutual_info_regression(SAMPLES, TARGET, random_state=0)
    make_pipeline(preprocessing.StandardScaler(), linear_model.Ridge()).fit(SAMPLES, TARGET).predict(SAMPLES)
    model_selection.train_test_split(SAMPLES, TARGET, random_state=0)
    model_selection.train_test_split(SAMPLES, CLASSES, stratify=CLASSES, random_state=0)
    model_selection.cross_val_score(linear_model.Ridge(), SAMPLES, TARGET)
    model_selection.cross_val_predict(linear_model.Ridge(), SAMPLES, TARGET)
    model_selection.GridSearchCV(linear_model.Ridge(), {"alpha": [1, 2]}).fit(SAMPLES, TARGET).best_score_
    list(model_selection.KFold(3).split(SAMPLES))
    list(model_selection.StratifiedKFold(3).split(SAMPLES, CLASSES))
    list(model_selection.GroupKFold(3).split(SAMPLES, TARGET, CLASSES))
    metrics.accuracy_score(CLASSES, PREDICTED_CLASSES)
    metrics.accuracy_score(CLASSES, ND.PREDICTED_CLASSES)
    metrics.classification_report(CLASSES, PREDICTED_CLASSES)
    metrics.confusion_matrix(CLASSES, PREDICTED_CLASSES)
    metrics.f1_score(BINARY, PREDICTED_BINARY)
    metrics.roc_auc_score(BINARY, SCORES)
    metrics.roc_curve(BINARY, SCORES)
    metrics.log_loss(BINARY, SCORES)
    metrics.mean_squared_error(TARGET, PREDICTED)
    metrics.r2_score(TARGET, PREDICTED)
    metrics.silhouette_score(CLUSTERED, CLASSES)
    metrics.adjusted_rand_score(CLASSES, PREDICTED_CLASSES)
    metrics.pairwise_distances(SAMPLES, OTHER_SAMPLES)
    metrics.pairwise.cosine_similarity(SAMPLES)
    metrics.pairwise.rbf_kernel(SAMPLES)
    utils.shuffle(SAMPLES, TARGET, random_state=0)
    utils.resample(SAMPLES, random_state=0)
    utils.check_array(SAMPLES)
    utils.check_X_y(SAMPLES, TARGET)
    utils.class_weight.compute_class_weight("balanced", classes=INDEX, y=CLASSES)
    utils.multiclass.type_of_target(CLASSES)
    sklearn.datasets.dump_svmlight_file(SAMPLES, TARGET, str(TMP / "x")) or (TMP / "x").read_text()


def lightgbm():
    import lightgbm as lgb

    FEW = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 2, "num_leaves": 4}
    MODEL = lgb.train(FEW, lgb.Dataset(SAMPLES.copy(), label=TARGET.copy()), 3)
    lgb.train(FEW, lgb.Dataset(SAMPLES, label=ND.TARGET), 3).predict(ND.SAMPLES)
    lgb.train(FEW, lgb.Dataset(ND.SAMPLES, label=TARGET), 3).predict(ND.SAMPLES)
    lgb.train(FEW, lgb.Dataset(ND.SAMPLES, ND.TARGET, weight=POSITIVE[:, 0]), 3).predict(ND.SAMPLES)
    lgb.train(FEW, lgb.Dataset(ND.SAMPLES, ND.TARGET, group=INDEX[1:2] + 24), 3).predict(ND.SAMPLES)
    lgb.train(FEW, lgb.Dataset(ND.SAMPLES, ND.TARGET, init_score=PREDICTED), 3).predict(ND.SAMPLES)
    MODEL.predict(SAMPLES)
    MODEL.predict(FEATURES)
    lgb.LGBMRegressor(n_estimators=3, verbose=-1).fit(SAMPLES, TARGET).predict(SAMPLES)
    lgb.LGBMClassifier(n_estimators=3, verbose=-1).fit(SAMPLES, CLASSES).predict(SAMPLES)


def xgboost():
    import xgboost as xgb

    MODEL = xgb.train({"nthread": 1}, xgb.DMatrix(SAMPLES.copy(), TARGET.copy()), 3)
    xgb.DMatrix(SAMPLES).num_row()
    xgb.train({}, xgb.DMatrix(SAMPLES, label=TARGET), 3).predict(xgb.DMatrix(ND.SAMPLES))
    xgb.train({}, xgb.DMatrix(ND.SAMPLES, ND.TARGET, weight=POSITIVE[:, 0]), 3).predict(xgb.DMatrix(ND.SAMPLES))
    xgb.QuantileDMatrix(FEATURES, TARGET).num_row()
    MODEL.predict(xgb.DMatrix(SAMPLES))
    MODEL.inplace_predict(SAMPLES)
    xgb.XGBRegressor(n_estimators=3).fit(SAMPLES, TARGET).predict(SAMPLES)
    xgb.XGBClassifier(n_estimators=3).fit(SAMPLES, CLASSES).predict_proba(SAMPLES)


def catboost():
    import catboost

    def model():
        return catboost.CatBoostRegressor(iterations=3, verbose=0, thread_count=1, allow_writing_files=False)

    MODEL = model().fit(SAMPLES.copy(), TARGET.copy())
    model().fit(SAMPLES, TARGET).predict(ND.SAMPLES)
    model().fit(ND.SAMPLES, TARGET).predict(ND.SAMPLES)
    model().fit(ND.SAMPLES, ND.TARGET, sample_weight=POSITIVE[:, 0]).predict(ND.SAMPLES)
    MODEL.predict(SAMPLES)
    MODEL.predict(FEATURES)
    catboost.Pool(SAMPLES, TARGET).num_row()


def imbalanced_learn():
    from imblearn import over_sampling, under_sampling

    over_sampling.RandomOverSampler(random_state=0).fit_resample(SAMPLES[:20], CLASSES[:20])
    over_sampling.SMOTE(random_state=0, k_neighbors=2).fit_resample(SAMPLES[:20], CLASSES[:20])
    under_sampling.RandomUnderSampler(random_state=0).fit_resample(SAMPLES, CLASSES)


def hmmlearn():
    from hmmlearn import hmm

    hmm.GaussianHMM(2, random_state=0, n_iter=2).fit(SAMPLES).means_
    hmm.GaussianHMM(2, random_state=0, n_iter=2).fit(ND.SAMPLES).predict(SAMPLES)


def umap_learn():
    import umap

    umap.UMAP(n_neighbors=4, random_state=0, n_epochs=2, init="random").fit_transform(SAMPLES).shape


def onnx():
    import onnx
    from onnx import numpy_helper

    numpy_helper.to_array(numpy_helper.from_array(FLOATS))
    numpy_helper.to_array(numpy_helper.from_array(INTEGERS, "x"))
    onnx.helper.make_tensor("x", onnx.TensorProto.FLOAT, FLOATS.shape, FLOATS.ravel()).float_data[:]
    onnx.helper.make_tensor("x", onnx.TensorProto.FLOAT, FLOATS.shape, FLOATS.tobytes(), raw=True).dims[:]
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
    FEATURES in BOX
    gymnasium.spaces.Discrete(5).contains(NUMBER)
    gymnasium.spaces.MultiBinary(9).contains(FLAGS.astype("i1"))
    gymnasium.spaces.MultiDiscrete([5, 5, 5]).contains(INDEX)
    gymnasium.spaces.Box(VECTOR, VECTOR + 1, dtype=np.float64).low
    gymnasium.spaces.utils.flatten(BOX, FEATURES)
    gymnasium.spaces.Dict(a=BOX).contains({"a": FEATURES})
    gymnasium.make("CartPole-v1").unwrapped.action_space.contains(INDEX[1])
    gymnasium.spaces.Discrete(5).sample(mask=FLAGS[:5].astype("i1"))


def torch():
    import torch
    from torch.utils import data

    TENSOR = torch.arange(144.0, dtype=torch.float64).reshape(16, 9)
    LAYER = torch.nn.Linear(4, 2)
    torch.tensor(IMAGE)
    torch.as_tensor(IMAGE)
    torch.asarray(IMAGE)
    torch.from_numpy(IMAGE)
    torch.from_dlpack(IMAGE)
    torch.utils.dlpack.from_dlpack(IMAGE)
    torch.Tensor(FLOATS)
    torch.FloatTensor(FLOATS)
    torch.tensor([VECTOR, TIMES])
    torch.tensor(VECTOR[0])
    torch.tensor(SCALAR)
    torch.tensor(IMAGE, dtype=torch.float32)
    torch.as_tensor(IMAGE).add_(1)
    torch.from_numpy(IMAGE).mul_(2)
    torch.from_dlpack(IMAGE).zero_()
    torch.stack([torch.as_tensor(VECTOR), torch.as_tensor(TIMES)])
    torch.as_tensor(ND.IMAGE) + torch.as_tensor(IMAGE)
    TENSOR[INDEX]
    TENSOR[FLAGS[:8].repeat(2)]
    TENSOR[:, FLAGS]
    TENSOR[NUMBER]
    TENSOR[NUMBER.item()]
    TENSOR[torch.as_tensor(INDEX)]
    TENSOR.clone().__setitem__(INDEX, 0.0)
    TENSOR.new_tensor(VECTOR)
    TENSOR.clone().copy_(torch.as_tensor(IMAGE.repeat(2, 0)))
    TENSOR.view(int(NUMBER), -1).shape
    torch.zeros(tuple(INDEX.tolist()))
    torch.full((2,), SCALAR.item())
    torch.full((2,), float(SCALAR))
    torch.randperm(int(NUMBER))
    torch.manual_seed(int(NUMBER)) is None
    LAYER(torch.as_tensor(FEATURES)).detach()
    torch.nn.functional.softmax(torch.as_tensor(IMAGE), 1)
    torch.nn.Parameter(torch.as_tensor(FLOATS)).data
    LAYER.load_state_dict({"weight": torch.as_tensor(FEATURES[:2]), "bias": torch.zeros(2)}) and 1
    data.TensorDataset(torch.as_tensor(FEATURES))[0]
    list(data.DataLoader(list(FEATURES), batch_size=8))
    list(data.DataLoader(FEATURES, batch_size=8))
    data.default_collate([FEATURES, FEATURES])
    data.default_convert(FEATURES)
    torch.save(torch.as_tensor(IMAGE), TMP / "x") or torch.load(TMP / "x")
    list(data.WeightedRandomSampler(VECTOR, 3))
    torch.is_tensor(IMAGE)


def jax():
    import jax
    import jax.numpy as jnp

    import syncblob.integrations.jax

    jax.config.update("jax_enable_x64", True)
    ARRAY = jnp.arange(72.0).reshape(8, 9)
    jnp.asarray(IMAGE)
    jnp.array(IMAGE)
    jnp.array([VECTOR, TIMES])
    jax.device_put(IMAGE)
    jnp.sin(IMAGE)
    jnp.sum(IMAGE, axis=0)
    jnp.dot(IMAGE, VECTOR)
    jnp.where(MASK, IMAGE, 0)
    jnp.concatenate([IMAGE, ARRAY])
    jnp.stack([VECTOR, TIMES])
    jnp.einsum("ij,j->i", IMAGE, VECTOR)
    ARRAY + IMAGE
    IMAGE + ARRAY
    ARRAY @ IMAGE.T
    ARRAY[INDEX]
    ARRAY[MASK]
    ARRAY.at[INDEX].set(VECTOR)
    jax.jit(jnp.sin)(IMAGE)
    jax.jit(lambda x: x + IMAGE)(ARRAY)
    jax.grad(lambda x: (x**2).sum())(VECTOR)
    jax.vmap(jnp.sum)(IMAGE)
    jax.lax.dynamic_slice(ARRAY, INDEX[:2], (2, 2))
    jax.nn.softmax(IMAGE)
    jax.random.choice(jax.random.key(0), VECTOR)
    jax.tree_util.tree_map(lambda x: x.shape, {"a": IMAGE})
    jax.dlpack.from_dlpack(IMAGE)
    jnp.linalg.solve(MATRIX, VECTOR[:4])


def safetensors():
    import safetensors.numpy
    import safetensors.torch
    import torch

    safetensors.numpy.save({"a": FLOATS})
    safetensors.numpy.save({"a": FLOATS.T})
    safetensors.numpy.save_file({"a": FLOATS}, TMP / "x") or safetensors.numpy.load_file(TMP / "x")
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
    control.lqr(MATRIX, np.eye(4), SYMMETRIC, np.eye(4))[0]


def filterpy():
    from filterpy import common, kalman

    kalman.predict(VECTOR[:4], SYMMETRIC)
    kalman.update(VECTOR[:4], SYMMETRIC, VECTOR[4:8], SYMMETRIC, np.eye(4))
    common.Q_discrete_white_noise(2, SCALAR)
