"""Conversion of files. Everything is planned and checked before anything is written."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from syncblob.caffe import blob_values, replacing
from syncblob.caffe.convert import caffe_files, npz, pytorch, safetensors
from syncblob.caffe.convert.weights import (
    LayerWeights,
    Weights,
    blob_from,
    for_others,
    has_transpose,
    squeeze,
)
from syncblob.caffe.files.caffe_hdf5 import read_state
from syncblob.caffe.files.file_types import BY_NAME, MESSAGES, FileType, type_of, type_of_name
from syncblob.caffe.files.recognise import possible_messages, refuse_other_formats
from syncblob.caffe.messages.fields import Array, DType, Write
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.string_fields import require_type
from syncblob.caffe.messages.wire import WireReader
from syncblob.errors import ModelFileError, SyncblobError
from syncblob.formats import Blob, as_dtype, is_bfloat16, quantity


class Format(NamedTuple):
    """How files of a format become weights, and weights files."""

    read: Callable[[str], Weights]
    """Opens a file, given its path."""
    plan: Callable[[Weights], Write]
    """Returns the function that writes a file at a path, and reads no values.

    Raises ValueError or TypeError if the format cannot hold the weights.
    """
    prepare: Callable[[Iterable[LayerWeights]], Iterable[LayerWeights]] = for_others
    """Returns layers as they are in such a file."""


FORMATS = {
    "caffemodel.h5": Format(
        caffe_files.read_hdf5,
        partial(caffe_files.plan, hdf5=True),
        lambda layers: squeeze(caffe_files.for_caffe(layers)),
    ),
    # Here alone Caffe leaves the axes of the older formats out of account.
    "caffemodel": Format(caffe_files.read, caffe_files.plan, caffe_files.for_caffe),
    "safetensors": Format(safetensors.read, safetensors.plan),
    "npz": Format(npz.read, npz.plan),
    "torch": Format(pytorch.read, pytorch.plan),
    "hdf5": Format(caffe_files.read_hdf5, caffe_files.plan_tensors_hdf5),
}


def writable_extensions() -> list[str]:
    """Return the extensions of files that can be written."""
    return [extension for name in FORMATS for extension in BY_NAME[name].extensions]


def open_weights(path: str | os.PathLike[str]) -> Weights:
    """Open a file of any format that can be converted. The contents tell which.

    Supported are ``.caffemodel``, HDF5 (Caffe's layout, or any other tree of datasets),
    ``.safetensors``, ``.npz``, and ``.pt`` and ``.pth`` saved by ``torch.save``. Values are read on
    the first access of a Blob.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ModelFileError
        If the file is damaged, has another format, or contains a dtype or shape that Blobs do not
        support.
    """
    kind = format_of(path)
    if kind not in FORMATS:
        row = BY_NAME[kind]
        raise ModelFileError(
            f"expected a file of weights with names, this is {row.words}; {row.opener}",
            path=os.fspath(path),
        )
    return FORMATS[kind].read(os.fspath(path))


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the format of a file, such as ``"safetensors"``: by its contents, else by its name.

    Raises ModelFileError if the format cannot be recognized.
    """
    named = type_of_name(Path(path).name)[0]
    promised = "" if named is None or named.name not in {*FORMATS, *MESSAGES} else named.name
    file = OpenFile(path)
    row = type_of(file)
    found = "" if row is None or row.name not in FORMATS else row.name
    if found == "hdf5":
        with contextlib.suppress(ModelFileError):
            # Any tree of datasets may have a group "history".
            read_state(file, complete=promised != "solverstate")
            return "solverstate"
    elif found == "npz":
        with contextlib.suppress(ModelFileError), npz.open_archive(file) as archive:
            of_torch = any(member.endswith("/data.pkl") for member in archive.namelist())
            return "torch" if of_torch else "npz"
        return promised or "npz"  # reading it raises the error that says what is wrong
    return found or _which_message(file, promised)


def _which_message(file: OpenFile, promised: str) -> str:
    """Tell Caffe's messages apart by their fields. The name decides if these fit several."""
    with WireReader.of_file(file) as reader:
        message = refuse_other_formats(reader)
        try:
            found = possible_messages(message)
        except ModelFileError:
            if not promised or promised in MESSAGES:
                raise
            return promised  # reading it raises the error that says what is wrong
    if promised in found or not found:
        return promised or "caffemodel"
    return found[0]


DTYPES = ("bfloat16", "float16", "float32", "float64")
"""The dtypes that values can be converted to."""


class ConversionError(SyncblobError, ValueError):
    """The requested conversion is impossible."""


@dataclass(slots=True, eq=False)
class Conversion(AbstractContextManager["Conversion"]):
    """A planned conversion, made by `plan_conversion`. As a context manager it closes the source.

    Attributes
    ----------
    source, result
        The weights of the source, and as they will be written. The first access of a Blob of the
        result reads and converts it.
    write
        The function that writes the file.
    """

    source: Weights
    result: Weights
    write: Write

    @property
    def left_out(self) -> str:
        """A text on what the file will lack, such as types of layers; often ``""``."""
        lost = list(self.source.others)
        if BY_NAME[self.result.kind].describes:
            return ", and ".join(lost)
        lost += [f"{field.name} of the net" for field, _ in self.source.settings.ListFields()]
        layers = [each.layer for each in self.result.layers]
        if any(field.name != "name" for layer in layers for field, _ in layer.proto.ListFields()):
            lost.append("types and settings of the layers")
        if empty := sum(not layer.blobs for layer in layers):
            lost.append(quantity(empty, "layer") + " without weights")
        return ", and ".join(lost)

    @property
    def note(self) -> str:
        """What Caffe will not find in the file, and which weights are transposed; often ``""``."""
        layers = [each.layer for each in self.result.layers]
        nested = [layer.name for layer in layers if "/" in layer.name]
        if nested and self.result.kind == "caffemodel.h5":
            return (
                f"Caffe does not find layers with '/' in their names in HDF5, such as "
                f"{nested[0]!r}; syncblob does"
            )
        kept = {layer.name for layer in layers if not has_transpose(layer)}
        turned = [each.layer for each in self.source.layers if has_transpose(each.layer)]
        names = [repr(layer.name) for layer in turned if layer.name in kept]
        if not names:
            return ""
        return (
            f"The weights of {', '.join(names)} are now (outputs, inputs), the layers without "
            f"transpose: true"
        )

    def run(self) -> None:
        """Write the file. An existing file is replaced atomically.

        Values are written piece by piece, but PyTorch needs all tensors at once, and therefore
        memory of the size of the weights.

        Raises
        ------
        ConversionError
            If values overflow in the new dtype. Nothing has been written then.
        ModelFileError
            If the source is damaged.
        """
        path = self.result.path
        with _refusals(path), replacing(path) as temporary:
            self.write(temporary)

    def close(self) -> None:
        """Close the source."""
        self.source.close()

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _plan(
    source: Weights,
    path: str,
    *,
    asked: DType | None = None,
    patterns: Collection[str] = (),
    keeps: bool = False,
) -> Conversion:
    """Plan to write layers, if asked with a new dtype; `keeps` what a file of one format has."""
    target = _target(path)
    keeps = keeps and target.name == source.kind
    with _refusals(path):
        layers, kind = _choose(source, patterns), FORMATS[target.name]
        converted = tuple(
            layer.with_blobs(
                _convert(name, blob, _stored_dtype(name, blob.dtype, asked, target))
                for name, blob in layer.tensors.items()
            )
            for layer in (layers if keeps else kind.prepare(layers))
        )
        result = Weights(path, target.name, converted, source.name, source.settings)
        if not result.tensors and not (target.describes and result.layers):
            raise ConversionError(
                f"{path}: expected weights to write, and {source.path} has none of them"
            )
        if keeps:
            result.metadata, result.file = source.metadata, source.file
        return Conversion(source, result, kind.plan(result))


def _convert(name: str, blob: Blob, dtype: DType) -> Blob:
    if blob.dtype == dtype:
        return blob
    return blob_from(lambda: _cast(name, blob_values(blob), dtype), blob.shape, dtype)


def convert(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    dtype: DTypeLike | None = None,
    layers: str | Collection[str] = (),
) -> None:
    """Convert a file of weights to another format, as the command ``syncblob convert`` does.

    Parameters
    ----------
    source
        The file to read, of any format that `open_weights` supports.
    path
        The file to write. Its extension selects the format; ``.caffemodel.h5`` means Caffe's
        layout, any other ``.h5`` one dataset for each tensor.
    dtype
        The dtype of all tensors: one of ``DTYPES``, or anything that NumPy converts to one of them.
        None keeps their dtypes, except that Caffe's formats widen float16 and bfloat16 to float32.
    layers
        A pattern such as ``"conv*"``, or several; only layers with matching names are written.
        Empty for all.

    Raises
    ------
    ConversionError
        If the conversion is impossible. Nothing has been written then.
    ModelFileError
        If the source is damaged, or has another format.
    """
    with plan_conversion(source, path, dtype=dtype, layers=layers) as conversion:
        conversion.run()


def save_weights(weights: Weights, path: str | os.PathLike[str]) -> None:
    """Write weights that were opened by `open_weights`, and perhaps edited, to a file.

    The file is replaced as a whole or not at all, and may be the one that was opened. Unread values
    are copied from that. If the format stays the same, so does all else that the file has: metadata
    of ``.safetensors``; texts and other members of ``.npz``; attributes, links and other datasets
    of HDF5; other entries of a checkpoint of PyTorch's.

    Parameters
    ----------
    weights
        The weights.
    path
        The file to write. Its extension selects the format, as for `convert`, whose limits apply.

    Raises
    ------
    ConversionError
        If the format cannot hold the weights. Nothing has been written then.
    ModelFileError
        If the file that was opened was closed or has changed, or has a tensor that a Blob cannot
        hold.
    """
    require_type(weights, Weights, "open_weights returns one, and save_model writes a model")
    weights.hold_file()
    _plan(weights, os.fspath(path), keeps=True).run()


def plan_conversion(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    dtype: DTypeLike | None = None,
    layers: str | Collection[str] = (),
) -> Conversion:
    """Plan and check a conversion, without reading values or writing a file.

    Parameters and errors are those of `convert`.
    """
    path = os.fspath(path)
    _target(path)
    asked = None
    if dtype is not None:
        with contextlib.suppress(TypeError):
            asked = as_dtype(dtype)
        if asked is None or asked.name not in DTYPES:
            raise ConversionError(f"expected a dtype of {', '.join(DTYPES)}, got {dtype!r}")
    weights = open_weights(source)
    patterns = [layers] if isinstance(layers, str) else layers
    try:
        return _plan(weights, path, asked=asked, patterns=patterns)
    except BaseException:
        weights.close()
        raise


def _target(path: str) -> FileType:
    target = type_of_name(Path(path).name)[0]
    if target is None or target.name not in FORMATS:
        raise ConversionError(
            f"{path}: expected a name that says the format, by its extension: "
            f"{', '.join(writable_extensions())}"
        )
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder to write to does not exist", str(folder))
    if Path(path).is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file to write, got a folder", path)
    return target


@contextmanager
def _refusals(path: str) -> Iterator[None]:
    """Convert errors of a format to ConversionError, prefixed with the path."""
    try:
        yield
    except (ConversionError, ModelFileError):
        raise
    except (TypeError, ValueError) as error:
        raise ConversionError(f"{path}: {error}") from error


def _choose(weights: Weights, patterns: Collection[str]) -> Iterable[LayerWeights]:
    names = [each.layer.name for each in weights.layers]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ConversionError(
                f"{weights.path}: no layer is called {pattern!r}; the first ones are "
                f"{', '.join(names[:8])}"
            )
    return tuple(
        each
        for each in weights.layers
        if not patterns or any(fnmatchcase(each.layer.name, pattern) for pattern in patterns)
    )


def _stored_dtype(name: str, found: DType, asked: DType | None, target: FileType) -> DType:
    """Return the dtype with which a tensor is written."""
    wanted = found if asked is None else asked
    if wanted.name in target.dtypes and (found.kind != "c" or wanted.kind == "c"):
        return wanted
    narrow = found == np.float16 or is_bfloat16(found)
    if asked is None and narrow and "float16" not in target.dtypes:
        return np.dtype(np.float32)  # Caffe's formats hold float32 and float64
    held = " or ".join(one for one in DTYPES if one in target.dtypes)
    parts = ", real and imaginary parts one by one" * (found.kind == "c")
    raise ConversionError(
        f"tensor {name!r} is {found}, which cannot be written to {target.name} as {wanted}; "
        f"convert it to {held}{parts}, or write another format, such as .npz"
    )


def _cast(name: str, values: Array, dtype: DType) -> Array:
    """Convert to a floating-point dtype. Raise if values overflow, or if integers change."""
    with np.errstate(all="ignore"):
        result = values.astype(dtype)
        if values.dtype.kind in "iu":
            # Only numbers in range are converted back: CPUs differ for others.
            fits = np.isfinite(result) & np.less(result, float(np.iinfo(values.dtype.str).max + 1))
            again = np.where(fits, result, dtype.type(0)).astype(values.dtype)
            lost = ~fits | (again != values)
        else:
            lost = np.isfinite(values) & ~np.isfinite(result)
    count = int(np.count_nonzero(lost))
    if count:
        example = values[lost].flat[0]
        raise ConversionError(
            f"tensor {name!r}: {count} values do not fit {dtype}, {example} for example; "
            f"convert to a wider dtype, or leave the layer out"
        )
    return result
