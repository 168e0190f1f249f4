"""Copying trained weights, as in Caffe, to the layers of another model or of a definition."""

import h5py
import numpy as np
import pytest
from google.protobuf import text_format

from syncblob._blob import Blob
from syncblob.caffe import CopyReport, Layer, ModelFile, open_model
from syncblob.caffe._pb.caffe_pb2 import BlobProto, LayerParameter, NetParameter, V1LayerParameter
from syncblob.memory import Head


def blobs(*shapes):
    return [Blob(shape) for shape in shapes]


def definition(*layers):
    return ModelFile.from_net(
        NetParameter(layer=[text_format.Parse(layer, LayerParameter()) for layer in layers])
    )


def test_what_is_reported():
    source = ModelFile(
        "trained",
        [
            Layer("data", "Input"),
            Layer("conv1", "Convolution", blobs=blobs((2, 3, 5, 5), (2,))),
            Layer("relu1", "ReLU"),
            Layer("old", "InnerProduct", blobs=blobs((1, 2))),
        ],
    )
    target = definition(
        'name: "conv1" type: "Convolution" convolution_param { num_output: 2 kernel_size: 5 }',
        'name: "relu1" type: "ReLU"',
        'name: "drop" type: "Dropout"',
        'name: "new" type: "InnerProduct" inner_product_param { num_output: 10 }',
        'name: "own" type: "Mystery"',
    )
    report = target.copy_trained_layers_from(source)
    assert report == CopyReport(copied=("conv1",), missing=("new",), ignored=("data", "old"))
    assert [blob.shape for blob in target["conv1"].blobs] == [(2, 3, 5, 5), (2,)]
    assert len(target["new"].blobs) == 0


@pytest.mark.parametrize("read", [False, True])
def test_the_models_have_no_memory_in_common(write, v2_net, read):
    source = open_model(write(v2_net))
    if read:
        for layer in source.layers:
            for blob in layer.blobs:
                blob.cpu_data()
    target = ModelFile(
        "t", [Layer("ip", "Mystery"), Layer("conv1", "Mystery", blobs=blobs((2, 3), (2,)))]
    )
    target.copy_trained_layers_from(source)
    for name in ("ip", "conv1"):
        target[name].blobs[0].data[...] = 9
        assert float(source[name].blobs[0].max()) < 9
        source[name].blobs[0].data[...] = 8
        assert float(target[name].blobs[0].min()) == 9


@pytest.mark.parametrize("own", [(), (2,)])
def test_the_source_can_be_closed_and_blobs_of_the_target_keep_their_dtype(write, v2_net, own):
    target = ModelFile("t", [Layer("ip", "Mystery", blobs=blobs(own) if own else [])])
    with open_model(write(v2_net)) as source:
        target.copy_trained_layers_from(source)
    (blob,) = target["ip"].blobs
    assert (blob.tolist(), blob.diff.tolist()) == ([1, 2], [3, 4])
    assert blob.dtype == (np.float32 if own else np.float64)


def test_blobs_of_the_target_are_written(write, v2_net):
    """Objects made from them earlier, such as parameters of an optimizer, have the new values."""
    torch = pytest.importorskip("torch")
    target = ModelFile("t", [Layer("conv1", blobs=blobs((2, 3), (2,)))])
    weights, bias = target["conv1"].blobs
    parameter = weights.as_parameter()
    row = weights[1]
    source = open_model(write(v2_net))
    target.copy_trained_layers_from(source)
    assert target["conv1"].blobs[0] is weights
    assert target["conv1"].blobs[1] is bias
    assert parameter.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert row.tolist() == [3, 4, 5]
    assert source["conv1"].blobs[0].head is Head.UNINITIALIZED  # its values were not cached
    with torch.no_grad():
        parameter += 1
    assert target["conv1"].blobs[0].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_of_source_layers_of_one_name_the_last_wins():
    source = ModelFile("s", [Layer("a", blobs=[[1.0]]), Layer("a", blobs=[[2.0]])])
    target = ModelFile("t", [Layer("a", blobs=[[0.0]])])
    target.copy_trained_layers_from(source)
    assert target["a"].blobs[0].tolist() == [2]


def test_nothing_changes_when_one_layer_does_not_fit():
    target = ModelFile("t", [Layer("a", blobs=[[0.0]]), Layer("b", blobs=blobs((10, 21)))])
    source = ModelFile("s", [Layer("a", blobs=[[1.0]]), Layer("b", blobs=blobs((1, 1, 10, 20)))])
    with pytest.raises(
        ValueError,
        match=r"layer 'b', blob 0: expected shape \(10, 21\), the source has \(1, 1, 10, 20\); "
        r"compare the settings",
    ):
        target.copy_trained_layers_from(source)
    assert target["a"].blobs[0].tolist() == [0]


CONVOLUTION = 'name: "x" type: "Convolution" convolution_param {'
INNER_PRODUCT = 'name: "x" type: "InnerProduct" inner_product_param {'


@pytest.mark.parametrize(
    ("layer", "shapes", "message"),
    [
        (
            CONVOLUTION + "num_output: 4 kernel_size: 3 }",
            [(5, 1, 3, 3), (4,)],
            r"blob 0: expected shape \(4, \?, 3, \.\.\.\), the source has \(5, 1, 3, 3\)",
        ),
        (CONVOLUTION + "num_output: 4 kernel_size: 3 }", [(4, 1, 3, 5), (4,)], "blob 0"),
        (CONVOLUTION + "num_output: 4 kernel_size: 3 }", [(4,), (4,)], "blob 0"),
        (CONVOLUTION + "num_output: 4 kernel_size: 3 }", [(4, 1, 3, 3)], "expected 2 blobs"),
        (INNER_PRODUCT + "num_output: 4 }", [(4, 9), (5,)], r"blob 1: expected shape \(4,\)"),
        (INNER_PRODUCT + "num_output: 4 }", [], "expected 2 blobs, the source has 0"),
        ('name: "x" type: "ReLU"', [(1,)], "expected 0 blobs, the source has 1"),
        ('name: "x" type: "BatchNorm"', [(9,), (9,), (2,)], "blob 2"),
    ],
)
def test_what_does_not_fit_the_settings(layer, shapes, message):
    target = definition(layer)
    with pytest.raises(ValueError, match=f"layer 'x'.*{message}.*rename it"):
        target.copy_trained_layers_from(ModelFile("s", [Layer("x", blobs=blobs(*shapes))]))
    assert len(target["x"].blobs) == 0


@pytest.mark.parametrize(
    ("dims", "layer", "fits"),
    [
        ((1, 1, 4, 6), INNER_PRODUCT + "num_output: 4 bias_term: false }", True),
        ((1, 4, 1, 6), INNER_PRODUCT + "num_output: 4 bias_term: false }", False),
        ((1, 1, 1, 24), 'name: "x" type: "PReLU"', True),
        ((4, 6, 1, 1), CONVOLUTION + "num_output: 4 kernel_size: 1 bias_term: false }", True),
    ],
)
def test_legacy_dims_are_aligned_to_the_right(write, dims, layer, fits):
    num, channels, height, width = dims
    blob = BlobProto(num=num, channels=channels, height=height, width=width, data=[0] * 24)
    path = write(NetParameter(layer=[LayerParameter(name="x", blobs=[blob])]))
    target = definition(layer)
    if fits:
        assert target.copy_trained_layers_from(open_model(path)).copied == ("x",)
    else:
        with pytest.raises(ValueError, match="blob 0"):
            target.copy_trained_layers_from(open_model(path))


# --- blobs of the older formats, with four axes ---------------------------------------------------


def legacy_proto(*dims):
    """Return a blob of the older formats, with values and gradients from 0 on."""
    return BlobProto(
        **dict(zip(("num", "channels", "height", "width"), dims, strict=True)),
        data=range(np.prod(dims)),
        diff=range(np.prod(dims)),
    )


@pytest.fixture
def old(write):
    """A net of the older format: an inner product, with a weight and a bias."""
    layer = V1LayerParameter(name="ip", type=V1LayerParameter.LayerType.INNER_PRODUCT)
    layer.inner_product_param.num_output = 2
    layer.blobs.extend([legacy_proto(1, 1, 2, 3), legacy_proto(1, 1, 1, 2)])
    return open_model(write(NetParameter(layers=[layer]), "old.caffemodel"))


def test_into_the_older_format(old, saved):
    """Caffe accepts four dimensions for a bias only if they are those of the older formats."""
    new = [np.full((2, 3), 7, np.float32), np.full(2, 8, np.float32)]
    old.copy_trained_layers_from(ModelFile("s", [Layer("ip", blobs=new)]))
    assert [blob.shape for blob in old["ip"].blobs] == [(1, 1, 2, 3), (1, 1, 1, 2)]
    weights, bias = saved(old).layer[0].blobs
    assert [weights.num, weights.channels, weights.height, weights.width] == [1, 1, 2, 3]
    assert [bias.num, bias.channels, bias.height, bias.width] == [1, 1, 1, 2]
    assert not bias.HasField("shape")
    assert (list(weights.data), list(bias.data)) == ([7] * 6, [8] * 2)


def test_a_gradient_stays_with_a_blob_of_the_older_format_in_another_shape(old, saved):
    for number, blob in enumerate(old["ip"].blobs):
        old["ip"].replace_blob(number, blob.reshape(-1), resize=True)
    assert [list(blob.diff) for blob in saved(old).layer[0].blobs] == [[*range(6)], [0, 1]]


def test_four_axes_that_are_meant_are_compared_as_they_are():
    target = ModelFile("t", [Layer("a", blobs=blobs((2,)))])
    source = ModelFile("s", [Layer("a", blobs=blobs((1, 1, 1, 2)))])
    with pytest.raises(ValueError, match=r"expected shape \(2,\), the source has \(1, 1, 1, 2\)"):
        target.copy_trained_layers_from(source)
    layer = source["a"]
    layer.replace_blob(0, layer.blobs[0].reshape((2,)), resize=True)
    target.copy_trained_layers_from(source)


# --- parameters that layers share -----------------------------------------------------------------


def sharing(*more, name="w"):
    """Return the definition of two inner products with a shared weight and a bias each."""
    inner = f"param {{ name: '{name}' }} inner_product_param {{ num_output: 3 }}"
    return definition(
        "name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 } }",
        f"name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' {inner}",
        f"name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' {inner}",
        *more,
    )


def trained():
    """Return such a net as Caffe writes it, with different weights, as after an edit."""
    return ModelFile(
        "s",
        [
            Layer("a", "InnerProduct", blobs=[np.full((3, 3), 1, "f4"), np.full(3, 2, "f4")]),
            Layer("b", "InnerProduct", blobs=[np.full((3, 3), 3, "f4"), np.full(3, 4, "f4")]),
        ],
    )


@pytest.mark.parametrize("filled", [False, True])
def test_shared_parameters_stay_shared_and_the_last_values_win(filled):
    target = sharing()
    if filled:
        target.fill()
    report = target.copy_trained_layers_from(trained())
    assert report == CopyReport(copied=("a", "b"), missing=(), ignored=())
    assert target["a"].blobs[0] is target["b"].blobs[0]
    assert [float(target[name].blobs[n].max()) for name in "ab" for n in (0, 1)] == [3, 2, 3, 4]
    # The order of the source says which values are the last.
    target.copy_trained_layers_from(ModelFile("s", trained().layers[::-1]))
    assert target["a"].blobs[0] is target["b"].blobs[0]
    assert float(target["b"].blobs[0].max()) == 1


@pytest.mark.parametrize("filled", [False, True])
def test_a_layer_shares_the_blob_that_a_later_one_has(filled):
    target = sharing()
    target.copy_trained_layers_from(ModelFile("s", [trained()["b"]]))
    weights = target["b"].blobs[0]
    if filled:
        assert target.fill() == ("a",)
    else:
        target.copy_trained_layers_from(ModelFile("s", [trained()["a"]]))
    assert target["a"].blobs[0] is target["b"].blobs[0] is weights
    assert float(weights.max()) == (3 if filled else 1)


def test_a_layer_shares_a_blob_of_the_older_format():
    target = sharing()
    old = LayerParameter()
    old.CopyFrom(target["b"].proto)
    old.blobs.extend([legacy_proto(1, 1, 3, 3), legacy_proto(1, 1, 1, 3)])
    target["b"] = Layer.from_proto(old)
    assert target.fill() == ("a",)
    assert target["a"].blobs[0].shape == (3, 3)
    assert target["a"].blobs[0].memory is target["b"].blobs[0].memory


@pytest.mark.parametrize("mode", ["STRICT", "PERMISSIVE"])
@pytest.mark.parametrize("reverse", [False, True])
def test_shared_parameters_of_other_shapes(mode, reverse):
    param = "param { name: 'w' share_mode: %s }"
    inner = "inner_product_param { num_output: %d bias_term: false }"
    target = definition(
        f"name: 'a' type: 'InnerProduct' {param % 'STRICT'} {inner % 2}",
        f"name: 'b' type: 'InnerProduct' {param % mode} {inner % 3}",
    )
    source = ModelFile(
        "s",
        [Layer("a", blobs=[np.zeros((2, 3), "f4")]), Layer("b", blobs=[np.zeros((3, 2), "f4")])][
            :: -1 if reverse else 1
        ],
    )
    source.layers[-1].blobs[0].flat = np.arange(6)
    if mode == "STRICT":
        for shape in ((3, 2), (3, 3)):
            source["b"].blobs.assign([np.zeros(shape, "f4")])
            with pytest.raises(ValueError, match=r"layer 'b' .*blob 0 .*shares the parameter 'w'"):
                target.copy_trained_layers_from(source)
            assert not target.params
    else:
        target.copy_trained_layers_from(source)
        assert target["b"].blobs[0].tolist() == [[0, 1], [2, 3], [4, 5]]
        target["b"].blobs[0].data[...] = 7
        assert target["a"].blobs[0].tolist() == [[7, 7, 7], [7, 7, 7]]


@pytest.fixture
def snapshot(tmp_path):
    """Write nets with shared parameters as Caffe's ToHDF5 does: only the owners' datasets."""

    def snapshot(**layers):
        path = tmp_path / "shared.caffemodel.h5"
        with h5py.File(path, "w") as file:
            data = file.create_group("data")
            for name, arrays in layers.items():
                group = data.create_group(name)
                for number, array in enumerate(arrays):
                    group[str(number)] = array
        return path

    return snapshot


WEIGHT, BIAS = np.full((3, 3), 5, "f4"), np.full(3, 6, "f4")
BOTH = "param { name: 'w' } param { name: 'v' }"


def both_shared():
    target = sharing()
    for name in "ab":
        del target[name].proto.param[:]
        text_format.Merge(BOTH, target[name].proto)
    return target


@pytest.mark.parametrize("filled", [False, True])
def test_hdf5_has_a_parameter_in_the_shape_of_the_first_layer(snapshot, filled):
    target = both_shared()
    for layer, outputs in zip(target.layers[1:], (2, 3), strict=True):
        layer.proto.inner_product_param.num_output = outputs
        layer.proto.inner_product_param.bias_term = False
        del layer.proto.param[1:]
    target["b"].proto.param[0].share_mode = 1  # PERMISSIVE
    if filled:
        target.fill()
    target.copy_trained_layers_from(snapshot(a=[np.arange(6, dtype="f4").reshape(2, 3)], b=[]))
    assert target["b"].blobs[0].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert target["b"].blobs[0].memory is target["a"].blobs[0].memory


def test_hdf5_without_the_layer_that_has_the_parameter(snapshot):
    target = both_shared()
    report = target.copy_trained_layers_from(snapshot(b=[]))
    assert report == CopyReport(copied=(), missing=("a", "b"), ignored=())


def test_hdf5_without_a_parameter_that_is_not_shared(snapshot):
    with pytest.raises(ValueError, match="layer 'b': expected 2 blobs, the source has 1"):
        sharing().copy_trained_layers_from(snapshot(a=[WEIGHT, BIAS], b=[]))


# --- shapes that depend on the input --------------------------------------------------------------
