"""Fields and enum values of forks of Caffe in definitions: kept out, listed, or translated."""

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
from syncblob.caffe._pb.caffe_pb2 import ForkLayer, LayerParameter, NetParameter


def listed(message):
    return [(each.name, each.count, each.rule) for each in message.ignored]


ENUMS = [
    (
        'layer { name: "c" convolution_param { num_output: 2 engine: MKL2017 } }',
        "layer.convolution_param.engine: MKL2017",
    ),
    (
        "layer { loss_param { normalization: PRE_FIXED } }",
        "layer.loss_param.normalization: PRE_FIXED",
    ),
    ("layers { name: 'c' type: CONVOLUTION3D }", "layers.type: CONVOLUTION3D"),
    ("layers { type: VIDEO_DATA top: 'a' }", "layers.type: VIDEO_DATA"),
    ("layers { type: 45 }", "layers.type: 45"),
    ("layers { blob_share_mode: [STRICT, ODD] }", "layers.blob_share_mode: ODD"),
]


@pytest.mark.parametrize(("content", "name"), ENUMS)
def test_enum_values_that_caffe_lacks(text, content, name):
    path = text(content)
    net = read_prototxt(path, ignore_unknown=True)
    assert len(net.layer) + len(net.layers) == 1
    assert listed(net) == [(name, 1, "")]
    value = name.split()[-1]
    with pytest.raises(
        ModelFileError, match=rf"{value}; read_prototxt\(path, ignore_unknown=True\)"
    ):
        read_prototxt(path)


def test_fields_are_listed_once_with_their_counts(text):
    path = text("""
        fancy: "a" "b"  # fancy: not in a comment
        layer { name: 'x { fancy: 1' permute_param { order: 0 nested { a: [1, 2] } } }
        layer { name: "p" pooling_param { ceil_mode: false pool: AVE; } }
        layer: [{ name: "q" pooling_param < ceil_mode: true, kernel_size: 2 > }, <name: "r">]
    """)
    net = read_prototxt(path, ignore_unknown=True)
    assert listed(net) == [
        ("layer.permute_param", 1, ""),
        ("layer.pooling_param.ceil_mode", 2, ""),
        ("fancy", 1, ""),
    ]
    net.ClearField("ignored")
    expected = [LayerParameter(name=name) for name in ("x { fancy: 1", "p", "q", "r")]
    expected[1].pooling_param.pool = 1
    expected[2].pooling_param.kernel_size = 2
    assert net == NetParameter(layer=expected)


def test_values_of_every_form_are_left_out(text):
    path = text(
        "a: -1 b: - 2 c: 'x' \"y\" d: [1, {e: 2}] f { g < h: 1 > } i: inf name: 'n' [j.k]: 3"
    )
    net = read_prototxt(path, ignore_unknown=True)
    assert net.name == "n"
    assert sorted(name for name, _, _ in listed(net)) == ["[j.k]", *"abcdfi"]


def test_nothing_is_listed_for_caffes_own(text):
    path = text('layer { name: "c" convolution_param { engine: CUDNN pad: [1, 2] } }')
    assert not read_prototxt(path, ignore_unknown=True, forks=True).ignored
    assert not read_prototxt(path).ignored


def test_errors_keep_their_positions(text):
    path = text("fancy {\n a: 1\n}\nodd: 1 layer { phase: 'a' }")
    with pytest.raises(ModelFileError, match="line 4, column 23"):
        read_prototxt(path, ignore_unknown=True)


def test_types_in_the_words_of_the_other_format_stay_errors(text):
    path = text("layers { type: Convolution }")
    with pytest.raises(ModelFileError, match="capital letters, such as CONVOLUTION"):
        read_prototxt(path, ignore_unknown=True)


def test_the_list_is_no_field_of_the_format(text, tmp_path):
    with pytest.raises(ModelFileError, match='no field named "ignored"'):
        read_prototxt(text("ignored { name: 'a' }"))
    net = read_prototxt(text("fancy: 1 name: 'n'"), ignore_unknown=True)
    write_prototxt(net, tmp_path / "again.prototxt")
    assert read_prototxt(tmp_path / "again.prototxt") == NetParameter(name="n")
    assert listed(net)  # as it was
    assert ModelFile.from_net(net).to_net() == NetParameter(name="n")


def test_solvers_list_theirs(text, tmp_path):
    path = text("base_lr: 1 warmup: 3 net_param { layer { odd { } } }")
    solver = read_solver_prototxt(path, ignore_unknown=True)
    assert sorted(listed(solver)) == [("net_param.layer.odd", 1, ""), ("warmup", 1, "")]
    write_prototxt(solver, tmp_path / "again.prototxt")
    again = read_solver_prototxt(tmp_path / "again.prototxt")
    assert (again.base_lr, len(again.ignored), again.HasField("train_net_param")) == (1, 0, False)


@pytest.mark.parametrize(
    ("settings", "expected", "rule"),
    [
        ("pooling_param { ceil_mode: false }", "round_mode: FLOOR", "round_mode: FLOOR"),
        ("pooling_param { ceil_mode: true }", "round_mode: CEIL", "round_mode: CEIL"),
        (
            "pooling_param { round_mode: CEIL ceil_mode: false }",
            "round_mode: CEIL",
            "round_mode: FLOOR",
        ),
        ("convolution_param { hole: 2 }", "dilation: 2", "dilation"),
        ("convolution_param { hole_w: 3 pad: 1 hole_h: 2 }", "pad: 1 dilation: [2, 3]", "dilation"),
    ],
)
def test_rules_of_forks(text, settings, expected, rule):
    name = settings.partition(" ")[0]
    net = read_prototxt(text(f"layer {{ {settings} }}"), forks=True)
    assert {each.rule for each in net.ignored} == {rule}
    net.ClearField("ignored")
    assert net == read_prototxt(text(f"layer {{ {name} {{ {expected} }} }}"))


def test_settings_of_forks_are_kept_by_their_numbers(text, tmp_path):
    path = text("""
        layer { name: "a" type: "Permute" permute_param { order: 0 order: 2 } }
        layer { name: "b" type: "Interp" interp_param { zoom_factor: 2 } }
        layer { name: "c" type: "Pooling" pooling_param { pad_type: 1 } }
    """)
    net = read_prototxt(path, forks=True)
    assert [each.rule != "" for each in net.ignored] == [True] * 3
    kept = [ForkLayer.FromString(layer.SerializeToString()) for layer in net.layer]
    assert list(kept[0].permute_param.order) == [0, 2]
    assert kept[1].interp_param.zoom_factor == 2
    assert kept[2].pad_type == 1
    # Caffe's other fields are still errors, and nothing is lost in a file without a word.
    syncblob.save_model(ModelFile.from_net(net), tmp_path / "net.caffemodel")
    again = syncblob.open_model(tmp_path / "net.caffemodel")["a"].proto
    assert ForkLayer.FromString(again.SerializeToString()) == kept[0]
    with pytest.raises(ValueError, match="has a field 202 of a fork"):
        write_prototxt(net, tmp_path / "again.prototxt")
    with pytest.raises(ModelFileError, match='no field named "fancy"'):
        read_prototxt(text("fancy: 1"), forks=True)
    with pytest.raises(ModelFileError, match="line 2, column 25"):
        read_prototxt(text("\nlayer { permute_param { x: 1 } }"), forks=True)


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


def test_a_file_with_a_gap_is_read_but_not_written_again(tmp_path):
    layer = LayerParameter(name="c", type="Clip", bottom=["a"], top=["a"])
    layer.clip_param.min = 0
    path = tmp_path / "gap.caffemodel"
    path.write_bytes(NetParameter(layer=[layer]).SerializePartialToString())
    model = syncblob.open_model(path)
    assert model["c"].proto.clip_param.min == 0
    with pytest.raises(ValueError, match=r"layer 'c' \(Clip\): .*clip_param\.max"):
        model.infer_shapes({"a": (2,)})
    with pytest.raises(ValueError, match=r"layer 'c': .*clip_param\.max"):
        syncblob.save_model(model, tmp_path / "again.caffemodel")
