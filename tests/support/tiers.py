"""The two tiers of the tests, and the number of random programs and examples in each.

Without options, `pytest` runs the short tier, which proves each thing once. Tests with the mark
``long`` prove it again: for every function, dtype or file instead of one of each kind, and with
thousands of random programs instead of hundreds. ``pytest -m ""`` runs both.

An environment variable that sets a number applies to both tiers: nothing is left out then.
"""

import os

import pytest
from hypothesis import given, settings

# The number of tests for the programs of the long tier, so that processes can share them.
BATCHES = 4


def programs(short, long, *, variable):
    """Parametrise a test with the ``numbers`` that random programs are made from.

    `short`: the number of programs in the short tier.
    `long`: the number of programs in both tiers together.
    `variable`: the environment variable that sets another number. ``SYNCBLOB_FIRST_PROGRAM`` sets
        the first number; without it, the same programs run each time.
    """
    given = os.environ.get(variable)
    start = int(os.environ.get("SYNCBLOB_FIRST_PROGRAM", "0"))
    numbers = range(start, start + int(given or long))
    first, rest = numbers[:short], numbers[short:]
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


def amount(name, short, long, *, variable=None):
    """Parametrise a test with an amount: `short`, and in the long tier `long`.

    `name`: the parameter, such as a number of seconds or of hypothesis's examples.
    `short`, `long`: its value in each tier.
    `variable`: the environment variable that sets another value for both.
    """
    given = os.environ.get(variable) if variable else None
    if given:
        return pytest.mark.parametrize(name, [type(short)(given)])
    return pytest.mark.parametrize(name, [short, pytest.param(long, marks=pytest.mark.long)])


def representatives(values, short, *, name=str, several=False):
    """Return parameters for a test: a few for both tiers, the others for the long tier.

    `values`: All values.
    `short`: the names of the values that the short tier runs, too, each with what it stands for.
    `name`: a function that returns the name of a value.
    `several`: whether each value is a tuple for several parameters.
    ValueError: if no value has one of the names in `short`.
    """
    named = [(name(value), value if several else (value,)) for value in values]
    if unknown := set(short) - {one for one, _ in named}:
        raise ValueError(f"expected representatives among the values, got {sorted(unknown)}")
    return [
        pytest.param(*value, marks=() if one in short else pytest.mark.long) for one, value in named
    ]


def drawn(*strategies, short, long):
    """Call a test with hypothesis's examples: `short` of them, and `long` in the long tier.

    Replaces ``@given``, for tests without fixtures.
    """

    def decorate(test):
        def run(examples):
            settings(max_examples=examples)(given(*strategies)(test))()

        # Hypothesis and pytest show this name and module.
        run.__name__, run.__module__, run.__doc__ = test.__name__, test.__module__, test.__doc__
        return amount("examples", short, long)(run)

    return decorate


# One dtype of each kind, and what it stands for.
_DTYPES = {
    "bool": "truth values",
    "int32": "integers",
    "float32": "floating point",
    "complex64": "complex numbers",
    "bfloat16": "what NumPy does not have",
}


def dtypes(names):
    """Return names of dtypes for a test. The short tier has one of each kind."""
    return representatives(names, {one: _DTYPES[one] for one in _DTYPES if one in names})
