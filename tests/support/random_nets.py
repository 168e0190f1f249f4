"""Random definitions of nets, with layers that other readers of Caffe's definitions support."""

import random

# The type and the settings of layers, the usual ones several times.
_OF_IMAGES = [
    *["Convolution convolution_param {{ {outputs} {window} {dilation} {group} {bias} }}"] * 4,
    *["Pooling pooling_param {{ {method} {pooling} }}"] * 4,
    *["Deconvolution convolution_param {{ {outputs} {window} }}"] * 2,
    *("ReLU ", "PReLU ", "LRN ", "BatchNorm ", "Eltwise ", "Concat ", "Softmax "),
    "Scale scale_param {{ bias_term: true }}",
    "Power power_param {{ scale: 2 }}",
]
_LAST = [  # their tops are no images, or differ from what they are here
    "Pooling pooling_param {{ pool: AVE global_pooling: true }}",
    "Slice slice_param {{ axis: 1 slice_point: 1 }}",
    "Flatten ",
    "Flatten flatten_param {{ axis: 2 }}",
    "Reshape reshape_param {{ shape {{ dim: 0 dim: -1 }} }}",
    "Reshape reshape_param {{ shape {{ dim: 1 dim: -1 }} axis: 2 num_axes: 2 }}",
]


def random_net(seed):
    """Return a definition as text: an input, and a sequence of layers.

    A few of them have a window that is larger than its image, which is an error.
    """
    draw = random.Random(seed)  # noqa: S311  # no secrets
    dims = draw.randint(1, 3), 2 * draw.randint(1, 4), draw.randint(12, 24), draw.randint(12, 24)
    shape = " ".join(f"dim: {dim}" for dim in dims)
    text = [f'layer {{ name: "in" type: "Input" top: "in" input_param {{ shape {{ {shape} }} }} }}']
    images = ["in"]
    for number in range(draw.randint(3, 8)):
        bottom, name = draw.choice(images[-3:]), f"l{number}"
        layer = draw.choice(_OF_IMAGES + _LAST)
        kind, _, settings = layer.partition(" ")
        tops = [name, f"{name}b"][: 1 + (kind == "Slice")]
        words = [f'bottom: "{bottom}"'] * (1 + (kind in {"Concat", "Eltwise"}))
        words += [f'top: "{top}"' for top in tops] + [settings.format(**_settings(draw))]
        text.append(f'layer {{ name: "{name}" type: "{kind}" {" ".join(words)} }}')
        images += tops if layer in _OF_IMAGES else []
    text.append(
        f'layer {{ name: "ip" type: "InnerProduct" bottom: "{images[-1]}" top: "ip" '
        f"inner_product_param {{ num_output: {draw.randint(1, 9)} }} }}"
    )
    return "\n".join(text)


def _settings(draw):
    return {
        "outputs": f"num_output: {2 * draw.randint(1, 4)} weight_filler {{ type: 'msra' }}",
        "window": _window(draw, 1, 3),
        "dilation": draw.choice(["", "dilation: 1", "dilation: 2"]),
        "group": draw.choice(["", "", "group: 2"]),
        "bias": draw.choice(["", "bias_term: false"]),
        "method": draw.choice(["pool: MAX", "pool: AVE"]),
        "pooling": _window(draw, 2, 4),
    }


def _window(draw, least, largest):
    """Draw kernel, stride and padding, once for both axes or for each; pad both axes or none.

    If only one axis is padded, OpenCV drops a last window that begins in the padding for that axis
    only, while Caffe checks both axes.
    """
    sides = [(draw.randint(least, largest), draw.randint(1, 3)) for _ in range(2)]
    pads = [draw.randrange(kernel) for kernel, _ in sides]
    (kernel, stride), pad = sides[0], pads[0]
    if draw.random() < 0.5:
        return f"kernel_size: {kernel} stride: {stride} pad: {pad}"
    pads = pads if all(pads) else [0, 0]
    return " ".join(
        f"kernel_{side}: {kernel} stride_{side}: {stride} pad_{side}: {pad}"
        for side, (kernel, stride), pad in zip("hw", sides, pads, strict=True)
    )
