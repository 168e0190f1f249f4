"""The options of conversions and their errors. After an error, nothing has been written."""

import sys
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from comparable_models import FAITHFUL, need_library_of

import syncblob
from syncblob import Layer, ModelFile, open_model
from syncblob.caffe import squeezed_blobs
from syncblob.caffe._pb.caffe_pb2 import NetParameter
from syncblob.caffe.convert import (
    ConversionError,
    convert,
    open_weights,
    plan_conversion,
    to_tensors,
)
from syncblob.caffe.convert.caffe_files import as_model
from syncblob.caffe.messages.string_fields import encode_text

_ALL = [*FAITHFUL, "pt"]


def _save(path, *layers):
    syncblob.save_model(ModelFile("n", layers), path)
    return path


def _names(directory):
    return sorted(path.name for path in directory.iterdir())


# --- dtype ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("extension", ["safetensors", "pt"])
@pytest.mark.parametrize("dtype", ["bfloat16", np.float16, "single", np.dtype("<f8")])
def test_values_of_another_dtype(model, tmp_path, dtype, extension):
    need_library_of(extension)
    convert(model.path, tmp_path / f"x.{extension}", dtype=dtype)
    with open_weights(tmp_path / f"x.{extension}") as found:
        for name, was in to_tensors(model).items():
            blob = found.tensors[name]
            assert blob.dtype == (ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
            assert np.asarray(blob).tobytes() == np.asarray(was).astype(blob.dtype).tobytes()


@pytest.mark.parametrize("extension", ["caffemodel", "caffemodel.h5"])
def test_caffes_formats_widen_what_they_cannot_hold(tmp_path, extension):
    half = np.array([1.5, np.nan, np.inf], np.float16)
    np.savez(tmp_path / "x.npz", **{"a.weight": half})
    convert(tmp_path / "x.npz", tmp_path / f"x.{extension}")
    with syncblob.open_model(tmp_path / f"x.{extension}") as found:
        (blob,) = found["a"].blobs
        assert blob.dtype == np.float32
        np.testing.assert_array_equal(np.asarray(blob), half.astype(np.float32))


@pytest.mark.parametrize(
    ("values", "dtype", "reason"),
    [
        (np.array([1.0, 1e5, -1e5]), "float16", "2 values do not fit float16, 100000.0"),
        (np.array([1e300]), "float32", "1 values do not fit float32"),
        (np.array([2**24 + 1]), "float32", "1 values do not fit float32, 16777217"),
        (np.array([2**63 - 1, 2**63 - 2, 0]), "float64", "2 values do not fit float64"),
        (np.array([2**64 - 1, 2**64 - 2, 0], "u8"), "float32", "2 values do not fit float32"),
        (np.array([2**32 - 1, 2**32 - 2, 0], "u4"), "float16", "2 values do not fit float16"),
        (np.array([2**32 - 1, 2**32 - 2, 0], "u4"), "float64", ""),
        (np.array([-(2**31)], np.int32), "float16", "1 values do not fit float16, -2147483648"),
        (np.array([-(2**63)]), "float16", "1 values do not fit float16"),
        (np.array([np.inf, np.nan, 65504.0]), "float16", ""),
        (np.array([1e-300]), "float16", ""),
        (np.array([True, False]), "float16", ""),
        (np.array([2**24]), "float32", ""),
    ],
)
def test_values_that_fit_or_do_not(tmp_path, values, dtype, reason):
    np.savez(tmp_path / "x.npz", **{"a.weight": values})
    if not reason:
        convert(tmp_path / "x.npz", tmp_path / "y.npz", dtype=dtype)
        found = np.load(tmp_path / "y.npz")["a.weight"]
        np.testing.assert_array_equal(found, values.astype(dtype), strict=True)
        return
    with pytest.raises(ConversionError, match="tensor") as caught:
        convert(tmp_path / "x.npz", tmp_path / "y.npz", dtype=dtype)
    assert reason in str(caught.value)
    assert _names(tmp_path) == ["x.npz"]


# --- the description -----------------------------------------------------------------------------


@pytest.mark.parametrize("extension", ["npz", "h5", "caffemodel.h5", "pt"])
def test_other_formats_have_tensors_alone(model, tmp_path, extension):
    need_library_of(extension)
    path = tmp_path / f"x.{extension}"
    with plan_conversion(model.path, path) as conversion:
        words = "types and settings of the layers, and 1 layer without weights"
        assert conversion.left_out == words
        conversion.run()
    with open_weights(path) as found:
        assert len(found.tensors) == 11
        assert {each.layer.type for each in found.layers} <= {"", "BatchNorm"}
    if extension == "npz":
        assert all(array.dtype.kind == "f" for array in np.load(path).values())


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "asked", "reason"),
    [
        ("y.txt", {}, "expected a name that says the format"),
        ("y.npz", {"layers": ["conv*", "CONV*"]}, "no layer is called 'CONV*'"),
        ("y.npz", {"dtype": "int8"}, "expected a dtype of bfloat16"),
        ("y.npz", {"dtype": "hlaf"}, "expected a dtype of bfloat16"),
        ("y.npz", {"layers": "x*"}, "no layer is called 'x*'"),
        ("y.binaryproto", {}, "expected a name that says the format"),
        (
            "y.npz",
            {"dtype": "bfloat16"},
            "as bfloat16; convert it to float16 or float32 or float64",
        ),
        ("y.caffemodel", {"dtype": "float16"}, "as float16; convert it to float32 or float64, or"),
    ],
)
def test_what_is_asked_for_in_vain(model, tmp_path, name, asked, reason):
    before = _names(tmp_path)
    with pytest.raises(ConversionError, match=None) as caught:
        plan_conversion(model.path, tmp_path / name, **asked)
    assert reason in str(caught.value)
    assert _names(tmp_path) == before


@pytest.mark.parametrize(
    ("tensors", "name", "reason"),
    [
        ({"a.n": [1]}, "y.caffemodel", "tensor 'a.n' is int64"),
        ({"a.n": [1]}, "y.caffemodel.h5", "tensor 'a.n' is int64"),
        ({"a": [1j]}, "y.caffemodel", "'a' is complex64, which cannot be written to caffemodel"),
        ({"a": [1j]}, "float32.npz", "to npz as float32; convert it to float16 or float32 or"),
        ({"a//b.n": [1.0]}, "y.caffemodel.h5", "cannot hold 'data/a//b'"),
        ({"a": [1.0], "a/b": [1.0]}, "y.h5", "HDF5 cannot hold 'a'"),
        ({"a//b": [1.0]}, "y.h5", "HDF5 cannot hold"),
        ({"./b": [1.0]}, "y.h5", "HDF5 cannot hold"),
        ({"a": np.ones((1,) * 33)}, "y.h5", "y.h5: "),
        ({"__metadata__": [1.0]}, "y.safetensors", "which is the name of its metadata"),
        ({"a\0b.weight": [1.0]}, "y.npz", "expected a name without NUL"),
        ({"n\udcffme.w": [1.0]}, "y.npz", "layer 'n\\udcffme': expected a name in UTF-8"),
        ({"n\udcffme": [1.0]}, "y.safetensors", "layer 'n\\udcffme': expected a name in UTF-8"),
    ],
)
def test_what_a_format_cannot_hold(tmp_path, tensors, name, reason):
    torch = pytest.importorskip("torch")
    stem = name.partition(".")[0]
    made = {key: torch.from_numpy(np.array(values)) for key, values in tensors.items()}
    made = {
        key: value.to(torch.complex64) if value.is_complex() else value
        for key, value in made.items()
    }
    torch.save(made, tmp_path / "x.pt")
    with pytest.raises(ConversionError, match=None) as caught:
        convert(tmp_path / "x.pt", tmp_path / name, dtype=None if stem == "y" else stem)
    assert reason in str(caught.value)
    assert _names(tmp_path) == ["x.pt"]


@pytest.mark.parametrize("extension", ["npz", "safetensors", "caffemodel"])
def test_texts_beside_tensors_are_left_out(tmp_path, extension):
    weights = np.arange(6, dtype="f4").reshape(2, 3)
    texts = {"name": "run1", "of": np.array([b"a", b"b"]), "more": np.array([{}, None])}
    np.savez(tmp_path / "x.npz", w=weights, **texts)
    with plan_conversion(tmp_path / "x.npz", tmp_path / f"y.{extension}", layers=["w"]) as planned:
        left_out = "the text 'name', and the text 'of', and the objects 'more'"
        assert planned.left_out == left_out
        planned.run()
    with open_weights(tmp_path / f"y.{extension}") as found:
        (blob,) = found.tensors.values()
        assert blob.tolist() == weights.tolist()


@pytest.fixture
def with_settings(tmp_path):
    """Write a net of an older format with settings of its own."""
    net = NetParameter(name="n", force_backward=True, input=["P"], input_dim=[1, 2, 3, 4])
    layer = net.layers.add(name="a", type=14)  # INNER_PRODUCT
    layer.blobs.add(num=1, channels=1, height=1, width=2, data=[1, 2])
    path = tmp_path / "x.caffemodel"
    path.write_bytes(net.SerializeToString().replace(b"P", b"\xb5"))
    return path


@pytest.mark.parametrize("name", ["y.safetensors", ""])
def test_settings_of_the_net_come_back(with_settings, tmp_path, name):
    source = with_settings
    if name:
        with plan_conversion(source, tmp_path / name) as planned:
            assert planned.left_out == ""
            planned.run()
        source = tmp_path / name
    with plan_conversion(source, tmp_path / "back.caffemodel") as planned:
        assert planned.left_out == ""
        planned.run()
    before, after = (
        open_model(path).to_net() for path in (with_settings, tmp_path / "back.caffemodel")
    )
    assert list(map(encode_text, before.input)) == [b"\xb5"]
    for net in (before, after):
        del net.layer[:]
    assert before == after


@pytest.mark.parametrize("name", ["y.pt", "y.npz"])
def test_settings_of_the_net_that_are_left_out_are_named(with_settings, tmp_path, name):
    need_library_of(name.partition(".")[2])
    with plan_conversion(with_settings, tmp_path / name) as planned:
        assert planned.left_out == (
            "input of the net, and input_dim of the net, and force_backward of the net, and "
            "types and settings of the layers"
        )


def test_metadata_of_other_programs_is_left_out(tmp_path):
    safetensors.numpy.save_file(
        {"w": np.ones(2)}, tmp_path / "x.safetensors", metadata={"format": "pt"}
    )
    for name, left_out in (("y.safetensors", "the metadata 'format'"), ("z.npz", "")):
        with plan_conversion(tmp_path / "x.safetensors", tmp_path / name) as planned:
            assert planned.left_out == left_out
            planned.run()
        (tmp_path / name).replace(tmp_path / "x.safetensors")


def test_a_place_that_cannot_be_written_is_named(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="folder to write to does not exist") as caught:
        plan_conversion(model.path, tmp_path / "no" / "x.npz")
    assert caught.value.filename == str(tmp_path / "no")
    (tmp_path / "x.npz").mkdir()
    with pytest.raises(IsADirectoryError, match="expected a file to write, got a folder"):
        plan_conversion(model.path, tmp_path / "x.npz")


def test_a_missing_file(tmp_path):
    for extension in _ALL:
        # This error does not require a library.
        with pytest.raises(FileNotFoundError):
            open_weights(tmp_path / f"nowhere.{extension}")


@pytest.mark.parametrize(("package", "extension"), [("h5py", "h5"), ("torch", "pt")])
def test_a_missing_library_is_named(monkeypatch, model, tmp_path, package, extension):
    monkeypatch.setitem(sys.modules, package, None)
    extra = {"h5py": "hdf5"}.get(package, package)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'syncblob\[{extra}\]'"):
        plan_conversion(model.path, tmp_path / f"x.{extension}")


# --- writing -------------------------------------------------------------------------------------


def test_a_plan_reads_no_values_and_writes_nothing(model, tmp_path):
    before = _names(tmp_path)
    with plan_conversion(model.path, tmp_path / "x.npz", dtype="float16") as conversion:
        assert conversion.result.nbytes == 2 * sum(
            blob.size for layer in model.layers for blob in layer.blobs
        )
        heads = {blob.head for blob in conversion.source.tensors.values()}
        assert heads == {syncblob.Head.UNINITIALIZED}
        blob = conversion.result.tensors["ip.weight"]
        assert blob.dtype == np.float16
        expected = np.asarray(model["ip"].blobs[0]).astype(np.float16)
        np.testing.assert_array_equal(np.asarray(blob), expected)
    assert _names(tmp_path) == before


@pytest.mark.parametrize("extension", ["npz", "h5", "caffemodel", "caffemodel.h5"])
def test_writing_tensor_by_tensor_takes_the_memory_of_one(tmp_path, extension):
    one = np.zeros(1 << 20, np.float32)
    path = _save(tmp_path / "x.caffemodel", *(Layer(f"ip{i}", blobs=[one]) for i in range(8)))
    convert(path, tmp_path / f"warm.{extension}", layers=["ip0"])
    with plan_conversion(path, tmp_path / f"y.{extension}") as conversion:
        tracemalloc.start()
        try:
            conversion.run()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 2.5 * one.nbytes


def _old_inner_product(path, *, settings, bias):
    """Write a net of the older format with blobs of shapes (2, 3) and (2,); return its layer."""
    net = NetParameter()
    layer = net.layers.add(name="ip1", type=14)  # INNER_PRODUCT
    if settings:
        layer.inner_product_param.num_output = 2
        layer.inner_product_param.bias_term = bias
    layer.blobs.add(num=1, channels=1, height=2, width=3, data=range(6))
    if bias:
        layer.blobs.add(num=1, channels=1, height=1, width=2, data=range(2))
    path.write_bytes(net.SerializeToString())
    return layer


@pytest.mark.parametrize("name", ["x.caffemodel.h5", "x.pt", "x.npz", "x.h5", "x.safetensors"])
def test_other_formats_do_not_get_the_axes_of_the_older_format(tmp_path, name):
    need_library_of(name.partition(".")[2])
    _old_inner_product(tmp_path / "old.caffemodel", settings=True, bias=True)
    convert(tmp_path / "old.caffemodel", tmp_path / name)
    with open_weights(tmp_path / name) as found:
        shapes = [blob.shape for blob in found.tensors.values()]
    assert shapes == [(2, 3), (2,)]
    convert(tmp_path / name, tmp_path / "back.caffemodel")
    blobs = NetParameter.FromString((tmp_path / "back.caffemodel").read_bytes()).layer[0].blobs
    assert [tuple(blob.shape.dim) for blob in blobs] == shapes
    assert list(blobs[0].data) == list(range(6))


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_without_settings_keeps_the_axes_of_the_older_format(tmp_path, bias):
    layer = _old_inner_product(tmp_path / "old.caffemodel", settings=False, bias=bias)
    with open_weights(tmp_path / "old.caffemodel") as found:
        shapes = [blob.shape for blob in squeezed_blobs(as_model(found)["ip1"])]
    assert shapes == [(2, 3), (2,)][: len(layer.blobs)]
    convert(tmp_path / "old.caffemodel", tmp_path / "back.caffemodel")
    back = NetParameter.FromString((tmp_path / "back.caffemodel").read_bytes())
    assert back.layer[0].blobs == layer.blobs


@pytest.mark.parametrize("field", ["layers", "layer"])
def test_a_layer_of_an_unknown_type_keeps_the_dimensions_of_the_older_format(tmp_path, field):
    net = NetParameter()
    layer = getattr(net, field).add(name="custom")
    if field == "layer":
        layer.type = "Custom"
        layer.param.add(lr_mult=2)
    layer.blobs.add(num=1, channels=1, height=1, width=3, data=range(3))
    layer.blobs.add(shape={"dim": [1, 1, 1, 3]}, data=range(3))
    path = tmp_path / "old.caffemodel"
    path.write_bytes(net.SerializeToString())
    convert(path, tmp_path / "back.caffemodel", dtype="float64")
    path = tmp_path / "back.caffemodel"
    blobs = NetParameter.FromString(path.read_bytes()).layer[0].blobs
    assert [blob.HasField("num") for blob in blobs] == [True, False]
    assert [blob.shape for blob in open_model(path)["custom"].blobs] == [(1, 1, 1, 3)] * 2


@pytest.mark.parametrize("extension", _ALL)
def test_a_conversion_of_nothing_is_an_error(tmp_path, extension):
    need_library_of(extension)
    target = tmp_path / f"x.{extension}"
    target.write_bytes(b"old")
    syncblob.save_model(ModelFile("n"), tmp_path / "none.caffemodel")
    with pytest.raises(ConversionError, match=r"expected weights to write, and .*none\.caffemodel"):
        convert(tmp_path / "none.caffemodel", target)
    assert target.read_bytes() == b"old"


def _transposed(tmp_path):
    layer = Layer("ip", "InnerProduct", blobs=[np.arange(4, dtype="f4").reshape(2, 2), [5.0, 6.0]])
    layer.proto.inner_product_param.transpose = True
    return _save(tmp_path / "x.caffemodel", layer)


@pytest.mark.parametrize("extension", [*_ALL, "npz", "h5", "caffemodel.h5"])
def test_inner_products_with_transpose_are_outputs_by_inputs_but_in_caffe(tmp_path, extension):
    need_library_of(extension)
    path, back = tmp_path / f"y.{extension}", tmp_path / "back.caffemodel"
    with plan_conversion(_transposed(tmp_path), path) as planned:
        note = planned.note
        planned.run()
    words = "The weights of 'ip' are now (outputs, inputs)"
    assert (words in note) == (path.suffixes[0] != ".caffemodel")
    convert(path, back)
    expected = [[0, 1], [2, 3]] if not note else [[0, 2], [1, 3]]
    for each in (path, back):
        with open_weights(each) as found:
            values = {name: blob.tolist() for name, blob in found.tensors.items()}
            assert values == {"ip.weight": expected, "ip.bias": [5, 6]}
    transposed = open_model(back)["ip"].proto.inner_product_param.transpose
    assert transposed == (extension == "caffemodel")


def test_inner_products_with_transpose_as_tensors(tmp_path):
    model = open_model(_transposed(tmp_path))
    weight = to_tensors(model, squeeze=True)["ip.weight"]
    assert weight.tolist() == [[0, 2], [1, 3]]
    weight[0, 1] = 7
    assert model["ip"].blobs[0].tolist() == [[0, 1], [7, 3]]
    assert to_tensors(model)["ip.weight"] is model["ip"].blobs[0]
