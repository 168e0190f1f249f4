"""The two tiers of the tests, and how much each runs of what is random.

Without options `pytest` runs the short tier, which proves each thing once. What has the mark
``long`` proves it again: for every function, dtype or file where the short tier has one of each
kind, and with thousands of random programs where that has hundreds. ``pytest -m ""`` runs both.

An environment variable that sets how much runs counts in both tiers: nothing is left out then.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from hypothesis.strategies import SearchStrategy

# Into how many tests the programs of the long tier are divided, so that processes can share them.
BATCHES = 4


def programs(short: int, long: int, *, variable: str) -> pytest.MarkDecorator:
    """Give a test the ``numbers`` that random programs are made from.

    Parameters
    ----------
    short
        How many programs the short tier runs.
    long
        How many both tiers run together.
    variable
        The environment variable that sets another number.
    """
    given = os.environ.get(variable)
    count = int(given or long)
    first, rest = range(min(short, count)), range(short, count)
    size = max(1, -(-len(rest) // BATCHES))
    batches = [rest[start : start + size] for start in range(0, len(rest), size)]
    marks = () if given else (pytest.mark.long,)
    return pytest.mark.parametrize(
        "numbers",
        [
            pytest.param(first, id=f"{len(first)} programs"),
            *(pytest.param(batch, marks=marks, id=f"from {batch.start}") for batch in batches),
        ],
    )


def amount(
    name: str, short: float, long: float, *, variable: str | None = None
) -> pytest.MarkDecorator:
    """Give a test a parameter that says how much to run: `short`, and in the long tier `long`.

    Parameters
    ----------
    name
        The parameter: of seconds, or of examples that hypothesis draws.
    short, long
        Its value in each tier.
    variable
        The environment variable that sets another value, for both.
    """
    given = os.environ.get(variable) if variable else None
    if given:
        return pytest.mark.parametrize(name, [type(short)(given)])
    return pytest.mark.parametrize(name, [short, pytest.param(long, marks=pytest.mark.long)])


def representatives(
    values: Iterable[Any],
    short: Mapping[str, str],
    *,
    name: Callable[[Any], str] = str,
    several: bool = False,
) -> list[Any]:
    """Return parameters for a test, all but some of them for the long tier.

    Parameters
    ----------
    values
        All of them.
    short
        The names of those that the short tier runs too, each with what it stands for.
    name
        What gives the name of a value.
    several
        Whether each value is a tuple for several parameters.

    Raises
    ------
    ValueError
        If a name in `short` is that of no value.
    """
    named = [(name(value), value if several else (value,)) for value in values]
    if unknown := set(short) - {one for one, _ in named}:
        raise ValueError(f"expected representatives among the values, got {sorted(unknown)}")
    return [
        pytest.param(*value, marks=() if one in short else pytest.mark.long) for one, value in named
    ]


def drawn(*strategies: SearchStrategy[Any], short: int, long: int) -> Callable[[Any], Any]:
    """Call a test with what hypothesis draws: `short` examples, and `long` in the long tier.

    In the place of ``@given``, for tests without fixtures.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def run(examples: int) -> None:
            settings(max_examples=examples)(given(*strategies)(test))()

        # The name and the place that hypothesis and pytest show.
        run.__name__, run.__module__, run.__doc__ = test.__name__, test.__module__, test.__doc__
        return amount("examples", short, long)(run)

    return decorate


# One of each kind, and what it stands for.
_DTYPES = {
    "bool": "truth values",
    "int32": "integers",
    "float32": "floating point",
    "complex64": "complex numbers",
    "bfloat16": "what NumPy does not have",
}


def dtypes(names: Collection[str]) -> list[Any]:
    """Return names of dtypes for a test; the short tier has one of each kind."""
    return representatives(names, {one: _DTYPES[one] for one in _DTYPES if one in names})
