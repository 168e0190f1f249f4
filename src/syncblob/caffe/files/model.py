"""A net as an editable mapping of layers: opened from a file or made from a definition, and saved.

Opening a file parses its fields: names and shapes are read, weights are not. The first access of
a Blob reads its values. Saving copies unchanged parts from the file that was opened, and never has
two copies of a blob in memory.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from syncblob.caffe._pb.caffe_pb2 import LayerParameter, NetParameter, NetState, NetStateRule, Phase
from syncblob.caffe.files.caffe_hdf5 import index_hdf5, plan_hdf5
from syncblob.caffe.files.file_types import is_hdf5, require_path
from syncblob.caffe.files.recognise import plan_message, require_message
from syncblob.caffe.messages.fields import LEGACY_AXES, Write
from syncblob.caffe.messages.file_objects import Source, Target, open_source, open_target
from syncblob.caffe.messages.lazy_blobs import find_unchanged, lazy_blob
from syncblob.caffe.messages.open_file import FileReference, OpenFile
from syncblob.caffe.messages.pieces import FileRange, Piece, blob_field, size_of, write_pieces
from syncblob.caffe.messages.read_blobproto import BlobIndex, LayersInFile, MessageIndex
from syncblob.caffe.messages.string_fields import (
    decode_text,
    parse,
    put_texts,
    require_list,
    require_type,
)
from syncblob.caffe.messages.upgrade_old_nets import upgrade_layers, upgrade_net
from syncblob.caffe.messages.wire import WireReader, length_field, length_header
from syncblob.caffe.nets.copy_trained_layers import CopyReport, copy_trained_layers
from syncblob.caffe.nets.infer_shapes import NetShapes, fill_layers, infer_shapes
from syncblob.caffe.nets.layer import Layer, LayerBlobs, own_copy, serialise

_RUN = "use PyTorch's functions for its layers: see 'Running nets' in the documentation"
# What to use in place of attributes of pycaffe's Net.
_IN_PLACE_OF = {
    "blobs": f"model[name].blobs has the weights of a layer, model.infer_shapes().blobs the shapes "
    f"of the results. For the results, {_RUN}",
    "forward": _RUN,
    "save": "use syncblob.save_model(model, path)",
}


class ModelFile(MutableMapping[str, Layer]):
    """The layers of a net, by name. `open_model` makes one from a model file.

    You can replace, add, rename and remove layers. `save_model` writes the result; the file that
    was opened does not change. If several layers have the same name, the mapping has the first, as
    in Caffe, and `layers` has all. ``name.encode(errors="surrogateescape")`` gives the bytes of a
    name that is not UTF-8. `settings` is a message with the settings of the net besides its name
    and its layers; you can change it. `origin`, what the model was read from, is for this package.

    The file stays open as long as a Blob has values that were not read. Saving opens it again, to
    copy what has not changed. Windows cannot replace an open file; `close` closes it earlier.

    Parameters
    ----------
    name
        The name of the net.
    layers
        The layers, in order. They are copied; their Blobs are shared.
    """

    __slots__ = ("_by_name", "_order", "name", "origin", "settings")

    def __init__(self, name: str = "", layers: Iterable[Layer] = ()) -> None:
        require_type(name, str, "ModelFile(layers=[...]) makes a net without a name")
        require_list(layers, "layers", Layer)
        self.name: str = name
        self.settings: NetParameter = NetParameter()
        self.origin: Origin | None = None
        self._put(map(_copy, layers))

    @classmethod
    def of_own(
        cls, net: NetParameter, layers: Iterable[Layer], origin: Origin | None = None
    ) -> Self:
        """Make a model of the name and the settings of a net, and of layers; none is copied."""
        model = cls(decode_text(net.name))
        for field in ("layer", *["name"] * bool(net.name)):
            net.ClearField(field)  # but an empty name stays in the settings
        model.settings, model.origin = net, origin
        model._put(layers)
        return model

    @classmethod
    def from_net(
        cls,
        net: NetParameter,
        *,
        phase: str | None = None,
        level: int = 0,
        stages: Collection[str] = (),
    ) -> Self:
        """Make a model from a network definition, as returned by `read_prototxt`.

        Its layers have the blobs of the message, which usually has none; `fill` and
        `copy_trained_layers_from` add them. Nets of the older formats are upgraded as Caffe does.

        Parameters
        ----------
        net
            A NetParameter. It is copied.
        phase
            Take only the layers that Caffe would run in this phase, ``"TRAIN"`` or ``"TEST"``,
            according to their include and exclude rules. None takes all layers.
        level, stages
            The level and the stages that the rules are compared with. As in Caffe, the stages in
            the definition's own ``state`` are added.

        Raises
        ------
        ValueError
            If a layer has both include and exclude rules, or there is no such phase.
        """
        require_list(stages, "stages")
        own = upgrade_net(
            own_copy(NetParameter, net, "read_prototxt(path) reads one from a .prototxt")
        )
        layers = list(own.layer)
        if phase is not None:
            if not isinstance(phase, str) or phase.upper() not in Phase.keys():  # noqa: SIM118  # no mapping
                raise ValueError(
                    f"expected a phase of 'TRAIN' and 'TEST', or None for both, got {phase!r}"
                )
            state = NetState(phase=phase.upper(), level=level, stage=stages)
            state.stage.extend(own.state.stage)
            layers = [layer for layer in layers if _includes(state, layer)]
        return cls.of_own(own, [Layer.from_proto(layer) for layer in layers])

    def to_net(self) -> NetParameter:
        """Return the network definition: a new NetParameter message without blobs.

        `write_prototxt` writes it as text.
        """
        net = self.message()
        self.require_consistent()
        net.layer.extend(layer.proto for layer in self.layers)
        return net

    def message(self) -> NetParameter:
        """Return a new message with the settings and the name."""
        net = copy.deepcopy(self.settings)
        if self.name:
            put_texts(net, "name", [self.name])
        return net

    def require_consistent(self) -> None:
        """Raise the errors of `Layer.require_consistent`."""
        read = {} if self.origin is None else {settings for settings, _ in self.origin.layers}
        for layer in self.layers:
            layer.require_consistent(read)

    def _with_inputs(self) -> list[Layer]:
        """Return the layers, after one for the inputs whose shapes the net itself gives."""
        inputs = upgrade_net(self.settings).layer
        return [*map(Layer.from_proto, inputs), *self._order]

    def copy_trained_layers_from(self, source: ModelFile | str | os.PathLike[str]) -> CopyReport:
        """Copy the weights of another model, layer by layer, as Caffe's function of that name.

        Layers are matched by name. The number and the shapes of their blobs must be equal; those of
        a layer that has no blobs yet are compared with its settings and the shapes of its bottoms,
        as far as these are known. Leading axes of 1 of blobs in the older formats are ignored, and
        the blob gets the shape that it has in this model. Everything is checked before anything
        changes.

        If a layer has Blobs, the values are written into them, and they keep their dtype: views,
        parameters and layers that share them see the new values. A layer without Blobs gets new
        ones. Values that the source has not read stay in its file until the new Blob is used, even
        if the source is closed. Parameters with the same name (``param { name: "w" }``) share one
        Blob. The two models share no memory.

        Parameters
        ----------
        source
            The model that has the weights, or the path of one.

        Raises
        ------
        ValueError
            If the number or the shapes of the blobs of a layer differ.
        """
        if not isinstance(source, ModelFile):
            source = open_model(source)
        # Caffe writes a shared parameter once into HDF5, and with each layer into a .caffemodel.
        shared_once = source.origin is not None and source.origin.version is None
        return copy_trained_layers(self.layers, source.layers, shared_once=shared_once)

    def infer_shapes(self, shapes: Mapping[str, Sequence[int]] | None = None) -> NetShapes:
        """Compute the shapes of the layers' outputs and weights, as Caffe would allocate them.

        Reads no values, runs nothing, and does not change the model. Some types of forks have
        shapes too: DepthwiseConvolution, and Interp, Normalize, Permute, PriorBox and ROIPooling in
        a definition that ``read_prototxt(path, forks=True)`` has read.

        Parameters
        ----------
        shapes
            Shapes that the settings do not contain, by the names of the blobs in the net: those of
            data in a database, of inputs without a layer, and of tops of layers of unknown types.
            Those of other data layers and inputs override the settings. The shape of the labels
            follows from that of the first top of a layer that reads images.

        Raises
        ------
        ValueError
            If shapes do not fit each other or the settings, a blob is the top of two layers, such
            as layers for different phases, or there is no blob of a name in `shapes`. Settings that
            say nothing about shapes are not checked.
        """
        return infer_shapes(self._with_inputs(), shapes or {})

    def fill(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        *,
        rng: int | np.random.Generator | np.random.SeedSequence | None = None,
    ) -> tuple[str, ...]:
        """Add the blobs that Caffe would allocate to layers without blobs, and fill them.

        Layers that have blobs keep them; they must match. Parameters with the same name share a
        Blob. Layers of types that Caffe does not have stay as they are. The Blobs are float32, on
        the default device, and their values are on the host.

        Parameters
        ----------
        shapes
            As for `infer_shapes`.
        rng
            A NumPy generator, or a seed for one. The same seed gives the same weights, but not
            those of Caffe, which uses another generator.

        Returns
        -------
        tuple of str
            The names of the layers that got blobs.

        Raises
        ------
        ValueError
            As for `infer_shapes`; or if a shape is missing, a filler does not fit, or layers cannot
            share a parameter. The model has not changed then.
        """
        return fill_layers(self._with_inputs(), shapes or {}, np.random.default_rng(rng))

    # --- copies ----------------------------------------------------------------------------------

    def __copy__(self) -> Self:
        return self.of_own(self.message(), map(copy.copy, self._order), self.origin)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return an independent model of the same file, with Blobs of its own."""
        origin = self.origin
        if origin is not None:
            origin = origin._replace(file=copy.deepcopy(origin.file, memo))
        return self.of_own(self.message(), copy.deepcopy(self._order, memo), origin)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, self.layers), serialise(self.settings)

    def __setstate__(self, settings: bytes) -> None:
        self.settings = parse(NetParameter, settings)

    # --- attributes ------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The path that the file was opened with; ``""`` if there is no file."""
        return "" if self.origin is None else self.origin.file.path

    @property
    def version(self) -> int:
        """The format of the layers in the file: 2, or 1 for the older one."""
        return 2 if self.origin is None else self.origin.version or 2

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers, in the order of the file."""
        return tuple(self._order)

    def close(self) -> None:
        """Close the file. Blobs keep values that were read; accessing others raises ValueError."""
        if self.origin is not None:
            self.origin.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def params(self) -> Mapping[str, LayerBlobs]:
        """The blobs of all layers that have any, by the name of the layer, as in pycaffe."""
        return MappingProxyType({name: layer.blobs for name, layer in self.items() if layer.blobs})

    if not TYPE_CHECKING:  # so that type checkers report unknown names

        def __getattr__(self, name: str) -> object:
            advice = f"; {_IN_PLACE_OF[name]}" if name in _IN_PLACE_OF else ""
            raise AttributeError(f"a ModelFile has no attribute {name!r}{advice}")

    # --- the mapping -----------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Layer:
        try:
            return self._by_name[name][0]
        except KeyError:
            raise KeyError(
                f"{self.path or 'the model'} has no layer {name!r}; list(model) gives the names"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(layer.name for layer in self._order))

    def __len__(self) -> int:
        return len(self._by_name)

    def __setitem__(self, name: str, layer: Layer) -> None:
        """Replace the first layer with that name, or append a layer."""
        added = _copy(layer, name)
        if name in self._by_name:
            self._order[self._order.index(self[name])] = added
            self._by_name[name][0] = added
        else:
            self._order.append(added)
            self._by_name[name] = [added]

    def __delitem__(self, name: str) -> None:
        self._order.remove(self[name])
        self._forget(name)

    def add(self, layer: Layer, *, before: str | None = None, after: str | None = None) -> None:
        """Add a layer at the end, or before or after another one.

        Parameters
        ----------
        layer
            The layer, of a name that the model does not have. It is copied; its Blobs are shared.
        before, after
            The name of the layer to insert it before, or after. The default is the end.
        """
        added = _copy(layer)
        if added.name in self._by_name:
            raise ValueError(
                f"there is a layer {added.name!r} already, and Caffe uses the first of them; "
                f"model[name] = layer replaces it"
            )
        if before is not None and after is not None:
            raise ValueError(f"expected one of before and after, got {before!r} and {after!r}")
        at = len(self._order)
        if before is not None:
            at = self._order.index(self[before])
        elif after is not None:
            at = self._order.index(self[after]) + 1
        self._order.insert(at, added)
        self._by_name[added.name] = [added]

    def rename(self, old: str, new: str) -> None:
        """Rename the first layer with a name, to one that no layer has. Bottoms and tops stay."""
        layer = self[old]
        if new != old and new in self._by_name:
            raise ValueError(f"cannot rename layer {old!r}: there is a layer {new!r} already")
        layer.rename(new)
        if new != old:
            self._forget(old)
            self._by_name[new] = [layer]

    def __repr__(self) -> str:
        blobs = [blob for layer in self._order for blob in layer.blobs]
        path = f"{self.path!r}, " if self.path else ""
        return (
            f"<ModelFile {path}net {self.name!r}, format V{self.version}: "
            f"{len(self.layers)} layers, {len(blobs)} blobs, "
            f"{sum(blob.size for blob in blobs)} values>"
        )

    def _put(self, layers: Iterable[Layer]) -> None:
        self._order = list(layers)
        # The layers of each name, in order.
        self._by_name: dict[str, list[Layer]] = {}
        for layer in self._order:
            self._by_name.setdefault(layer.name, []).append(layer)

    def _forget(self, name: str) -> None:
        """Forget that the first layer of a name has it."""
        del self._by_name[name][0]
        if not self._by_name[name]:
            del self._by_name[name]


def _copy(layer: Layer, name: str | None = None) -> Layer:
    require_type(layer, Layer, "a model is a mapping of layers")
    proto = copy.deepcopy(layer.proto)
    if name is not None:
        put_texts(proto, "name", [name])
    return Layer.of_own(proto, layer.blobs)


# --- the phase of a definition --------------------------------------------------------------------


def _includes(state: NetState, layer: LayerParameter) -> bool:
    """Tell whether a layer is part of a net that Caffe runs in a state."""
    if layer.include and layer.exclude:
        raise ValueError(
            f"layer {layer.name!r} has rules of both kinds, include and exclude; Caffe takes "
            f"one kind only"
        )
    if layer.include:
        return any(_meets(state, rule) for rule in layer.include)
    return not any(_meets(state, rule) for rule in layer.exclude)


def _meets(state: NetState, rule: NetStateRule) -> bool:
    return (
        (not rule.HasField("phase") or rule.phase == state.phase)
        and (not rule.HasField("min_level") or rule.min_level <= state.level)
        and (not rule.HasField("max_level") or rule.max_level >= state.level)
        and {*state.stage}.issuperset(rule.stage)
        and {*state.stage}.isdisjoint(rule.not_stage)
    )


# --- files ----------------------------------------------------------------------------------------


def open_model(path: Source) -> ModelFile:
    """Open a ``.caffemodel`` file of the formats V2 and V1, or a ``.caffemodel.h5``.

    The format is recognised by the contents of the file. Layers of the older format appear as Caffe
    upgrades them. HDF5 files only have names and blobs; their layers are ordered by name.

    Only names and shapes are read. The values of a Blob are read when it is first accessed; until
    then, its head is UNINITIALIZED. The Blobs have the precision of the file: usually float32, else
    float64 or, from NVCaffe, float16; the higher one of data and diff. A gradient in the file
    becomes ``blob.diff``.

    Parameters
    ----------
    path
        The file, or an open binary file, such as that of ``gzip.open(path)``. Its rest is copied to
        an unnamed temporary file, and the values stay there until they are accessed.

    Raises
    ------
    ModelFileError
        If it is not such a file, is empty, is damaged, or has V0 layers, or both V1 and V2 layers.
    """
    file = open_source(path)
    with WireReader.of_file(file) as reader:
        version, net = None, NetParameter()
        if is_hdf5(file):
            found = index_hdf5(file)
        else:
            require_message(reader)
            version, net, found = index_model(reader)
    layers = [
        Layer.of_own(proto, [lazy_blob(file, blob) for blob in blobs]) for proto, blobs in found
    ]
    model = ModelFile.of_own(net, layers)
    there = tuple((serialise(proto), blobs) for proto, blobs in found)
    model.origin = Origin(file.reference, version, serialise(model.message()), there)
    return model


def save_model(
    model: ModelFile, path: Target, *, write_diff: bool | None = None, upgrade: bool = False
) -> None:
    """Write a model to a file, which is replaced as a whole or not at all.

    Unchanged blobs are copied from the file that was opened, and fields that syncblob does not know
    are kept: saving an unchanged model gives the same bytes. Everything is checked before the first
    byte is written, and values are written piece by piece. `path` may be the file that was opened.

    Parameters
    ----------
    model
        The model. Blobs whose newest values are on an accelerator are read on the host.
    path
        The file. The extensions ``.h5`` and ``.hdf5`` select Caffe's HDF5 format, which needs h5py
        and only holds the names of layers and their blobs. All others, and none, select
        ``.caffemodel``, but extensions of other formats are refused. Or an open binary file: it is
        written from its current position on, and its name, if it has one, selects the format.
    write_diff
        Whether to write the gradients too; None writes those that were in the file.
    upgrade
        Whether to write an unchanged file of an older format in the current one, too. Changed ones
        are always written in the current format.

    Raises
    ------
    TypeError
        If the dtype of a blob is not float32, float64, float16 or bfloat16. The latter two are
        widened.
    ValueError
        If the ``proto`` of a layer has another name or blobs. If the format cannot hold the model:
        2 GiB in a ``.caffemodel``; in HDF5, two layers with the same name, or a name that is empty
        or ``.`` between slashes. If the extension is that of another format, such as ``.npz``,
        which ``syncblob.caffe.convert`` writes.
    """
    require_type(model, ModelFile, "write_blob(blob, path) writes one blob")
    hdf5 = require_path(path, "caffemodel")
    model.require_consistent()
    file = None if model.origin is None else model.origin.file()
    if file is not None and _is_unchanged(
        model, file, hdf5=hdf5, write_diff=write_diff, upgrade=upgrade
    ):
        # In HDF5, the copy keeps attributes and times that a new file would not have.
        write: Write = partial(write_pieces, [FileRange(file, 0, len(file))])
    else:
        write = plan_new(model, hdf5=hdf5, write_diff=write_diff)
    with open_target(path) as temporary:
        write(temporary)


def plan_new(model: ModelFile, *, hdf5: bool, write_diff: bool | None) -> Write:
    """Plan a new file for a model, whose settings may lack what Caffe requires."""
    if hdf5:
        return plan_hdf5(model.layers, write_diff=write_diff)
    pieces: list[Piece] = [serialise(model.message())]
    for layer in model.layers:
        payload: list[Piece] = [serialise(layer.proto)]
        for number, (blob, legacy) in enumerate(layer.blobs.entries):
            payload += blob_field(
                LayerParameter.BLOBS_FIELD_NUMBER,
                f"layer {layer.name!r}: blob {number}",
                blob,
                write_diff=write_diff,
                legacy=legacy and blob.ndim == LEGACY_AXES,
            )
        pieces += [length_header(NetParameter.LAYER_FIELD_NUMBER, size_of(*payload)), *payload]
    if not model.name and not model.layers:
        # Without an empty name, the file would have no bytes, or none of a net.
        pieces.append(length_field(NetParameter.NAME_FIELD_NUMBER, b""))
    return plan_message(pieces, "caffemodel", "this model")


# --- nets as messages -----------------------------------------------------------------------------


class Origin(NamedTuple):
    """What a net was read from."""

    file: FileReference
    """The file, which stays open only for values that have not been read."""
    version: int | None
    """The format of its layers; None in HDF5."""
    settings: bytes
    """The settings of the net there, as `serialise` returns them."""
    layers: tuple[tuple[bytes, tuple[BlobIndex, ...]], ...]
    """The settings of each layer there, and its blobs."""


def index_model(reader: WireReader) -> tuple[int, NetParameter, LayersInFile]:
    """Return the format of the layers in a file, the net, and these."""
    parsed = MessageIndex(reader, NetParameter)
    version = 1 if parsed.message.layers else 2
    try:
        net = upgrade_layers(parsed.message)
    except ValueError as error:
        raise reader.error(str(error), 0) from error
    indexed: LayersInFile = []
    for proto in net.layer:
        blobs = tuple(parsed.blob(blob, decode_text(proto.name)) for blob in proto.blobs)
        proto.ClearField("blobs")
        indexed.append((proto, blobs))
    return version, net, indexed


def _is_unchanged(
    model: ModelFile, file: OpenFile, *, hdf5: bool, write_diff: bool | None, upgrade: bool
) -> bool:
    """Return whether a model would be written as the file that it was read from."""
    origin = model.origin
    return (
        origin is not None
        and hdf5 == (origin.version is None)
        and not (upgrade and origin.version == 1)
        and (hdf5 or serialise(model.message()) == origin.settings)
        and len(model.layers) == len(origin.layers)
        and all(
            settings == serialise(layer.proto)
            and [find_unchanged(blob, write_diff=write_diff) for blob in layer.blobs]
            == [(file, blob) for blob in blobs]
            for layer, (settings, blobs) in zip(model.layers, origin.layers, strict=True)
        )
    )
