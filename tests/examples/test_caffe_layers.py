"""The layers of examples/caffe_nets against the formulas of Caffe's sources, in NumPy.

The expected numbers are written down from ``src/caffe/layers`` of BVLC/caffe, each from the file of
its layer, and not by another call of PyTorch.
"""

import math

import numpy as np
import pytest

import syncblob
from syncblob import Blob

torch = pytest.importorskip("torch")

from caffe_nets import LAYERS, Node  # noqa: E402  # needs PyTorch

RANDOM = np.random.default_rng(0)


def drawn(*shape):
    return np.asarray(RANDOM.normal(0, 1, shape), "float32")


IMAGE = drawn(2, 4, 9, 11)
ROWS = drawn(5, 4)
TARGET = drawn(5, 4)
POSITIVE = np.abs(IMAGE) + np.float32(0.5)


@pytest.fixture
def compute(tmp_path):
    """Return a function that computes one layer from its settings, blobs and bottoms."""

    def computed(kind, settings, *bottoms, blobs=(), training=False):
        path = tmp_path / "one.prototxt"
        path.write_text(f'layer {{ name: "one" type: "{kind}" {settings} }}')
        (proto,) = syncblob.read_prototxt(path).layer
        made = [Blob.asarray(blob) for blob in blobs]
        if training:
            made = [blob.as_parameter() for blob in made]
        node = Node("one", kind, proto.bottom, proto.top, proto, made, training)
        tops = LAYERS[kind](node, *map(torch.as_tensor, bottoms))
        return tops if isinstance(tops, tuple) else (tops,)

    return computed


def same(tops, *expected):
    assert len(tops) == len(expected)
    for top, wanted in zip(tops, expected, strict=True):
        assert tuple(top.shape) == np.shape(wanted)
        np.testing.assert_allclose(top.detach().numpy(), wanted, rtol=1e-4, atol=1e-5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# --- elementwise ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "settings", "formula"),
    [
        ("AbsVal", "", np.abs),
        ("BNLL", "", lambda x: np.log1p(np.exp(x))),
        (
            "Clip",
            "clip_param { min: -0.5 max: 0.25 }",
            lambda x: np.minimum(np.maximum(x, -0.5), 0.25),
        ),
        ("Dropout", "", lambda x: x),
        ("ELU", "elu_param { alpha: 0.5 }", lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
        ("Exp", "", np.exp),
        ("Exp", "exp_param { scale: 0.5 shift: 1 }", lambda x: np.exp(1 + 0.5 * x)),
        ("Exp", "exp_param { base: 2 scale: 0.5 shift: 1 }", lambda x: 2 ** (1 + 0.5 * x)),
        ("Power", "power_param { power: 2 scale: 0.5 shift: 1 }", lambda x: (1 + 0.5 * x) ** 2),
        ("ReLU", "relu_param { negative_slope: 0.1 }", lambda x: np.where(x > 0, x, 0.1 * x)),
        ("Log", "", np.log),
        ("Log", "log_param { scale: 2 shift: 1 }", lambda x: np.log(1 + 2 * x)),
        ("Log", "log_param { base: 10 }", np.log10),
        ("Sigmoid", "", sigmoid),
        ("TanH", "", np.tanh),
    ],
)
def test_elementwise(compute, kind, settings, formula):
    image = POSITIVE if kind == "Log" else IMAGE
    same(compute(kind, settings, image), formula(image))


def test_eltwise(compute):
    one, two = IMAGE, IMAGE[::-1].copy()
    added = compute("Eltwise", "eltwise_param { operation: SUM coeff: 1 coeff: -2 }", one, two)
    same(added, one - 2 * two)
    same(compute("Eltwise", "eltwise_param { operation: PROD }", one, two), one * two)
    same(compute("Eltwise", "eltwise_param { operation: MAX }", one, two), np.maximum(one, two))


def test_dropout_scales_what_it_keeps(compute):
    ones = np.ones(10_000, "float32")
    (top,) = compute("Dropout", "dropout_param { dropout_ratio: 0.75 }", ones, training=True)
    assert {*top.tolist()} == {0.0, 4.0}
    assert 2000 < top.count_nonzero() < 3000


# --- shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ("shape { dim: 0 dim: -1 }", (2, 396)),
        ("shape { dim: 2 dim: 2 } axis: 1 num_axes: 1", (2, 2, 2, 9, 11)),
        ("shape { dim: 99 } axis: -3 num_axes: 2", (2, 4, 99)),
        ("shape { dim: 1 } axis: -1 num_axes: 0", (2, 4, 9, 11, 1)),
        ("shape { dim: 0 dim: 3 dim: 3 } axis: 1 num_axes: 2", (2, 4, 3, 3, 11)),
    ],
)
def test_reshape(compute, settings, shape):
    same(compute("Reshape", f"reshape_param {{ {settings} }}", IMAGE), IMAGE.reshape(shape))


@pytest.mark.parametrize(
    ("settings", "cut"),
    [
        ("", np.s_[:, :, :5, :6]),
        ("offset: 2", np.s_[:, :, 2:7, 2:8]),
        ("axis: 1 offset: 1 offset: 0 offset: 3", np.s_[:, 1:4, 0:5, 3:9]),
        ("axis: -1 offset: 4", np.s_[:, :, :, 4:10]),
    ],
)
def test_crop(compute, settings, cut):
    like = np.zeros((1, 3, 5, 6), "float32")
    same(compute("Crop", f"crop_param {{ {settings} }}", IMAGE, like), IMAGE[cut])


def test_tile(compute):
    repeated = [np.concatenate([image] * 3) for image in IMAGE]
    same(compute("Tile", "tile_param { tiles: 3 }", IMAGE), np.stack(repeated))
    settings = "tile_param { axis: -1 tiles: 2 }"
    same(compute("Tile", settings, ROWS), np.stack([[*row, *row] for row in ROWS]))


@pytest.mark.parametrize(
    ("operation", "reduced"),
    [
        ("SUM", lambda row: row.sum()),
        ("ASUM", lambda row: np.abs(row).sum()),
        ("SUMSQ", lambda row: row @ row),
        ("MEAN", lambda row: row.sum() / len(row)),
    ],
)
@pytest.mark.parametrize("axis", [0, 2, -1])
def test_reduction(compute, operation, reduced, axis):
    kept = IMAGE.shape[: axis % 4]
    rows = IMAGE.reshape(math.prod(kept), -1)
    settings = f"reduction_param {{ operation: {operation} axis: {axis} coeff: 0.5 }}"
    expected = np.array([0.5 * reduced(row) for row in rows]).reshape(kept)
    same(compute("Reduction", settings, IMAGE), expected)


def test_argmax_takes_the_last_of_equal_values(compute):
    scores = np.array([[3, 1, 3, 2], [0, 5, 1, 5]], "float32").reshape(2, 2, 2)
    same(compute("ArgMax", "argmax_param { top_k: 2 }", scores), [[[2, 0]], [[3, 1]]])
    both = compute("ArgMax", "argmax_param { top_k: 3 out_max_val: true }", scores)
    same(both, [[[2, 0, 3], [3, 3, 2]], [[3, 1, 2], [5, 5, 1]]])
    same(compute("ArgMax", "argmax_param { axis: 1 }", scores), [[[1, 1]], [[1, 1]]])
    largest = compute("ArgMax", "argmax_param { axis: -1 out_max_val: true }", scores)
    same(largest, [[[3], [3]], [[5], [5]]])
    flat = compute("ArgMax", "", IMAGE)
    same(flat, IMAGE.reshape(2, -1).argmax(1).reshape(2, 1, 1, 1))


def test_parts(compute):
    same(compute("Concat", "", IMAGE, IMAGE), np.concatenate([IMAGE, IMAGE], axis=1))
    older = compute("Concat", "concat_param { concat_dim: 0 }", IMAGE, IMAGE)
    same(older, np.concatenate([IMAGE, IMAGE]))
    points = 'top: "a" top: "b" slice_param { slice_point: 1 }'
    same(compute("Slice", points, IMAGE), IMAGE[:, :1], IMAGE[:, 1:])
    same(
        compute("Slice", 'top: "a" top: "b" slice_param { slice_dim: 0 }', IMAGE),
        *np.split(IMAGE, 2),
    )
    same(compute("Split", 'top: "a" top: "b"', ROWS), ROWS, ROWS)
    flat = compute("Flatten", "flatten_param { axis: 1 end_axis: 2 }", IMAGE)
    same(flat, IMAGE.reshape(2, 36, 11))
    same(compute("Silence", "", ROWS))
    same(compute("Parameter", "", blobs=[ROWS]), ROWS)


# --- weights --------------------------------------------------------------------------------------


def test_convolution_with_groups_and_dilation(compute):
    weight, bias = drawn(6, 2, 3, 3), drawn(6)
    settings = "convolution_param { group: 2 kernel_size: 3 stride: 2 pad: 2 dilation: 2 }"
    padded = np.pad(IMAGE, [(0, 0), (0, 0), (2, 2), (2, 2)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5), axis=(2, 3))
    windows = windows[:, :, ::2, ::2, ::2, ::2]
    groups = zip(np.split(windows, 2, axis=1), np.split(weight, 2), strict=True)
    parts = [np.einsum("nchwij,ocij->nohw", group, kernels) for group, kernels in groups]
    expected = np.concatenate(parts, axis=1) + bias[:, None, None]
    # In older files every blob has four axes.
    blobs = [weight, bias.reshape(1, 1, 1, 6)]
    same(compute("Convolution", settings, IMAGE, blobs=blobs), expected)


def test_settings_for_height_and_width(compute):
    settings = "convolution_param { kernel_h: 1 kernel_w: 3 stride: 2 pad: 0 pad: 1 }"
    (top,) = compute("Convolution", settings, IMAGE, blobs=[np.ones((1, 4, 1, 3), "float32")])
    padded = np.pad(IMAGE, [(0, 0), (0, 0), (0, 0), (1, 1)])[:, :, ::2]
    expected = sum(padded[..., first : first + 11 : 2] for first in range(3)).sum(1, keepdims=True)
    same((top,), expected)


def test_deconvolution(compute):
    weight, bias = drawn(4, 3, 3, 3), drawn(3)
    spread = np.zeros((2, 3, 2 * 8 + 3, 2 * 10 + 3), "float32")
    for row, column in np.ndindex(9, 11):
        part = spread[:, :, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
        part += np.einsum("nc,coij->noij", IMAGE[:, :, row, column], weight)
    expected = spread[:, :, 1:-1, 1:-1] + bias[:, None, None]
    settings = "convolution_param { kernel_size: 3 stride: 2 pad: 1 }"
    same(compute("Deconvolution", settings, IMAGE, blobs=[weight, bias]), expected)


def test_inner_product(compute):
    # In older files the weight has four axes.
    weight, bias = drawn(1, 1, 5, 4 * 9 * 11), drawn(1, 1, 1, 5)
    expected = IMAGE.reshape(2, -1) @ weight[0, 0].T + bias.ravel()
    same(compute("InnerProduct", "", IMAGE, blobs=[weight, bias]), expected)
    transposed = np.ascontiguousarray(weight[0, 0].T)
    settings = "inner_product_param { transpose: true }"
    same(compute("InnerProduct", settings, IMAGE, blobs=[transposed, bias]), expected)


def test_embed(compute):
    weight, bias = drawn(7, 3), drawn(3)
    words = np.array([[0, 6, 2], [1, 1, 5]], "float32")
    rows = [[weight[int(word)] + bias for word in line] for line in words]
    same(compute("Embed", "", words, blobs=[weight, bias]), np.array(rows))
    same(compute("Embed", "", words, blobs=[weight]), np.array(rows) - bias)


@pytest.mark.parametrize(
    ("axis", "shape"), [(1, (4,)), (1, (4, 9)), (0, (2, 4)), (-1, (11,)), (-2, (9, 11)), (1, ())]
)
def test_scale_and_bias(compute, axis, shape):
    factor, term = drawn(*shape), drawn(*shape)
    behind = 4 - axis % 4 - len(shape) if shape else 0
    wide, moved = (np.reshape(blob, (*shape, *[1] * behind)) for blob in (factor, term))
    settings = f"scale_param {{ axis: {axis} }}"
    same(compute("Scale", settings, IMAGE, blobs=[factor]), IMAGE * wide)
    same(compute("Scale", settings, IMAGE, factor), IMAGE * wide)
    same(compute("Scale", settings, IMAGE, blobs=[factor, term]), IMAGE * wide + moved)
    same(compute("Scale", settings, IMAGE, factor, blobs=[term]), IMAGE * wide + moved)
    settings = f"bias_param {{ axis: {axis} }}"
    same(compute("Bias", settings, IMAGE, blobs=[term]), IMAGE + moved)
    same(compute("Bias", settings, IMAGE, term), IMAGE + moved)


def test_prelu(compute):
    slopes = drawn(4)
    expected = np.where(IMAGE > 0, IMAGE, slopes[:, None, None] * IMAGE)
    same(compute("PReLU", "", IMAGE, blobs=[slopes]), expected)


def lstm(x, marks, weights, states, static):
    """Compute an LSTM as ``lstm_layer.cpp`` and ``lstm_unit_layer.cpp`` do, cell by cell."""
    of_input, bias, *of_static, of_hidden = weights
    hidden, cell = states
    tops = []
    for step, mark in zip(x, marks, strict=True):
        kept_hidden = mark[:, None] * hidden
        gates = step.reshape(len(step), -1) @ of_input.T + bias + kept_hidden @ of_hidden.T
        if of_static:
            gates += static @ of_static[0].T
        enter, forget, leave, new = np.split(gates, 4, axis=1)
        kept = mark[:, None] * sigmoid(forget) * cell
        cell = kept + sigmoid(enter) * np.tanh(new)
        hidden = sigmoid(leave) * np.tanh(cell)
        tops.append(hidden)
    return np.stack(tops), hidden[None], cell[None]


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("exposed", [False, True])
def test_lstm(compute, exposed, static):
    x, given = drawn(5, 3, 2, 2), drawn(3, 6)
    marks = np.array([[0, 0, 0], [1, 1, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]], "float32")
    weights = [drawn(8, 4), drawn(8), *([drawn(8, 6)] if static else []), drawn(8, 2)]
    states = [drawn(1, 3, 2), drawn(1, 3, 2)] if exposed else []
    if exposed:
        marks[0] = 1
    settings = f"recurrent_param {{ num_output: 2 expose_hidden: {str(exposed).lower()} }}"
    bottoms = [x, marks, *([given] if static else []), *states]
    before = [state[0] for state in states] or np.zeros((2, 3, 2), "float32")
    top, *last = lstm(x, marks, weights, before, given)
    same(compute("LSTM", settings, *bottoms, blobs=weights), top, *(last if exposed else []))


# --- windows and normalisation --------------------------------------------------------------------


def pooled(image, window, method, rounded):
    """Pool as ``pooling_layer.cpp`` does, window by window."""
    kernel, stride, pad = window
    sizes = []
    for length in image.shape[2:]:
        size = rounded((length + 2 * pad - kernel) / stride) + 1
        if pad and (size - 1) * stride >= length + pad:
            size -= 1
        sizes.append(size)
    top = np.empty((*image.shape[:2], *sizes), image.dtype)
    for index in np.ndindex(*sizes):
        first = [number * stride - pad for number in index]
        last = [min(f + kernel, s + pad) for f, s in zip(first, image.shape[2:], strict=True)]
        area = (last[0] - first[0]) * (last[1] - first[1])
        inside = tuple(slice(max(f, 0), end) for f, end in zip(first, last, strict=True))
        part = image[(..., *inside)]
        top[(..., *index)] = part.max((2, 3)) if method == "MAX" else part.sum((2, 3)) / area
    return top


@pytest.mark.parametrize("method", ["MAX", "AVE"])
@pytest.mark.parametrize(("mode", "rounded"), [("CEIL", math.ceil), ("FLOOR", math.floor)])
@pytest.mark.parametrize(
    "window",
    # Kernel, stride and padding. The padding of the last one is more than half its kernel.
    [(2, 2, 0), (3, 2, 0), (3, 2, 1), (2, 2, 1), (4, 3, 2), (5, 4, 2), (3, 2, 2)],
)
def test_pooling(compute, method, mode, rounded, window):
    settings = "kernel_size: {} stride: {} pad: {}".format(*window)
    settings = f"pooling_param {{ pool: {method} round_mode: {mode} {settings} }}"
    same(compute("Pooling", settings, IMAGE), pooled(IMAGE, window, method, rounded))


@pytest.mark.parametrize("method", ["MAX", "AVE"])
def test_pooling_with_a_window_larger_than_the_image(compute, method):
    settings = f"pooling_param {{ pool: {method} kernel_size: 12 stride: 4 }}"
    same(compute("Pooling", settings, IMAGE), pooled(IMAGE, (12, 4, 0), method, math.ceil))


def test_pooling_of_the_whole_image(compute):
    settings = "pooling_param { pool: AVE global_pooling: true }"
    same(compute("Pooling", settings, IMAGE), IMAGE.mean((2, 3), keepdims=True))
    with pytest.raises(ValueError, match="'one'"):
        compute("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }", IMAGE)


def test_lrn(compute):
    squares = np.pad(IMAGE**2, [(0, 0), (1, 1), (0, 0), (0, 0)])
    sums = sum(squares[:, first : first + 4] for first in range(3))
    settings = "lrn_param { local_size: 3 alpha: 0.6 beta: 0.5 k: 2 }"
    same(compute("LRN", settings, IMAGE), IMAGE / (2 + 0.6 / 3 * sums) ** 0.5)
    squares = np.pad(IMAGE**2, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(squares, (3, 3), axis=(2, 3))
    expected = IMAGE / (1 + 0.6 / 9 * windows.sum((4, 5))) ** 0.5
    settings = "lrn_param { local_size: 3 alpha: 0.6 beta: 0.5 norm_region: WITHIN_CHANNEL }"
    same(compute("LRN", settings, IMAGE), expected)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("variance", [False, True])
def test_mvn(compute, across, variance):
    rows = IMAGE.reshape(2 if across else 8, -1)
    expected = rows - rows.mean(1, keepdims=True)
    if variance:
        deviation = np.sqrt((expected**2).mean(1, keepdims=True))
        expected = expected / (deviation + 0.25)
    words = [str(flag).lower() for flag in (across, variance)]
    settings = "mvn_param {{ across_channels: {} normalize_variance: {} eps: 0.25 }}".format(*words)
    same(compute("MVN", settings, IMAGE), expected.reshape(IMAGE.shape))


def test_batch_norm_with_its_means(compute):
    mean, variance = drawn(4), np.abs(drawn(4))
    blobs = [mean, variance, np.array([2.0], "float32")]
    expected = (IMAGE - mean[:, None, None] / 2) / np.sqrt(variance[:, None, None] / 2 + 1e-5)
    same(compute("BatchNorm", "", IMAGE, blobs=blobs), expected)
    blobs[2] = np.zeros(1, "float32")  # nothing was learned
    same(compute("BatchNorm", "", IMAGE, blobs=blobs), IMAGE / np.sqrt(1e-5))


@pytest.mark.parametrize("settings", ["", "batch_norm_param { use_global_stats: false }"])
def test_batch_norm_of_the_batch(compute, settings):
    blobs = [drawn(4), np.abs(drawn(4)), np.array([2.0], "float32")]
    before = [blob.copy() for blob in blobs]
    channels = IMAGE.transpose(1, 0, 2, 3).reshape(4, -1)
    count = channels.shape[1]
    mean, variance = channels.mean(1), channels.var(1)
    expected = (IMAGE - mean[:, None, None]) / np.sqrt(variance[:, None, None] + 1e-5)
    training = not settings  # it can be asked for in the phase TEST, too
    same(compute("BatchNorm", settings, IMAGE, blobs=blobs, training=training), expected)
    news = (mean, variance * count / (count - 1), 1)
    # Blobs made by `asarray` of an ndarray share its memory.
    for blob, old, new in zip(blobs, before, news, strict=True):
        np.testing.assert_allclose(blob, 0.999 * old + new, rtol=1e-5)


# --- losses ---------------------------------------------------------------------------------------


def with_gradient(compute, kind, settings, first, *others):
    """Return a loss, and its gradient with respect to the first bottom."""
    leaf = torch.tensor(first, requires_grad=True)
    (loss,) = compute(kind, settings, leaf, *others)
    loss.backward()
    return loss, leaf.grad


def test_euclidean_loss(compute):
    difference = ROWS - TARGET
    found = with_gradient(compute, "EuclideanLoss", "", ROWS, TARGET.reshape(5, 2, 2))
    same(found, (difference**2).sum() / 5 / 2, difference / 5)


@pytest.mark.parametrize("legacy", [False, True])
def test_contrastive_loss(compute, legacy):
    similar = np.array([1, 0, 0, 1, 0], "float32")
    one, two = drawn(5, 3), drawn(5, 3)
    two[1] = one[1] + np.float32(0.1)  # near, and not similar
    two[4] = one[4]  # no distance at all
    total, slopes = 0, np.zeros((5, 3))
    for row, (difference, same_class) in enumerate(zip(one - two, similar, strict=True)):
        square = difference @ difference
        distance = math.sqrt(square)
        if same_class:
            total += square
            slopes[row] = difference
        elif legacy:
            total += max(1.5 - square, 0)
            slopes[row] = -difference * (square < 1.5)
        else:
            total += max(1.5 - distance, 0) ** 2
            slopes[row] = -max(1.5 - distance, 0) / (distance + 1e-4) * difference
    settings = f"contrastive_loss_param {{ margin: 1.5 legacy_version: {str(legacy).lower()} }}"
    loss, slope = with_gradient(compute, "ContrastiveLoss", settings, one, two, similar)
    same((loss,), total / 5 / 2)
    # Caffe adds 1e-4 to the distance by which it divides.
    np.testing.assert_allclose(slope, slopes / 5, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("norm", ["L1", "L2"])
def test_hinge_loss(compute, norm):
    label = np.array([0, 3, 1, 1, 2], "float32")
    signs = np.ones((5, 4))
    signs[range(5), label.astype(int)] = -1
    margins = np.maximum(0, 1 + signs * ROWS)
    total, slope = (
        (margins.sum(), np.sign(margins)) if norm == "L1" else ((margins**2).sum(), 2 * margins)
    )
    found = with_gradient(compute, "HingeLoss", f"hinge_loss_param {{ norm: {norm} }}", ROWS, label)
    same(found, total / 5, signs * slope / 5)


@pytest.mark.parametrize(
    ("settings", "divisor"),
    [
        ("", 5),
        ("normalize: true", 18),
        ("normalize: false", 5),
        ("normalization: FULL", 20),
        ("normalization: VALID normalize: false", 18),
        ("normalization: NONE", 1),
    ],
)
def test_sigmoid_cross_entropy_loss(compute, settings, divisor):
    target = RANDOM.integers(0, 2, (5, 4)).astype("float32")
    target[0, :2] = 9
    kept = target != 9
    losses = -(target * np.log(sigmoid(ROWS)) + (1 - target) * np.log(1 - sigmoid(ROWS)))
    found = with_gradient(
        compute,
        "SigmoidCrossEntropyLoss",
        f"loss_param {{ ignore_label: 9 {settings} }}",
        ROWS,
        target,
    )
    slope = np.where(kept, sigmoid(ROWS) - target, 0)
    same(found, losses[kept].sum() / divisor, slope / divisor)


LOGS = IMAGE - np.log(np.exp(IMAGE).sum(1, keepdims=True))
LABEL = RANDOM.integers(0, 4, (2, 9, 11)).astype("float32")
LABEL[0, 0, :5] = 255
KEPT = LABEL != 255


def test_softmax(compute):
    same(compute("Softmax", "", IMAGE), np.exp(LOGS))


@pytest.mark.parametrize(
    ("settings", "divisor"),
    [
        ("", KEPT.sum()),
        ("normalize: false", 2),
        ("normalization: FULL", KEPT.size),
        ("normalization: VALID", KEPT.sum()),
        ("normalization: BATCH_SIZE", 2),
        ("normalization: NONE", 1),
    ],
)
def test_softmax_with_loss(compute, settings, divisor):
    chosen = np.where(KEPT, LABEL, 0).astype(int)[:, None]
    total = -np.take_along_axis(LOGS, chosen, 1)[:, 0][KEPT].sum()
    settings = f'top: "loss" top: "prob" loss_param {{ ignore_label: 255 {settings} }}'
    tops = compute("SoftmaxWithLoss", settings, IMAGE, LABEL)
    same(tops, total / divisor, np.exp(LOGS))


def test_labels_in_a_column(compute):
    tops = compute("SoftmaxWithLoss", 'top: "loss"', ROWS, np.full((5, 1), 2, "float32"))
    logs = ROWS - np.log(np.exp(ROWS).sum(1, keepdims=True))
    same(tops, -logs[:, 2].mean())


def test_accuracy(compute):
    right = (IMAGE.argmax(1) == LABEL)[KEPT]
    labels = LABEL[KEPT]
    each = [right[labels == label].mean() for label in range(4)]
    settings = 'top: "all" top: "each" accuracy_param { ignore_label: 255 }'
    same(compute("Accuracy", settings, IMAGE, LABEL), right.mean(), each)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_accuracy_of_several_guesses(compute, k):
    label = np.array([[0], [3], [1], [1], [2]], "float32")
    better = (np.take_along_axis(ROWS, label.astype(int), 1) <= ROWS).sum(1) - 1
    settings = f'top: "all" accuracy_param {{ top_k: {k} }}'
    same(compute("Accuracy", settings, ROWS, label), (better < k).mean())
    tied = compute("Accuracy", settings, np.zeros((5, 4), "float32"), label)
    same(tied, float(k > 3))
