"""A pytest plugin for runs of the suite: the device of the run, and the boosted tier.

The suite draws exactly one value for each of its special cases, regardless of ``--max-examples``,
and skips five tests as flaky. ``--boosted`` draws `DRAWS` values and skips nothing. The files of
the suite are not changed.
"""

from __future__ import annotations

import dataclasses
import inspect
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

DRAWS = 100

# Where the suite draws x1_i < 1 and the standard says abs(x1_i) < 1. With one draw, hypothesis
# happens to try a value that meets the condition; with many draws it does not.
SUITE_DEFECTS = tuple(
    f"{test}[{function}(abs(x1_i) < 1 and x2_i is {sign}infinity)"
    for test, function in (
        ("test_binary", "pow"),
        ("test_binary", "__pow__"),
        ("test_iop", "__ipow__"),
    )
    for sign in "+-"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that run.py passes."""
    group = parser.getgroup("syncblob conformance")
    group.addoption("--syncblob-device", required=True, help="make it syncblob's default device")
    group.addoption(
        "--boosted", action="store_true", help=f"{DRAWS} draws a special case, no flaky marks"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set the default device, in this process and in each worker."""
    import syncblob

    syncblob.set_default_device(config.getoption("syncblob_device"))
    expected, got = syncblob.default_device(), syncblob.zeros(1).device
    if got != expected:
        raise pytest.UsageError(f"expected new arrays on {expected}, got one on {got}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Make the draws of unary special cases depend on the seed, like the others."""
    # Hypothesis's `example()` shuffles with the global generator.
    random.seed(f"{item.config.getoption('--hypothesis-seed')} {item.nodeid}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove the suite's "flaky" marks."""
    for item in items if config.getoption("boosted") else ():
        item.own_markers[:] = [
            mark
            for mark in item.own_markers
            if not (mark.name == "skip" and mark.kwargs.get("reason") == "flaky")
        ]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test of a special case with many draws instead of one."""
    boosted = pyfuncitem.config.getoption("boosted") and "case" in pyfuncitem.fixturenames
    if not boosted or pyfuncitem.name.startswith(SUITE_DEFECTS):
        return None
    _boosted(pyfuncitem)()
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_json_modifyreport(json_report: dict[str, Any]) -> None:
    """Add the version and the device that the suite has found."""
    from array_api_tests import xp  # the suite's conftest has imported it

    found = {"version": xp.__version__, "device": str(xp.zeros(1).device)}
    json_report["library"] = found


def _boosted(item: pytest.Function) -> Callable[[], None]:
    """Return a test of a special case, with its arguments, that draws many values each."""
    test = item.obj
    arguments = {name: item.funcargs[name] for name in inspect.signature(test).parameters}

    if hasattr(test, "hypothesis"):  # binary: values are drawn within the test
        inner = test.hypothesis.inner_test

        def run(data: st.DataObject) -> None:
            inner(**arguments | {"data": data})
    else:  # unary: `example()` draws one value in each run
        case = arguments["case"]

        def run(data: st.DataObject) -> None:
            def drawn(dtype: Any) -> _Drawn:
                return _Drawn(data, case.cond_from_dtype(dtype))

            test(**arguments | {"case": dataclasses.replace(case, cond_from_dtype=drawn)})

    return settings(max_examples=DRAWS, database=None)(given(data=st.data())(run))


@dataclasses.dataclass(frozen=True)
class _Drawn:
    """Replaces a strategy; its `example()` is one draw."""

    data: st.DataObject
    strategy: st.SearchStrategy[Any]

    def example(self) -> Any:
        """Draw a value."""
        return self.data.draw(self.strategy)
