"""A net as a mapping of layers that can be edited, with its weights in the file until touched."""

from __future__ import annotations

import copy
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Protocol

from syncblob.caffe._layer import Layer
from syncblob.caffe._trained_layers import copy_trained_layers

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from typing import Self

    from syncblob.caffe._layer import LayerBlobs
    from syncblob.caffe._pb.caffe_pb2 import NetParameter
    from syncblob.caffe._trained_layers import CopyReport

__all__ = ["ModelFile"]

_RUN = "functions of PyTorch's run its layers: see 'Running nets' in the documentation"
# What to use in place of the names of pycaffe's Net.
_IN_PLACE_OF = {
    "backward": _RUN,
    "blobs": f"model[name].blobs has the weights of a layer. For the results, {_RUN}",
    "copy_from": "use model.copy_trained_layers_from(path)",
    "forward": _RUN,
    "inputs": "model[name].bottoms has those of a layer",
    "layer_dict": "the model is one: use model[name]",
    "outputs": "model[name].tops has those of a layer",
    "save": "use syncblob.save_model(model, path)",
    "save_hdf5": "use syncblob.save_model(model, path), with a path that ends in .h5",
}


class _Source(Protocol):
    """An open file that layers were found in."""

    @property
    def path(self) -> str:
        """The path that it was opened by."""

    def close(self) -> None:
        """Let go of the file."""


class ModelFile(MutableMapping[str, Layer]):
    """The layers of a net, by name; those of a ``.caffemodel`` file where `open_model` made it.

    Layers can be replaced, added, renamed and removed, and `save_model` writes the result; the
    file that was opened does not change. Where several layers have one name, the mapping has the
    first, as Caffe does; `layers` has all of them. Names that are not UTF-8 are decoded with
    ``errors="surrogateescape"``, as file names are in Python, so that
    ``name.encode(errors="surrogateescape")`` gives the bytes back.

    The file stays mapped as long as the ModelFile, one of its layers, or a Blob that has not read
    its values yet, needs it. On Windows a mapped file cannot be replaced or deleted; `close` ends
    that earlier.

    Parameters
    ----------
    name
        The name of the net.
    layers
        The layers, in order. They are copied, their Blobs are shared.
    """

    __slots__ = (
        "_by_name",
        "_claimed",
        "_layers",
        "_name_in_file",
        "_rest",
        "_source",
        "_version",
        "name",
    )

    name: str

    def __init__(self, name: str = "", layers: Iterable[Layer] = ()) -> None:
        if not isinstance(name, str):
            raise TypeError(
                f"expected the name of the net, then its layers, got {type(name).__name__} as the "
                f"name; ModelFile(layers=[...]) makes a net without a name"
            )
        if isinstance(layers, Layer):
            raise TypeError("expected a list of layers, got one Layer; put it in a list: [layer]")
        self._fill(None, name, 2, [_copied(layer) for layer in layers])

    def _fill(
        self, source: _Source | None, name: str, version: int, layers: Sequence[Layer]
    ) -> None:
        self._source = source
        self.name = name
        self._name_in_file = name
        self._version = version
        self._layers = list(layers)
        # Where in the file the layers lie that the model had at first.
        self._claimed = frozenset(
            layer._record.index.start for layer in layers if layer._record is not None
        )
        # The settings of the net besides name and layers, where there is no file to copy them from.
        self._rest = b""
        self._index()

    @classmethod
    def _opened(
        cls, source: _Source | None, *, name: str, version: int, layers: Sequence[Layer]
    ) -> Self:
        """Make the model that was found in a file."""
        model = cls.__new__(cls)
        model._fill(source, name, version, layers)
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
        """Make a model of a network definition, as `read_prototxt` returns it.

        Its layers have the blobs of the message: usually none. Nets of the older formats are
        upgraded as Caffe does.

        Parameters
        ----------
        net
            A NetParameter. It is copied.
        phase
            Take only the layers that Caffe would run in this phase, ``"TRAIN"`` or ``"TEST"``, by
            their rules of inclusion and exclusion; in any case of letters. None takes all.
        level, stages
            The rest of the state that the rules look at.

        Raises
        ------
        TypeError
            If `net` is no NetParameter.
        ValueError
            If a layer has rules of both kinds, which Caffe refuses too, or if there is no such
            phase.
        """
        from syncblob.caffe._nets import split_net  # needs protobuf

        settings, layers = split_net(net, phase, level, stages)
        model = cls(net.name, layers)
        model._rest = settings
        return model

    def to_net(self) -> NetParameter:
        """Return the network definition: a new NetParameter message without blobs.

        `write_prototxt` writes it as text.
        """
        from syncblob.caffe._nets import net_message  # needs protobuf

        return net_message(self)

    def copy_trained_layers_from(self, source: ModelFile | str | os.PathLike[str]) -> CopyReport:
        """Take over the blobs of another model, layer by layer, as Caffe's function of that name.

        Layers are matched by name. The source must have the number and the shapes of blobs that
        the layer of this model has; if it has none yet, those that its settings ask for, as far as
        they can be told without running the net. A blob of the older formats fits without the
        axes of 1 in front, and is taken over in the shape that this model has. Everything is
        checked before anything changes. The Blobs are then shared by the two models.

        Parameters
        ----------
        source
            The model that has the weights, or the path of one.

        Returns
        -------
        CopyReport
            Which layers were copied, which of this model are missing in the source, and which of
            the source were ignored because this model does not have them.

        Raises
        ------
        TypeError
            If `source` is neither.
        ValueError
            If number or shapes of the blobs of a layer differ.
        """
        if not isinstance(source, ModelFile):
            from syncblob.caffe.files import open_model  # which makes models

            source = open_model(source)
        return copy_trained_layers(self, source)

    # --- copies ----------------------------------------------------------------------------------

    def __copy__(self) -> Self:
        """Return a model whose layers can be edited independently; their Blobs are shared."""
        return self._duplicate(self._source, [layer._copy(layer.name) for layer in self._layers])

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return an independent model of the same file, with Blobs of its own.

        Values that have not been read stay in the file, which each of the two closes on its own.
        """
        layers = copy.deepcopy(self._layers, memo)
        return self._duplicate(copy.deepcopy(self._source, memo), layers)

    def _duplicate(self, source: _Source | None, layers: list[Layer]) -> Self:
        model = type(self)._opened(source, name=self.name, version=self._version, layers=layers)
        model._name_in_file = self._name_in_file
        model._claimed = self._claimed
        model._rest = self._rest
        return model

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the contents: all values are read. What comes back is a model without a file."""
        from syncblob.caffe._write_model import unnamed_net_settings  # few need it

        return _restored, (type(self), self.name, self._layers, unnamed_net_settings(self))

    # --- attributes ------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The path that the file was opened by; ``""`` where there is no file."""
        return "" if self._source is None else self._source.path

    @property
    def version(self) -> int:
        """The format of the layers in the file: 2, or 1 or 0 for the older ones."""
        return self._version

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers, in the order of the file."""
        return tuple(self._layers)

    def close(self) -> None:
        """Unmap the file.

        Blobs that have read their values keep them. Touching one that has not raises ValueError.
        Closing twice does nothing.
        """
        if self._source is not None:
            self._source.close()

    def __enter__(self) -> Self:
        """Return the model; it is closed at the end of the ``with`` block."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the file."""
        self.close()

    @property
    def params(self) -> dict[str, LayerBlobs]:
        """The blobs of all layers that have some, by the layer's name, as in pycaffe.

        ``model.params["conv1"][0]`` is ``model["conv1"].blobs[0]``.
        """
        return {name: layer.blobs for name, layer in self.items() if layer.blobs}

    if not TYPE_CHECKING:  # to a checker they are as unknown as any other name

        def __getattr__(self, name: str) -> object:
            """Say what to use in place of pycaffe's names; called for what is not there."""
            advice = _IN_PLACE_OF.get(name)
            raise AttributeError(
                f"a ModelFile has no attribute {name!r}" + (f"; {advice}" if advice else "")
            )

    # --- the mapping -----------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Layer:
        """Return the first layer of a name."""
        try:
            return self._by_name[name]
        except KeyError:
            raise KeyError(
                f"{self.path or 'the model'} has no layer {name!r}; list(model) gives the names"
            ) from None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in file order."""
        return iter(self._by_name)

    def __len__(self) -> int:
        """Return the number of different names."""
        return len(self._by_name)

    def __setitem__(self, name: str, layer: Layer) -> None:
        """Put a layer in place of the first one of that name, or behind all others.

        The layer is copied, with this name; its Blobs are shared.
        """
        added = _copied(layer, name)
        if name in self._by_name:
            self._layers[self._position(name)] = added
        else:
            self._layers.append(added)
        self._index()

    def __delitem__(self, name: str) -> None:
        """Remove the first layer of a name. Bottoms and tops of the others stay."""
        del self._layers[self._position(name)]
        self._index()

    def add(self, layer: Layer, *, before: str | None = None, after: str | None = None) -> None:
        """Add a layer at a place.

        Parameters
        ----------
        layer
            The layer. It is copied; its Blobs are shared.
        before, after
            The name of the layer that it is to come before, or after. By default it comes last.

        Raises
        ------
        ValueError
            If there is a layer of its name already, or if both `before` and `after` are given.
        KeyError
            If there is no layer `before` or `after`.
        """
        added = _copied(layer)
        if added.name in self._by_name:
            raise ValueError(
                f"there is a layer {added.name!r} already, and Caffe uses the first of a name; "
                f"model[name] = layer replaces it"
            )
        if before is not None and after is not None:
            raise ValueError(f"expected one of before and after, got {before!r} and {after!r}")
        if before is not None:
            position = self._position(before)
        elif after is not None:
            position = self._position(after) + 1
        else:
            position = len(self._layers)
        self._layers.insert(position, added)
        self._index()

    def rename(self, old: str, new: str) -> None:
        """Give the first layer of a name another one. Bottoms and tops stay.

        Raises
        ------
        KeyError
            If there is no layer `old`.
        ValueError
            If there is a layer `new` already.
        """
        layer = self[old]
        if new != old and new in self._by_name:
            raise ValueError(f"cannot rename layer {old!r}: there is a layer {new!r} already")
        layer._rename(new)
        self._index()

    def __repr__(self) -> str:
        """Show the path, the name of the net and how much it holds."""
        blobs = [blob for layer in self._layers for blob in layer.blobs]
        path = f"{self.path!r}, " if self.path else ""
        return (
            f"<ModelFile {path}net {self.name!r}, format V{self.version}: "
            f"{len(self._layers)} layers, {len(blobs)} blobs, "
            f"{sum(blob.size for blob in blobs)} values>"
        )

    def _position(self, name: str) -> int:
        return self._layers.index(self[name])

    def _index(self) -> None:
        """Find the first layer of each name."""
        self._by_name: dict[str, Layer] = {}
        for layer in self._layers:
            self._by_name.setdefault(layer.name, layer)


def _restored(cls: type[ModelFile], name: str, layers: list[Layer], rest: bytes) -> ModelFile:
    model = cls(name, layers)
    model._rest = rest
    return model


def _copied(layer: Layer, name: str | None = None) -> Layer:
    if not isinstance(layer, Layer):
        raise TypeError(
            f"a model is a mapping of layers; expected a Layer, got {type(layer).__name__}"
        )
    return layer._copy(layer.name if name is None else name)
