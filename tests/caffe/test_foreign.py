"""Fields and enum values of forks of Caffe in definitions: left out, or translated."""

import pytest

import syncblob
from syncblob import (
    Layer,
    ModelFile,
    ModelFileError,
    read_prototxt,
    read_solver_prototxt,
    write_prototxt,
)
from syncblob.caffe._pb.caffe_pb2 import BlobProto, ForkLayer, LayerParameter, NetParameter
from syncblob.caffe.convert import convert
from syncblob.caffe.messages.wire import length_field


@pytest.mark.parametrize(
    ("content", "known"),
    [
        (
            "layer { convolution_param { num_output: 2 engine: MKL2017 } } layer { name: 'l' }",
            "layer { convolution_param { num_output: 2 } } layer { name: 'l' }",
        ),
        ("layer { loss_param { normalization: PRE_FIXED } }", "layer { loss_param { } }"),
        ("layer { pooling_param { pool: 9 } }", "layer { pooling_param { } }"),
        ("layers { blob_share_mode: [STRICT, ODD] }", "layers { blob_share_mode: STRICT }"),
        ("layers { name: 'c' type: CONVOLUTION3D }", "layers { name: 'c' }"),
        (
            "fancy: 1 layer { name: 'x { a: 1' permute_param { order: 0 nested { a: [1, 2] } } }",
            "layer { name: 'x { a: 1' }",
        ),
        (
            "layer: [{ pooling_param < ceil_mode: true, pool: AVE; > }, <name: 'r'>]",
            "layer { pooling_param { pool: AVE } } layer { name: 'r' }",
        ),
        ("a: -1 c: 'x' \"y\" d: [1, 2] f { g < h: 1 > } i: inf name: 'n'", "name: 'n'"),
    ],
)
def test_what_caffe_lacks_is_left_out(text, content, known):
    path = text(content)
    net = read_prototxt(path, ignore_unknown=True)
    assert net == read_prototxt(text(known))
    path = text(content)
    with pytest.raises(ModelFileError, match=r"line 1, column .* has no (field|value) "):
        read_prototxt(path)


def test_not_more_values_are_left_out_than_take_a_moment(text):
    layers = [f"layer {{ pooling_param {{ pool: V{number} }} }}\n" for number in range(40)]
    with pytest.raises(ModelFileError, match="line 33"):
        read_prototxt(text("".join(layers)), ignore_unknown=True)


def test_errors_keep_their_positions(text):
    path = text("fancy {\n a: 1\n}\nodd: 1 layer { name: 3 }")
    with pytest.raises(ModelFileError, match="line 4, column 22"):
        read_prototxt(path, ignore_unknown=True)


@pytest.mark.parametrize("kind", ["Convolution", "45"])
def test_types_of_the_older_format_in_other_words_stay_errors(text, kind):
    path = text(f"layers {{ type: {kind} }}")
    with pytest.raises(ModelFileError, match="capital letters, such as CONVOLUTION"):
        read_prototxt(path, ignore_unknown=True)


def test_solvers_leave_out_theirs(text):
    path = text("base_lr: 1 warmup: 3 net_param { layer { odd { } } }")
    solver = read_solver_prototxt(path, ignore_unknown=True)
    assert solver == read_solver_prototxt(text("base_lr: 1 net_param { layer { } }"))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("pooling_param { ceil_mode: false }", "round_mode: FLOOR"),
        ("pooling_param { ceil_mode: true }", "round_mode: CEIL"),
        ("pooling_param { round_mode: CEIL ceil_mode: false }", "round_mode: CEIL"),
        ("convolution_param { hole: 2 }", "dilation: 2"),
        ("convolution_param { hole_w: 3 pad: 1 hole_h: 2 }", "pad: 1 dilation: [2, 3]"),
        ("convolution_param { hole: 3 dilation: 2 }", "dilation: 2"),
    ],
)
@pytest.mark.parametrize("layer", ["layer", "layers"])
def test_rules_of_forks(text, layer, settings, expected):
    name = settings.partition(" ")[0]
    net = read_prototxt(text(f"{layer} {{ {settings} }}"), forks=True)
    assert net == read_prototxt(text(f"{layer} {{ {name} {{ {expected} }} }}"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("fancy: 1", 'no field named "fancy"'),
        ("\nlayer { permute_param { x: 1 } }", "line 2, column 25"),
        ("layer { pad_type: 1 }", 'no field named "pad_type"'),
        ("layer { convolution_param { hole_h: 2 } }", "hole_h and hole_w, got only one"),
    ],
)
def test_what_no_fork_has(text, content, words):
    with pytest.raises(ModelFileError, match=words):
        read_prototxt(text(content), forks=True)


def test_settings_of_forks_are_kept_by_their_numbers(text, tmp_path):
    path = text("""
        layer { name: "a" type: "Permute" permute_param { order: 0 order: 2 } }
        layer { name: "b" type: "Interp" interp_param { zoom_factor: 2 } }
    """)
    net = read_prototxt(path, forks=True)
    kept = [ForkLayer.FromString(layer.SerializeToString()) for layer in net.layer]
    assert list(kept[0].permute_param.order) == [0, 2]
    assert kept[1].interp_param.zoom_factor == 2
    # Nothing is lost in a file without a word.
    syncblob.save_model(ModelFile.from_net(net), tmp_path / "net.caffemodel")
    again = syncblob.open_model(tmp_path / "net.caffemodel")["a"].proto
    assert ForkLayer.FromString(again.SerializeToString()) == kept[0]
    with pytest.raises(ValueError, match="has a field 202 of a fork"):
        write_prototxt(net, tmp_path / "again.prototxt")


# --- required fields ------------------------------------------------------------------------------

CLIP = 'layer {{ name: "c" type: "Clip" bottom: "a" top: "b" clip_param {{ {} }} }}'


def test_required_fields_are_checked_when_reading(text):
    assert read_prototxt(text(CLIP.format("min: 0 max: 6"))).layer[0].clip_param.max == 6
    with pytest.raises(ModelFileError, match=r"layer\[0\].clip_param.max"):
        read_prototxt(text(CLIP.format("min: 0")))


def test_required_fields_are_checked_when_writing(tmp_path):
    layer = Layer("c", "Clip", ["a"], ["b"])
    layer.proto.clip_param.min = 0
    model = ModelFile(layers=[layer])
    model["c"].proto.clip_param.min = 0
    model["c"].proto.clip_param.ClearField("max")
    path = tmp_path / "net"
    for save in (
        lambda: syncblob.save_model(model, path),
        lambda: write_prototxt(NetParameter(layer=[model["c"].proto]), path),
        lambda: ModelFile.from_net(NetParameter(layer=[model["c"].proto])),
        lambda: Layer.from_proto(model["c"].proto),
        model.to_net,
    ):
        with pytest.raises(ValueError, match=r"clip_param\.max"):
            save()
    assert not path.exists()
    model["c"].proto.clip_param.max = 6
    syncblob.save_model(model, path)
    assert syncblob.open_model(path)["c"].proto.clip_param.max == 6


@pytest.fixture(params=["Clip", "CPMData"])
def gap(request, tmp_path):
    """Write a net with field 148 as OpenPose uses it, and as a fork's Clip might."""
    layer = LayerParameter(name="c", type=request.param, bottom=["a"], top=["a"])
    layer.MergeFromString(length_field(148, b"\x08\x08\x15\0\0\0?"))  # 1: 8, 2: 0.5
    other = LayerParameter(name="w", type="InnerProduct", blobs=[BlobProto(data=[1])])
    path = tmp_path / "gap.caffemodel"
    path.write_bytes(NetParameter(layer=[layer, other]).SerializePartialToString())
    return path


def settings_of(path):
    return syncblob.open_model(path)["c"].proto.SerializePartialToString()


def test_a_layer_with_a_gap_that_did_not_change_is_written_as_it_was(gap, tmp_path):
    model = syncblob.open_model(gap)
    syncblob.save_model(model, tmp_path / "same.caffemodel")
    assert (tmp_path / "same.caffemodel").read_bytes() == gap.read_bytes()
    model["w"].blobs[0][...] = 3
    syncblob.save_model(model, tmp_path / "edited.caffemodel")
    syncblob.save_model(model, tmp_path / "edited.h5")
    convert(gap, tmp_path / "x.safetensors")
    convert(tmp_path / "x.safetensors", tmp_path / "back.caffemodel")
    for name in ("edited", "back"):
        assert settings_of(tmp_path / f"{name}.caffemodel") == settings_of(gap)
    assert model.to_net().layer[0].clip_param.max == 0.5


def test_settings_of_a_fork_under_the_name_of_caffes(gap, tmp_path):
    model = syncblob.open_model(gap)
    is_clip = model["c"].type == "Clip"
    model["c"].bottoms = ["b"]
    if is_clip:
        with pytest.raises(ValueError, match=r"layer 'c': .*clip_param\.min"):
            syncblob.save_model(model, tmp_path / "x.caffemodel")
        with pytest.raises(ValueError, match=r"layer 'c' \(Clip\): .*clip_param\.min"):
            model.infer_shapes({"b": (2,)})
        return
    syncblob.save_model(model, tmp_path / "x.caffemodel")
    net = ModelFile.from_net(model.to_net()).to_net()
    path = tmp_path / "x.prototxt"
    with pytest.raises(ValueError, match="layer 'c' has a field 148 of a fork"):
        write_prototxt(net, path)
    write_prototxt(net, path, ignore_unknown=True)
    assert read_prototxt(path).layer[0].bottom == ["b"]
