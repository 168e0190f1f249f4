"""The namespace: its names, signatures, docstrings and versions."""

import ast
import inspect
import math
from pathlib import Path

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob, array_api

# The standard as a library, which is named after it.
strict = pytest.importorskip("array_api_strict")
NAMES = {x for x in strict.__all__ if "strict" not in x.lower()} - {"__version__", "Device"}
DTYPES = [name for name in NAMES if inspect.isclass(getattr(xp, name))]
MEMBERS = set(dir(type(strict.ones(1)))) - {"__array__", "__buffer__", "__weakref__"}


def everything():
    """List the functions of the standard: their full names, ours and theirs."""
    return [
        (f"{prefix}{name}", getattr(ours, name), getattr(theirs, name))
        for prefix, ours, theirs, names in (
            ("", xp, strict, NAMES),
            ("linalg.", xp.linalg, strict.linalg, {*strict.linalg.__all__, "eig", "eigvals"}),
            ("fft.", xp.fft, strict.fft, strict.fft.__all__),
        )
        for name in sorted(names)
        if inspect.isfunction(getattr(theirs, name))
    ]


def test_every_name_of_the_standard_is_there():
    assert len(NAMES) > 150
    assert set(xp.__all__) >= NAMES
    assert {*strict.linalg.__all__, "eig", "eigvals"} <= set(xp.linalg.__all__)
    assert set(strict.fft.__all__) == set(xp.fft.__all__)
    for name in MEMBERS:
        if not name.startswith("_") or name.startswith("__"):
            assert inspect.getdoc(getattr(Blob, name)) or name in dir(object), name


def test_what_is_exported_is_what_all_says():
    assert set(array_api.__all__) <= set(xp.__all__)
    assert len(set(xp.__all__)) == len(xp.__all__)
    for module in (xp, array_api, xp.linalg, xp.fft):
        for name in module.__all__:
            assert hasattr(module, name), f"{module.__name__}.{name}"
    star = {}
    exec("from syncblob import *", star)  # noqa: S102  # what a user may write
    assert set(star) - {"__builtins__"} == set(xp.__all__)


@pytest.mark.parametrize("name", ["cumsum", "einsum", "quantile", "lib"])
def test_what_xarray_asks_for_is_found_and_not_listed(name):
    assert getattr(xp, name) is getattr(np, name)
    assert name not in dir(xp)


def label(value):
    """Name a parameter without an address, which would differ between processes."""
    return value if isinstance(value, str) else "function"


@pytest.mark.parametrize("extension", [xp.linalg, xp.fft], ids=lambda module: module.__name__)
def test_an_extension_exports_all_that_it_defines(extension):
    assert len(set(extension.__all__)) == len(extension.__all__)
    tree = ast.parse(Path(str(extension.__file__)).read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    public = {name for name in defined if not name.startswith("_")}
    assert public <= set(extension.__all__)


@pytest.mark.parametrize(("name", "function", "theirs"), everything(), ids=label)
def test_functions_are_documented_and_have_the_signatures_of_the_standard(name, function, theirs):
    assert inspect.isfunction(function), name
    assert function.__name__ == name.rpartition(".")[2]
    assert inspect.getdoc(function), name
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, f"{name}: {parameter}"

    ours, expected = dict(signature.parameters), inspect.signature(theirs).parameters
    assert (ours.pop("ddof", None) is not None) == (name in {"std", "var"})  # for xarray
    assert list(ours) == list(expected)
    for mine, other in zip(ours.values(), expected.values(), strict=True):
        assert mine.kind is other.kind, f"{name}: {other}"
        if isinstance(other.default, (bool, int, float, str, type(None), type)):
            assert mine.default == other.default, f"{name}: {other}"


def test_constants_are_floats_of_python():
    assert (xp.e, xp.inf, xp.pi, xp.newaxis) == (math.e, math.inf, math.pi, None)
    assert math.isnan(xp.nan)
    assert {type(xp.e), type(xp.inf), type(xp.nan), type(xp.pi)} == {float}


def test_dtypes_are_numpys_scalar_classes():
    for name in (*DTYPES, "float16"):
        assert getattr(xp, name) is np.dtype(name).type
        assert xp.zeros(1, dtype=getattr(xp, name)).dtype == np.dtype(name)
        assert isinstance(xp.zeros(1, dtype=getattr(xp, name)).dtype, np.dtype)
    # Libraries compare these with an omitted dtype, which is None. An np.dtype can equal None.
    assert not any(getattr(xp, name) == absent for name in DTYPES for absent in (None, "none"))


@pytest.mark.parametrize("version", ["2021.12", "2022.12", "2023.12", "2024.12", "2025.12", None])
def test_the_namespace_of_a_blob_is_the_package(version):
    assert xp.__array_api_version__ == "2025.12"
    for blob in (xp.ones(3), Blob(3), xp.ones(3)[1:], xp.ones(3).const):
        assert blob.__array_namespace__(api_version=version) is xp
        assert blob.__array_namespace__() is xp


@pytest.mark.parametrize("version", ["2020.12", "2026.12", "", "2025"])
def test_other_versions_are_refused(version):
    with pytest.raises(ValueError, match="2021"):
        xp.ones(3).__array_namespace__(api_version=version)
    with pytest.raises(TypeError):
        xp.ones(3).__array_namespace__("2025.12")
