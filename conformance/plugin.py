"""A pytest plugin for runs of the suite: the device of the run, and the boosted tier.

The suite draws exactly one value for each of its special cases, regardless of ``--max-examples``,
and skips five tests as flaky. ``--boosted`` draws `DRAWS` values and skips nothing. The files of
the suite are not changed.
"""

from __future__ import annotations

import dataclasses
import inspect
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

DRAWS = 100

# Defects of the suite itself, by test and the start of its parameters. With one draw each,
# hypothesis happens to try a value that meets the condition; with many draws it does not.
_FORGOTTEN_ABS = (
    "the suite draws x1_i < 1 where the standard says abs(x1_i) < 1: its generator forgets the abs"
)
SUITE_DEFECTS = {
    f"{test}[{function}(abs(x1_i) < 1 and x2_i is {sign}infinity)": _FORGOTTEN_ABS
    for test, function in (
        ("test_binary", "pow"),
        ("test_binary", "__pow__"),
        ("test_iop", "__ipow__"),
    )
    for sign in "+-"
}


class SuiteDefect(Exception):  # noqa: N818  # not an error of the tested library
    """A check failed for values that its own condition excludes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that run.py passes."""
    group = parser.getgroup("syncblob conformance")
    group.addoption("--syncblob-device", help="make it syncblob's default device")
    group.addoption(
        "--boosted", action="store_true", help=f"{DRAWS} draws a special case, no flaky marks"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set the default device, in this process and in each worker."""
    device = config.getoption("syncblob_device")
    if device is not None:
        import syncblob

        syncblob.set_default_device(device)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Fail if arrays are not on the requested device."""
    if session.config.getoption("syncblob_device") is None:
        return
    import syncblob

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
    if not config.getoption("boosted"):
        return
    for item in items:
        item.own_markers[:] = [
            mark
            for mark in item.own_markers
            if not (mark.name == "skip" and mark.kwargs.get("reason") == "flaky")
        ]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test of a special case with many draws instead of one."""
    if not pyfuncitem.config.getoption("boosted") or "case" not in pyfuncitem.fixturenames:
        return None
    _boosted(pyfuncitem)()
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Mark failures that are defects of the suite."""
    if call.excinfo is not None and call.excinfo.errisinstance(SuiteDefect):
        item.user_properties.append(("suite_defect", str(call.excinfo.value)))
    return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_json_modifyreport(json_report: dict[str, Any]) -> None:
    """Add the name and the version that the tested library reports."""
    from array_api_tests import xp  # the suite's conftest has imported it

    json_report["library"] = {
        "version": getattr(xp, "__version__", "unknown"),
        "device": str(getattr(xp.zeros(1), "device", "unknown")),
    }


def _boosted(item: pytest.Function) -> Callable[[], None]:
    """Return a test of a special case, with its arguments, that draws many values each."""
    test = item.obj
    arguments = {name: item.funcargs[name] for name in inspect.signature(test).parameters}
    arguments["case"] = _confine(item.name, arguments["case"])

    if hasattr(test, "hypothesis"):  # binary: values are drawn within the test
        inner = test.hypothesis.inner_test

        def run(data: st.DataObject) -> None:
            inner(**arguments | {"data": data})
    else:  # unary: `example()` draws one value in each run

        def run(data: st.DataObject) -> None:
            test(**arguments | {"case": _draw_from(arguments["case"], data)})

    return settings(max_examples=DRAWS, database=None)(given(data=st.data())(run))


def _confine(name: str, case: Any) -> Any:
    """Return a case that raises `SuiteDefect` if it fails for values that its condition excludes.

    Only for the cases of `SUITE_DEFECTS`: not all conditions of the suite are reliable.
    """
    reason = next((why for start, why in SUITE_DEFECTS.items() if name.startswith(start)), None)
    if reason is None:
        return case

    def check_result(x1: float, x2: float, result: float) -> bool:
        if case.check_result(x1, x2, result):
            return True
        if case.cond(x1, x2):
            return False
        raise SuiteDefect(f"{reason}; x1_i={x1}, x2_i={x2}")

    return dataclasses.replace(case, check_result=check_result)


def _draw_from(case: Any, data: st.DataObject) -> Any:
    """Return a case whose values are drawn from the data of a hypothesis test."""
    return dataclasses.replace(
        case, cond_from_dtype=lambda dtype: _Drawn(data, case.cond_from_dtype(dtype))
    )


@dataclasses.dataclass(frozen=True)
class _Drawn:
    """Replaces a strategy; its `example()` is one draw."""

    data: st.DataObject
    strategy: st.SearchStrategy[Any]

    def example(self) -> Any:
        """Draw a value."""
        return self.data.draw(self.strategy)
