"""Calls of torch's functions and modules, with tensors that tests replace by Blobs."""

import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from torch import nn

M = torch.tensor([[4.0, -1.5, 2.0, 0.25], [7.5, 3.0, -8.0, 1.0], [0.5, 6.0, 5.5, -2.25]])
Q = torch.tensor([[0.5, 0.25, 0.75], [0.125, 0.875, 0.5], [0.375, 0.625, 0.25]])
S = torch.tensor([[6.0, 2.0, 1.0], [2.0, 5.0, 2.0], [1.0, 2.0, 4.0]])
V = torch.tensor([0.5, 2.25, -1.0, 4.0, 3.5, 2.25])
W = torch.tensor([1.0, 0.5, -2.0, 0.25, 3.0, -1.0])
I = torch.tensor([3, 1, 2, 1, 0, 5])  # noqa: E741  # integers
J = torch.tensor([6, 4, 9, 3, 12, 5])
B = torch.tensor([True, False, True, True, False, True])
C = torch.tensor([[1 + 2j, 0.5 - 1j], [3 + 0j, -2.5 + 4j]])
N = torch.tensor([[1.0, float("nan"), 3.0], [float("inf"), 5.0, -2.0]])
X = torch.linspace(-2, 2, 2 * 4 * 6).reshape(2, 4, 6)
IMAGE = torch.linspace(-1, 1, 2 * 4 * 6 * 6).reshape(2, 4, 6, 6)
VOLUME = torch.linspace(-1, 1, 2 * 4 * 4 * 4 * 4).reshape(2, 4, 4, 4, 4)
DISTRIBUTION = torch.log_softmax(M, 1)
CLASSES = torch.tensor([1, 0, 3])
SIGNS = torch.tensor([1.0, -1.0, 1.0])


def _row(function, *args, **kwargs):
    return function, args, kwargs


def _all(words, namespace, *args, **kwargs):
    return [(getattr(namespace, word), args, kwargs) for word in words.split()]


# Functions whose results have their own memory.
FUNCTIONS = [
    *_all(
        """
        abs asinh atan ceil cos cosh deg2rad erf erfc exp exp2 expm1 fix floor frac isfinite isinf
        isnan isneginf isposinf isreal neg rad2deg relu round sgn sigmoid sign signbit sin
        sinc sinh square tan tanh trunc nan_to_num sum prod mean std var amax amin aminmax argmax
        argmin median max min flipud fliplr nonzero argwhere count_nonzero cov corrcoef
        unique norm std_mean var_mean numel is_floating_point is_complex tril triu rot90 clone
        """,
        torch,
        M,
    ),
    *_all(
        "sqrt rsqrt log log2 log10 log1p reciprocal lgamma digamma logit acos asin atanh", torch, Q
    ),
    *_all("add sub mul div pow atan2 fmod remainder floor_divide hypot copysign", torch, V, W),
    *_all("eq ne lt le gt ge maximum minimum fmax fmin logaddexp dot xlogy", torch, V, W),
    *_all("isclose allclose equal dist nextafter ldexp heaviside outer", torch, V, W),
    *_all("bitwise_and bitwise_or bitwise_xor gcd lcm bitwise_left_shift", torch, I, J),
    *_all("logical_and logical_or logical_xor", torch, B, W),
    *_all("all any logical_not bitwise_not", torch, B),
    *_all("conj_physical angle isreal view_as_real_copy", torch, C),
    *_all("nansum nanmean nanmedian isnan", torch, N),
    *_all("inverse det logdet slogdet matrix_exp cholesky_inverse pinverse trace", torch, S),
    *_all("inv eigh eigvalsh cholesky qr svdvals matrix_norm cond", torch.linalg, S),
    *_all("fft rfft fft2 rfft2 hfft fftshift", torch.fft, M),
    *_all("expit erfcx i0 i1 entr log_ndtr", torch.special, Q),
    *_all("zeros_like ones_like", torch, M),
    _row(torch.clamp, M, -1, 3),
    _row(torch.logsumexp, M, 1),
    _row(torch.cumsum, M, 0),
    _row(torch.cumprod, M, 1),
    _row(torch.cummax, M, 1),
    _row(torch.logcumsumexp, M, 0),
    _row(torch.diff, M),
    _row(torch.sort, M),
    _row(torch.argsort, M),
    _row(torch.topk, M, 2),
    _row(torch.kthvalue, M, 2),
    _row(torch.mode, I),
    _row(torch.quantile, V, 0.5),
    _row(torch.histc, V, bins=4),
    _row(torch.bincount, I),
    _row(torch.bucketize, V, torch.tensor([0.0, 1.0, 3.0])),
    _row(torch.searchsorted, torch.tensor([0.0, 1.0, 3.0]), V),
    _row(torch.cat, [M, M]),
    _row(torch.stack, [M, M], 1),
    _row(torch.hstack, [V, W]),
    _row(torch.vstack, [V, W]),
    _row(torch.block_diag, M, S),
    _row(torch.cartesian_prod, I, J),
    _row(torch.combinations, I),
    _row(torch.where, B, V, W),
    _row(torch.lerp, V, W, 0.5),
    _row(torch.addcmul, V, V, W),
    _row(torch.addcdiv, V, V, W),
    _row(torch.addmm, S, S, Q),
    _row(torch.addmv, torch.ones(3), S, torch.ones(3)),
    _row(torch.addr, S, torch.ones(3), torch.ones(3)),
    _row(torch.mm, S, Q),
    _row(torch.mv, S, torch.ones(3)),
    _row(torch.bmm, X, X.mT.contiguous()),
    _row(torch.matmul, S, Q),
    _row(torch.baddbmm, torch.ones(2, 4, 4), X, X.mT.contiguous()),
    _row(torch.kron, S, Q),
    _row(torch.einsum, "ij,jk->ik", S, Q),
    _row(torch.tensordot, S, Q, dims=1),
    _row(torch.cdist, S, Q),
    _row(torch.cross, S, Q, dim=1),
    _row(torch.index_select, M, 0, torch.tensor([2, 0])),
    _row(torch.masked_select, V, B),
    _row(torch.take, M, I),
    _row(torch.gather, M, 1, torch.tensor([[0], [1], [3]])),
    _row(torch.take_along_dim, M, torch.tensor([[0], [1], [3]]), 1),
    _row(torch.scatter, M, 1, torch.tensor([[0], [1], [3]]), torch.ones(3, 1)),
    _row(torch.scatter_add, M, 1, torch.tensor([[0], [1], [3]]), torch.ones(3, 1)),
    _row(torch.index_add, M, 0, torch.tensor([1]), torch.ones(1, 4)),
    _row(torch.index_fill, M, 0, torch.tensor([1]), 7.0),
    _row(torch.masked_fill, V, B, 0.0),
    _row(torch.flip, M, [0, 1]),
    _row(torch.roll, M, 1, 0),
    _row(torch.tile, M, (2, 1)),
    _row(torch.repeat_interleave, V, 2),
    _row(torch.renorm, M, 2, 0, 1.0),
    _row(torch.trapezoid, V),
    _row(torch.vander, V),
    _row(torch.polar, Q, Q),
    _row(torch.complex, Q, Q),
    _row(torch.bernoulli, Q),
    _row(torch.multinomial, Q, 2),
    _row(torch.poisson, Q),
    _row(torch.normal, Q, Q),
    _row(torch.rand_like, M),
    _row(torch.full_like, M, 3.0),
    _row(torch.result_type, M, I),
    _row(torch.linalg.solve, S, Q),
    _row(torch.linalg.lstsq, S, Q),
    _row(torch.linalg.vector_norm, V),
    _row(torch.linalg.multi_dot, [S, Q, S]),
    _row(torch.stft, V, 4, return_complex=True, window=torch.ones(4)),
    _row(torch.layer_norm, M, (4,)),
    _row(torch.ops.aten.add, V, W),
    _row(torch.ops.aten.add.Tensor, V, W),
    *_all("relu6 elu selu celu gelu leaky_relu logsigmoid softplus softsign hardtanh mish", F, M),
    *_all("silu hardswish hardsigmoid softshrink hardshrink tanhshrink normalize", F, M),
    *_all("softmax softmin log_softmax gumbel_softmax", F, M, dim=1),
    *_all("mse_loss l1_loss smooth_l1_loss huber_loss poisson_nll_loss", F, V, W),
    *_all("cosine_similarity pairwise_distance soft_margin_loss", F, S, Q),
    *_all("max_pool2d avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d", F, IMAGE, 2),
    _row(F.glu, M),
    _row(F.threshold, M, 0.5, 0.0),
    _row(F.prelu, M, torch.tensor([0.25])),
    _row(F.linear, M, torch.ones(2, 4), torch.ones(2)),
    _row(F.bilinear, S, Q, torch.ones(2, 3, 3)),
    _row(F.conv1d, X, torch.ones(2, 4, 3)),
    _row(F.conv2d, IMAGE, torch.ones(2, 4, 3, 3), padding=1),
    _row(F.conv3d, VOLUME, torch.ones(2, 4, 3, 3, 3)),
    _row(F.conv_transpose2d, IMAGE, torch.ones(4, 2, 3, 3)),
    _row(F.lp_pool2d, IMAGE, 2, 2),
    _row(F.interpolate, IMAGE, scale_factor=2, mode="bilinear"),
    _row(F.pad, M, (1, 2)),
    _row(F.unfold, IMAGE, 2),
    _row(F.fold, torch.ones(1, 4, 9), (4, 4), (2, 2)),
    _row(F.pixel_shuffle, IMAGE, 2),
    _row(F.local_response_norm, IMAGE, 2),
    _row(F.layer_norm, M, (4,)),
    _row(F.group_norm, IMAGE, 2),
    _row(F.rms_norm, M, (4,)),
    _row(F.batch_norm, IMAGE, torch.zeros(4), torch.ones(4)),
    _row(F.dropout, M),
    _row(F.embedding, I, M.repeat(2, 1)),
    _row(F.one_hot, I, 6),
    _row(F.cross_entropy, M, CLASSES),
    _row(F.kl_div, DISTRIBUTION, DISTRIBUTION, reduction="batchmean", log_target=True),
    _row(F.nll_loss, DISTRIBUTION, CLASSES),
    _row(F.binary_cross_entropy, Q, Q),
    _row(F.binary_cross_entropy_with_logits, S, Q),
    _row(F.cosine_embedding_loss, S, Q, SIGNS),
    _row(F.triplet_margin_loss, S, Q, S + 1),
    _row(F.affine_grid, torch.ones(2, 2, 3), (2, 4, 6, 6), align_corners=False),
    _row(F.grid_sample, IMAGE, torch.zeros(2, 3, 3, 2), align_corners=False),
    _row(F.scaled_dot_product_attention, X, X, X),
]

# Functions that return views of the first argument.
VIEWS = [
    _row(torch.positive, M),
    _row(torch.reshape, M, (4, 3)),
    _row(torch.transpose, M, 0, 1),
    _row(torch.t, M),
    _row(torch.permute, X, (2, 0, 1)),
    _row(torch.movedim, X, 0, 2),
    _row(torch.flatten, X, 1),
    _row(torch.unflatten, M, 1, (2, 2)),
    _row(torch.ravel, M),
    _row(torch.squeeze, X),
    _row(torch.unsqueeze, M, 0),
    _row(torch.diagonal, S),
    _row(torch.narrow, M, 1, 1, 2),
    _row(torch.select, M, 0, 1),
    _row(torch.split, M, 2, 1),
    _row(torch.chunk, M, 2),
    _row(torch.tensor_split, M, 2),
    _row(torch.unbind, M),
    _row(torch.broadcast_to, V, (2, 6)),
    _row(torch.as_strided, M, (2, 2), (1, 2)),
    _row(torch.atleast_3d, M),
    _row(torch.view_as_real, C),
    _row(torch.real, C),
    _row(F.dropout, M, training=False),
    _row(torch.broadcast_tensors, M, M + 1),
    _row(lambda x: torch.einsum("ij->ij", x), M),
    _row(lambda x: torch.meshgrid([x.reshape(-1)], indexing="ij"), M),
    _row(lambda x: [torch.detach(x)], M),
]

# Functions that write the first argument.
IN_PLACE = [
    *_all("abs_ neg_ relu_ sigmoid_ tanh_ exp_ sin_ floor_ square_ zero_ nan_to_num_", torch, M),
    *_all("elu_ selu_ leaky_relu_ hardtanh_", F, M),
    *_all("relu elu celu silu mish relu6 leaky_relu hardtanh dropout", F, M, inplace=True),
    *_all("add_ mul_", torch.ops.aten, V, W),
    _row(torch.clamp_, M, -1, 1),
    _row(torch.fill_, M, 3.0),
    _row(torch.threshold_, M, 0.5, 0.0),
    _row(torch.dropout_, M, 0.5, train=True),
    _row(nn.init.uniform_, M),
    _row(nn.init.normal_, M),
    _row(nn.init.constant_, M, 2.0),
    _row(nn.init.kaiming_uniform_, M),
]

# Modules, and the arguments of each.
MODULES = [
    *(
        (getattr(nn, name)(), (M,))
        for name in (
            "ReLU ReLU6 ELU SELU CELU GELU Sigmoid Tanh Softplus Softsign Hardtanh Hardswish "
            "LeakyReLU "
            "LogSigmoid Mish SiLU Softshrink Tanhshrink PReLU GLU Dropout"
        ).split()
    ),
    (nn.Softmax(dim=1), (M,)),
    (nn.LogSoftmax(dim=1), (M,)),
    (nn.Linear(4, 2), (M,)),
    (nn.Bilinear(3, 3, 2), (S, Q)),
    (nn.Conv1d(4, 2, 3), (X,)),
    (nn.Conv2d(4, 2, 3), (IMAGE,)),
    (nn.Conv3d(4, 2, 3), (VOLUME,)),
    (nn.ConvTranspose2d(4, 2, 3), (IMAGE,)),
    (nn.MaxPool2d(2), (IMAGE,)),
    (nn.AvgPool2d(2), (IMAGE,)),
    (nn.AdaptiveAvgPool2d(2), (IMAGE,)),
    (nn.LPPool2d(2, 2), (IMAGE,)),
    (nn.LayerNorm(4), (M,)),
    (nn.GroupNorm(2, 4), (IMAGE,)),
    (nn.RMSNorm(4), (M,)),
    (nn.LocalResponseNorm(2), (IMAGE,)),
    (nn.ReflectionPad2d(1), (IMAGE,)),
    (nn.ZeroPad2d(1), (IMAGE,)),
    (nn.PixelShuffle(2), (IMAGE,)),
    (nn.Upsample(scale_factor=2), (IMAGE,)),
    (nn.Unfold(2), (IMAGE,)),
    (nn.Embedding(6, 3), (I,)),
    (nn.CosineSimilarity(), (S, Q)),
    (nn.MSELoss(), (V, W)),
    (nn.CrossEntropyLoss(), (M, CLASSES)),
    (nn.NLLLoss(), (DISTRIBUTION, CLASSES)),
    (nn.BCEWithLogitsLoss(), (S, Q)),
    (nn.TripletMarginLoss(), (S, Q, S + 1)),
    (nn.Sequential(nn.Conv2d(4, 2, 3), nn.BatchNorm2d(2), nn.Flatten()), (IMAGE,)),
]

# Modules that need attributes that only tensors have.
DEMANDING_MODULES = [
    (nn.Flatten(), (IMAGE,)),
    (nn.Unflatten(1, (2, 2)), (M,)),
    (nn.BatchNorm1d(4), (M,)),
    (nn.BatchNorm2d(4), (IMAGE,)),
    (nn.CircularPad2d(1), (IMAGE,)),
    (nn.InstanceNorm2d(4), (IMAGE,)),
    (nn.RNN(6, 5), (X,)),
    (nn.LSTM(6, 5), (X,)),
    (nn.LSTM(6, 5), (X, (torch.ones(1, 4, 5), torch.zeros(1, 4, 5)))),
    (nn.GRU(6, 5), (X,)),
    (nn.LSTMCell(4, 5), (M,)),
    (nn.MultiheadAttention(6, 2), (X, X, X)),
    (nn.TransformerEncoderLayer(6, 2, 8), (X,)),
]
