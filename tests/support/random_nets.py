"""Random definitions of nets, with layers that other readers of Caffe's definitions support."""

from __future__ import annotations

import random

# One of Caffe's spellings of a setting for height and width.
_SIDES = "{name}_h: {a} {name}_w: {b}"


def random_net(seed: int) -> str:
    """Return a definition as text: an input, and a sequence of layers.

    A few of them have a window that is larger than its image, which is an error.
    """
    draw = random.Random(seed)  # noqa: S311  # no secrets
    size = draw.randint(12, 24), draw.randint(12, 24)
    dims = draw.randint(1, 3), 2 * draw.randint(1, 4), *size
    shape = " ".join(f"dim: {dim}" for dim in dims)
    text = [f'layer {{ name: "in" type: "Input" top: "in" input_param {{ shape {{ {shape} }} }} }}']
    images = ["in"]
    for number in range(draw.randint(3, 8)):
        bottom, name = draw.choice(images[-3:]), f"l{number}"
        kind, settings, tops, image = draw.choice(_LAYERS)(draw, name)
        bottoms = [bottom] * (2 if kind in ("Concat", "Eltwise") else 1)
        words = [f'bottom: "{one}"' for one in bottoms] + [f'top: "{top}"' for top in tops]
        text.append(f'layer {{ name: "{name}" type: "{kind}" {" ".join(words)} {settings} }}')
        if image:
            images += tops
    last = images[-1]
    text.append(
        f'layer {{ name: "ip" type: "InnerProduct" bottom: "{last}" top: "ip" '
        f"inner_product_param {{ num_output: {draw.randint(1, 9)} "
        f'weight_filler {{ type: "xavier" }} }} }}'
    )
    return "\n".join(text)


def _window(draw: random.Random, largest: int, *, both: bool = False) -> str:
    """Draw kernel, stride and padding, once for both axes or for each.

    With `both`, either both axes are padded or none.
    """
    sides = []
    for _ in range(2):
        kernel = draw.randint(2, largest) if both else draw.randint(1, largest)
        sides.append((kernel, draw.randint(1, 3), draw.randrange(kernel)))
    if draw.random() < 0.5:
        kernel, stride, pad = sides[0]
        return f"kernel_size: {kernel} stride: {stride} pad: {pad}"
    if both and not all(pad for _, _, pad in sides):
        sides = [(kernel, stride, 0) for kernel, stride, _ in sides]
    words = [
        _SIDES.format(name=name, a=a, b=b)
        for name, a, b in zip(("kernel", "stride", "pad"), *sides, strict=True)
    ]
    return " ".join(words)


def _convolution(draw, name):
    window = _window(draw, 3)
    group = draw.choice([1, 1, 2])
    dilation = f"dilation: {draw.randint(1, 2)}" if draw.random() < 0.4 else ""
    settings = (
        f"convolution_param {{ num_output: {2 * draw.randint(1, 4)} {window} group: {group} "
        f'{dilation} weight_filler {{ type: "msra" }} bias_term: {_truth(draw)} }}'
    )
    return "Convolution", settings, [name], True


def _deconvolution(draw, name):
    window = _window(draw, 3)
    settings = (
        f"convolution_param {{ num_output: {2 * draw.randint(1, 3)} {window} "
        f'weight_filler {{ type: "gaussian" }} }}'
    )
    return "Deconvolution", settings, [name], True


def _pooling(draw, name):
    if draw.random() < 0.1:
        return "Pooling", "pooling_param { pool: AVE global_pooling: true }", [name], False
    # OpenCV lacks round_mode. If only one axis is padded, OpenCV drops a last window that begins in
    # the padding for that axis only, while Caffe checks both axes.
    window = _window(draw, 4, both=True)
    method = draw.choice(["MAX", "AVE"])
    return "Pooling", f"pooling_param {{ pool: {method} {window} }}", [name], True


def _plain(kind, settings=""):
    return lambda _, name: (kind, settings, [name], True)


def _flat(kind, settings=""):
    return lambda _, name: (kind, settings, [name], False)


def _slice(_, name):
    return "Slice", "slice_param { axis: 1 slice_point: 1 }", [name, f"{name}b"], False


def _truth(draw):
    return str(draw.random() < 0.5).lower()


_LAYERS = [
    *[_convolution] * 4,
    *[_pooling] * 4,
    *[_deconvolution] * 2,
    _slice,
    _plain("ReLU"),
    _plain("PReLU"),
    _plain("LRN"),
    _plain("BatchNorm"),
    _plain("Scale", "scale_param { bias_term: true }"),
    _plain("Power", "power_param { scale: 2 }"),
    _plain("Eltwise"),
    _plain("Concat"),
    _plain("Softmax"),
    _flat("Flatten"),
    _flat("Flatten", "flatten_param { axis: 2 }"),
    _flat("Reshape", "reshape_param { shape { dim: 0 dim: -1 } }"),
    _flat("Reshape", "reshape_param { shape { dim: 1 dim: -1 } axis: 2 num_axes: 2 }"),
]
