"""The namespace: its names, signatures, docstrings and versions."""

from __future__ import annotations

import ast
import inspect
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob, array_api

FUNCTIONS = """
    arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like
    tril triu zeros zeros_like astype broadcast_arrays broadcast_shapes broadcast_to can_cast finfo
    iinfo isdtype result_type abs acos acosh add asin asinh atan atan2 atanh bitwise_and
    bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj
    copysign cos cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot imag
    isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not
    logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real
    reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc take
    take_along_axis matmul matrix_transpose tensordot vecdot concat expand_dims flip moveaxis
    permute_dims repeat reshape roll squeeze stack tile unstack argmax argmin count_nonzero nonzero
    searchsorted where isin unique_all unique_counts unique_inverse unique_values argsort sort
    cumulative_prod cumulative_sum max mean min prod std sum var all any diff
    __array_namespace_info__
""".split()
CONSTANTS = "e inf nan newaxis pi".split()
DTYPES = """
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
""".split()
LINALG = """
    cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power
    matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot
    vector_norm
""".split()
FFT = """
    fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift
""".split()
METHODS = """
    __abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__
    __eq__ __float__ __floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__
    __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __rshift__
    __setitem__ __sub__ __truediv__ __xor__ to_device __iadd__ __isub__ __imul__ __itruediv__
    __ifloordiv__ __ipow__ __imod__ __imatmul__ __iand__ __ior__ __ixor__ __ilshift__ __irshift__
    __radd__ __rsub__ __rmul__ __rtruediv__ __rfloordiv__ __rpow__ __rmod__ __rmatmul__ __rand__
    __ror__ __rxor__ __rlshift__ __rrshift__
""".split()
ATTRIBUTES = "dtype device mT ndim shape size T".split()


def everything() -> list[tuple[str, Any]]:
    """List the functions of the standard with their full names."""
    found = [(name, getattr(xp, name)) for name in FUNCTIONS]
    found += [(f"linalg.{name}", getattr(xp.linalg, name)) for name in LINALG]
    return found + [(f"fft.{name}", getattr(xp.fft, name)) for name in FFT]


def test_every_name_of_the_standard_is_there() -> None:
    standard = {*FUNCTIONS, *CONSTANTS, *DTYPES, "linalg", "fft", "__array_api_version__"}
    assert standard <= set(xp.__all__)
    assert set(LINALG) <= set(xp.linalg.__all__)
    assert set(FFT) == set(xp.fft.__all__)
    for name in (*METHODS, *ATTRIBUTES):
        assert inspect.getdoc(getattr(Blob, name)), name


def test_what_is_exported_is_what_all_says() -> None:
    assert set(array_api.__all__) <= set(xp.__all__)
    assert len(set(xp.__all__)) == len(xp.__all__)
    for module in (xp, array_api, xp.linalg, xp.fft):
        for name in module.__all__:
            assert hasattr(module, name), f"{module.__name__}.{name}"
    star: dict[str, Any] = {}
    exec("from syncblob import *", star)  # noqa: S102  # what a user may write
    assert set(star) - {"__builtins__"} == set(xp.__all__)


@pytest.mark.parametrize("name", ["cumsum", "quantile", "lib"])
def test_what_xarray_asks_for_is_found_and_not_listed(name: str) -> None:
    assert getattr(xp, name) is getattr(np, name)
    assert name not in dir(xp)


def label(value: object) -> str:
    """Name a parameter without an address, which would differ between processes."""
    return value if isinstance(value, str) else "function"


@pytest.mark.parametrize("extension", [xp.linalg, xp.fft], ids=lambda module: module.__name__)
def test_an_extension_exports_all_that_it_defines(extension: ModuleType) -> None:
    assert len(set(extension.__all__)) == len(extension.__all__)
    tree = ast.parse(Path(str(extension.__file__)).read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    public = {name for name in defined if not name.startswith("_")}
    assert public <= set(extension.__all__)


@pytest.mark.parametrize(("name", "function"), everything(), ids=label)
def test_functions_are_written_out_and_documented(name: str, function: Any) -> None:
    assert inspect.isfunction(function), name
    assert function.__name__ == name.rpartition(".")[2]
    assert inspect.getdoc(function), name
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, f"{name}: {parameter}"


@pytest.mark.parametrize(("name", "function"), everything(), ids=label)
def test_signatures_are_those_of_the_standard(name: str, function: Any) -> None:
    strict = pytest.importorskip("array_api_strict")
    part, _, last = name.rpartition(".")
    reference = getattr(getattr(strict, part) if part else strict, last)
    theirs = inspect.signature(reference).parameters
    ours = dict(inspect.signature(function).parameters)
    assert (ours.pop("ddof", None) is not None) == (name in {"std", "var"})  # for xarray
    assert list(ours) == list(theirs)
    for mine, other in zip(ours.values(), theirs.values(), strict=True):
        assert mine.kind is other.kind, f"{name}: {other}"
        if isinstance(other.default, (bool, int, float, str, type(None), type)):
            assert mine.default == other.default, f"{name}: {other}"


def test_constants_are_floats_of_python() -> None:
    assert (xp.e, xp.inf, xp.pi, xp.newaxis) == (math.e, math.inf, math.pi, None)
    assert math.isnan(xp.nan)
    assert {type(xp.e), type(xp.inf), type(xp.nan), type(xp.pi)} == {float}


def test_dtypes_are_numpys_scalar_classes() -> None:
    for name in (*DTYPES, "float16"):
        assert getattr(xp, name) is np.dtype(name).type
        assert xp.zeros(1, dtype=getattr(xp, name)).dtype == np.dtype(name)
        assert isinstance(xp.zeros(1, dtype=getattr(xp, name)).dtype, np.dtype)
    # Libraries compare these with an omitted dtype, which is None. An np.dtype can equal None.
    assert not any(getattr(xp, name) == absent for name in DTYPES for absent in (None, "none"))


@pytest.mark.parametrize("version", ["2021.12", "2022.12", "2023.12", "2024.12", "2025.12", None])
def test_the_namespace_of_a_blob_is_the_package(version: str | None) -> None:
    assert xp.__array_api_version__ == "2025.12"
    for blob in (xp.ones(3), Blob(3), xp.ones(3)[1:], xp.ones(3).const):
        assert blob.__array_namespace__(api_version=version) is xp
        assert blob.__array_namespace__() is xp


@pytest.mark.parametrize("version", ["2020.12", "2026.12", "", "2025"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(ValueError, match="2021"):
        xp.ones(3).__array_namespace__(api_version=version)
    with pytest.raises(TypeError):
        xp.ones(3).__array_namespace__("2025.12")


def test_conversions_to_scalars_are_for_blobs_without_axes() -> None:
    one = xp.asarray(1)
    assert (bool(one), int(one), float(one), complex(one)) == (True, 1, 1.0, 1 + 0j)
    assert [10, 20][one] == 20
    for blob in (xp.ones(1), xp.ones((1, 1)), xp.ones(3)):
        for kind in (bool, int, float, complex, lambda x: [1][x]):
            with pytest.raises(TypeError):
                kind(blob)
    with pytest.raises(TypeError, match="integer"):
        [1, 2].__getitem__(xp.asarray(1.0))
    with pytest.raises(TypeError):
        float(xp.asarray(1j))
