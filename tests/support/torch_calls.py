"""Calls of torch's functions and modules, with tensors that tests replace by Blobs."""

import ast
import inspect

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


def _rows(text):
    """Return the functions that are called in a text, each with its arguments."""
    names = vars(nn) | vars(torch) | globals()

    def value(node):
        return eval(compile(ast.Expression(node), text, "eval"), names)  # noqa: S307  # of the table

    calls = (statement.value for statement in ast.parse(inspect.cleandoc(text)).body)
    return [
        (value(c.func), tuple(map(value, c.args)), {k.arg: value(k.value) for k in c.keywords})
        for c in calls
    ]


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
    *_all("relu6 elu selu celu gelu leaky_relu logsigmoid softplus softsign hardtanh mish", F, M),
    *_all("silu hardswish hardsigmoid softshrink hardshrink tanhshrink normalize", F, M),
    *_all("softmax softmin log_softmax gumbel_softmax", F, M, dim=1),
    *_all("mse_loss l1_loss smooth_l1_loss huber_loss poisson_nll_loss", F, V, W),
    *_all("cosine_similarity pairwise_distance soft_margin_loss", F, S, Q),
    *_all("max_pool2d avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d", F, IMAGE, 2),
    *_rows(
        """
        clamp(M, -1, 3); logsumexp(M, 1); cumsum(M, 0); cumprod(M, 1); cummax(M, 1)
        logcumsumexp(M, 0); diff(M); sort(M); argsort(M); topk(M, 2); kthvalue(M, 2); mode(I)
        quantile(V, 0.5); histc(V, bins=4); bincount(I); bucketize(V, torch.tensor([0.0, 1.0, 3.0]))
        searchsorted(torch.tensor([0.0, 1.0, 3.0]), V); cat([M, M]); stack([M, M], 1)
        hstack([V, W]); vstack([V, W]); block_diag(M, S); cartesian_prod(I, J); combinations(I)
        where(B, V, W); lerp(V, W, 0.5); addcmul(V, V, W); addcdiv(V, V, W); addmm(S, S, Q)
        addmv(torch.ones(3), S, torch.ones(3)); addr(S, torch.ones(3), torch.ones(3)); mm(S, Q)
        mv(S, torch.ones(3)); bmm(X, X.mT.contiguous()); matmul(S, Q)
        baddbmm(torch.ones(2, 4, 4), X, X.mT.contiguous()); kron(S, Q); einsum("ij,jk->ik", S, Q)
        tensordot(S, Q, dims=1); cdist(S, Q); cross(S, Q, dim=1)
        index_select(M, 0, torch.tensor([2, 0])); masked_select(V, B); take(M, I)
        gather(M, 1, torch.tensor([[0], [1], [3]]))
        take_along_dim(M, torch.tensor([[0], [1], [3]]), 1)
        scatter(M, 1, torch.tensor([[0], [1], [3]]), torch.ones(3, 1))
        scatter_add(M, 1, torch.tensor([[0], [1], [3]]), torch.ones(3, 1))
        index_add(M, 0, torch.tensor([1]), torch.ones(1, 4))
        index_fill(M, 0, torch.tensor([1]), 7.0); masked_fill(V, B, 0.0); flip(M, [0, 1])
        roll(M, 1, 0); tile(M, (2, 1)); repeat_interleave(V, 2); renorm(M, 2, 0, 1.0); trapezoid(V)
        vander(V); polar(Q, Q); complex(Q, Q); bernoulli(Q); multinomial(Q, 2); poisson(Q)
        normal(Q, Q); rand_like(M); full_like(M, 3.0); result_type(M, I); linalg.solve(S, Q)
        linalg.lstsq(S, Q); linalg.vector_norm(V); linalg.multi_dot([S, Q, S])
        stft(V, 4, return_complex=True, window=torch.ones(4)); layer_norm(M, (4,))
        ops.aten.add(V, W); ops.aten.add.Tensor(V, W); F.glu(M); F.threshold(M, 0.5, 0.0)
        F.prelu(M, torch.tensor([0.25])); F.linear(M, torch.ones(2, 4), torch.ones(2))
        F.bilinear(S, Q, torch.ones(2, 3, 3)); F.conv1d(X, torch.ones(2, 4, 3))
        F.conv2d(IMAGE, torch.ones(2, 4, 3, 3), padding=1)
        F.conv3d(VOLUME, torch.ones(2, 4, 3, 3, 3))
        F.conv_transpose2d(IMAGE, torch.ones(4, 2, 3, 3)); F.lp_pool2d(IMAGE, 2, 2)
        F.interpolate(IMAGE, scale_factor=2, mode="bilinear"); F.pad(M, (1, 2)); F.unfold(IMAGE, 2)
        F.fold(torch.ones(1, 4, 9), (4, 4), (2, 2)); F.pixel_shuffle(IMAGE, 2)
        F.local_response_norm(IMAGE, 2); F.layer_norm(M, (4,)); F.group_norm(IMAGE, 2)
        F.rms_norm(M, (4,)); F.batch_norm(IMAGE, torch.zeros(4), torch.ones(4)); F.dropout(M)
        F.embedding(I, M.repeat(2, 1)); F.one_hot(I, 6); F.cross_entropy(M, CLASSES)
        F.kl_div(DISTRIBUTION, DISTRIBUTION, reduction="batchmean", log_target=True)
        F.nll_loss(DISTRIBUTION, CLASSES); F.binary_cross_entropy(Q, Q)
        F.binary_cross_entropy_with_logits(S, Q); F.cosine_embedding_loss(S, Q, SIGNS)
        F.triplet_margin_loss(S, Q, S + 1)
        F.affine_grid(torch.ones(2, 2, 3), (2, 4, 6, 6), align_corners=False)
        F.grid_sample(IMAGE, torch.zeros(2, 3, 3, 2), align_corners=False)
        F.scaled_dot_product_attention(X, X, X)
        """
    ),
]

# Functions that return views of the first argument.
VIEWS = _rows(
    """
    positive(M); reshape(M, (4, 3)); transpose(M, 0, 1); t(M); permute(X, (2, 0, 1))
    movedim(X, 0, 2); flatten(X, 1); unflatten(M, 1, (2, 2)); ravel(M); squeeze(X)
    unsqueeze(M, 0); diagonal(S); narrow(M, 1, 1, 2); select(M, 0, 1); split(M, 2, 1)
    chunk(M, 2); tensor_split(M, 2); unbind(M); broadcast_to(V, (2, 6))
    as_strided(M, (2, 2), (1, 2)); atleast_3d(M); view_as_real(C); real(C)
    F.dropout(M, training=False); broadcast_tensors(M, M + 1)
    (lambda x: torch.einsum("ij->ij", x))(M)
    (lambda x: torch.meshgrid([x.reshape(-1)], indexing="ij"))(M)
    (lambda x: [torch.detach(x)])(M)
    """
)

# Functions that write the first argument.
IN_PLACE = [
    *_all("abs_ neg_ relu_ sigmoid_ tanh_ exp_ sin_ floor_ square_ zero_ nan_to_num_", torch, M),
    *_all("elu_ selu_ leaky_relu_ hardtanh_", F, M),
    *_all("relu elu celu silu mish relu6 leaky_relu hardtanh dropout", F, M, inplace=True),
    *_all("add_ mul_", torch.ops.aten, V, W),
    *_rows(
        """
        clamp_(M, -1, 1); fill_(M, 3.0); threshold_(M, 0.5, 0.0); dropout_(M, 0.5, train=True)
        nn.init.uniform_(M); nn.init.normal_(M); nn.init.constant_(M, 2.0)
        nn.init.kaiming_uniform_(M)
        """
    ),
]

# Modules, and the arguments of each.
MODULES = [
    (module, inputs)
    for module, inputs, _ in _rows(
        """
        ReLU()(M); ReLU6()(M); ELU()(M); SELU()(M); CELU()(M); GELU()(M); Sigmoid()(M); Tanh()(M)
        Softplus()(M); Softsign()(M); Hardtanh()(M); Hardswish()(M); LeakyReLU()(M); LogSigmoid()(M)
        Mish()(M); SiLU()(M); Softshrink()(M); Tanhshrink()(M); PReLU()(M); GLU()(M); Dropout()(M)
        Softmax(dim=1)(M); LogSoftmax(dim=1)(M); Linear(4, 2)(M); Bilinear(3, 3, 2)(S, Q)
        Conv1d(4, 2, 3)(X); Conv2d(4, 2, 3)(IMAGE); Conv3d(4, 2, 3)(VOLUME)
        ConvTranspose2d(4, 2, 3)(IMAGE); MaxPool2d(2)(IMAGE); AvgPool2d(2)(IMAGE)
        AdaptiveAvgPool2d(2)(IMAGE); LPPool2d(2, 2)(IMAGE); LayerNorm(4)(M); GroupNorm(2, 4)(IMAGE)
        RMSNorm(4)(M); LocalResponseNorm(2)(IMAGE); ReflectionPad2d(1)(IMAGE); ZeroPad2d(1)(IMAGE)
        PixelShuffle(2)(IMAGE); Upsample(scale_factor=2)(IMAGE); Unfold(2)(IMAGE)
        Embedding(6, 3)(I); CosineSimilarity()(S, Q); MSELoss()(V, W)
        CrossEntropyLoss()(M, CLASSES); NLLLoss()(DISTRIBUTION, CLASSES); BCEWithLogitsLoss()(S, Q)
        TripletMarginLoss()(S, Q, S + 1)
        Sequential(nn.Conv2d(4, 2, 3), nn.BatchNorm2d(2), nn.Flatten())(IMAGE)
        """
    )
]

# Modules that need attributes that only tensors have.
DEMANDING_MODULES = [
    (module, inputs)
    for module, inputs, _ in _rows(
        """
        Flatten()(IMAGE); Unflatten(1, (2, 2))(M); BatchNorm1d(4)(M); BatchNorm2d(4)(IMAGE)
        CircularPad2d(1)(IMAGE); InstanceNorm2d(4)(IMAGE); RNN(6, 5)(X); LSTM(6, 5)(X)
        LSTM(6, 5)(X, (torch.ones(1, 4, 5), torch.zeros(1, 4, 5))); GRU(6, 5)(X); LSTMCell(4, 5)(M)
        MultiheadAttention(6, 2)(X, X, X); TransformerEncoderLayer(6, 2, 8)(X)
        """
    )
]
