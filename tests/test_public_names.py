"""Public names and their docstrings, and the cost of importing the package."""

import inspect
import operator
import pkgutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import syncblob


def public(namespace):
    return [name for name in dir(namespace) if not name.startswith("_")]


def test_all_names_exist_are_sorted_and_documented():
    assert sorted(syncblob.__all__) == syncblob.__all__
    for name in set(syncblob.__all__) - {"newaxis"}:  # it is None
        assert inspect.getdoc(getattr(syncblob, name)), name


def test_the_reference_states_arguments_and_defaults():
    page = Path(__file__).parents[1] / "docs" / "reference" / "index.md"
    stated = page.read_text(encoding="utf-8").split("```text\n")[1].split("```")[0].split("\n")
    for line in filter(None, stated):
        name, bracket, parameters = line.partition("(")
        actual = inspect.signature(operator.attrgetter(name)(syncblob))
        bare = [each.replace(annotation=each.empty) for each in actual.parameters.values()]
        text = str(inspect.Signature(bare)).replace("'", '"')
        assert text == bracket + parameters, name


def test_nothing_else_is_public_but_submodules():
    others = set(public(syncblob)) - set(syncblob.__all__)
    assert all(
        inspect.ismodule(getattr(syncblob, name))
        for name in others - {"TYPE_CHECKING", "annotations", "warnings"}
    ), others


def test_no_name_hides_a_module():
    for name, package in list(sys.modules.items()):
        if name.partition(".")[0] == "syncblob" and hasattr(package, "__path__"):
            for module in pkgutil.iter_modules(package.__path__):
                here = vars(package).get(module.name)
                assert here is None or inspect.ismodule(here), f"{name}.{module.name}"


def test_a_documented_module_can_be_used_by_its_name():
    import syncblob.devices

    assert callable(syncblob.devices.register)


def test_the_version_is_that_of_the_distribution():
    assert syncblob.__version__ == version("syncblob")
    with pytest.raises(AttributeError, match="no_such_name"):
        syncblob.no_such_name  # noqa: B018  # the access is the test


def test_import_brings_in_no_heavy_package():
    heavy = {"cupy", "einops", "torch", "google.protobuf", "rich", "ml_dtypes", "array_api_compat"}
    code = f"import syncblob, sys; print(*({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)
    assert done.stdout.split() == []
