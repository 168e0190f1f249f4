"""Other projects' own tests of array libraries, and how syncblob is added to each of them.

Their test configuration names the array libraries that they know. A patch is a replacement in the
source of one of its modules, made in memory when the module is imported: see `library_plugin`.
"""

import re
from pathlib import Path
from typing import NamedTuple

# What the plugin is told by: the key of `SUITES`, and syncblob's default device.
SUITE_VARIABLE = "SYNCBLOB_SUITE_OF"
DEVICE_VARIABLE = "SYNCBLOB_SUITE_DEVICE"
# A file of the tests that are run again, as JSON: all others are deselected, and iterating over a
# Blob gives Blobs.
AGAIN_VARIABLE = "SYNCBLOB_SUITE_AGAIN"

REFERENCE = "array_api_strict"
LIBRARIES = ("syncblob", REFERENCE)


class Patch(NamedTuple):
    """A replacement in the source of a module, where the text occurs exactly once."""

    module: str
    old: str
    new: str

    def apply(self, source: str) -> str:
        """Return the source of the module with the replacement.

        ValueError: if it has not exactly one place for it.
        """
        count = source.count(self.old)
        if count != 1:
            raise ValueError(
                f"expected {self.old!r} once in {self.module}, found it {count} times; the patch "
                "in conformance/libraries.py is for another version"
            )
        return source.replace(self.old, self.new)


class LibrarySuite(NamedTuple):
    """The tests of a project that run for each of several array libraries."""

    distribution: str
    package: str
    """The package whose folder has the tests."""
    mentions: str
    """A regular expression: files of tests that it does not match are left out."""
    patches: tuple[Patch, ...]
    const: frozenset[str] = frozenset()
    """Tests that fail for const arrays without saying so."""

    def files(self, package: Path) -> list[Path]:
        """Return the files with tests of array libraries in the folder of the package."""
        found = sorted(package.rglob("test_*.py"))
        return [path for path in found if re.search(self.mentions, path.read_text("utf-8"))]


SUITES = {
    "array-api-extra": LibrarySuite(
        "array-api-extra",
        "array_api_extra",
        "xp: ArrayNamespace",
        (
            Patch(
                "array_api_extra._lib._backends",
                '    NUMPY = "numpy"\n',
                '    NUMPY = "numpy"\n    SYNCBLOB = "syncblob"\n',
            ),
        ),
    ),
    "scikit-learn": LibrarySuite(
        "scikit-learn",
        "sklearn",
        r"yield_namespace|_array_api_for_tests|estimator_checks_generator|parametrize_with_checks",
        (
            Patch(
                "sklearn.utils._array_api",
                '        "dpnp",\n    ]:\n',
                '        "dpnp",\n        "syncblob",\n    ]:\n',
            ),
            # Its dtypes are those of array-api-strict, so that each test has its counterpart.
            Patch(
                "sklearn.utils._array_api",
                "            yield array_namespace, None, None\n",
                '            for dtype in ("float64", "float32"):\n'
                "                yield array_namespace, None, dtype\n",
            ),
        ),
    ),
    "scipy": LibrarySuite(
        "scipy",
        "scipy",
        r"\bxp\b",
        (
            Patch(
                "scipy.conftest",
                "@pytest.fixture(params=xp_available_backends)\n",
                "import importlib\n"
                f"xp_known_backends.update({LIBRARIES})\n"
                "xp_available_backends = [\n"
                "    pytest.param(\n"
                "        importlib.import_module(name), id=name,\n"
                "        marks=pytest.mark.array_api_backends,\n"
                "    )\n"
                f"    for name in {LIBRARIES}\n"
                "]\n"
                "@pytest.fixture(params=xp_available_backends)\n",
            ),
            # A tuple since version 2025.12 of the standard.
            Patch(
                "scipy.conftest",
                "    return xp.__array_namespace_info__().devices() + [None]\n",
                "    return [*xp.__array_namespace_info__().devices(), None]\n",
            ),
            # What each library says of a string.
            Patch(
                "scipy.ndimage.tests.test_filters",
                "|Value 'a duck'\"",
                "|Value 'a duck'|a Blob holds numbers\"",
            ),
        ),
        # `zoom` by 1 writes into a copy of an array that it may not write.
        frozenset({"test_zoom_1_gh20999_output"}),
    ),
    "xarray": LibrarySuite(
        "xarray",
        "xarray",
        r"(?m)^NAMESPACE_ARRAYS|importorskip\(.array_api_strict",
        (
            Patch(
                "xarray.tests.test_duck_array_wrapping",
                "NAMESPACES = [\n",
                f"for name in {LIBRARIES}:\n"
                '    attrs = {"constructor": "asarray"}\n'
                '    NAMESPACE_ARRAYS[name] = {"attrs": attrs, "xfails": {}}\n'
                "    NAMESPACE_REQUIREMENTS[name] = ()\n"
                "NAMESPACES = [\n",
            ),
            Patch(
                "xarray.tests.test_duck_array_wrapping",
                'getattr(self.xp, NAMESPACE_ARRAYS[namespace]["attrs"]["array"])',
                "type(self.xp.empty(0))",
            ),
            Patch(
                "xarray.tests.test_array_api",
                'xp = pytest.importorskip("array_api_strict")\n',
                f"@pytest.fixture(autouse=True, params={LIBRARIES})\n"
                "def library(request):\n"
                "    global xp, Array\n"
                "    xp = pytest.importorskip(request.param)\n"
                "    Array = type(xp.empty(0))\n",
            ),
        ),
    ),
}


def is_about(library: str, test: str) -> bool:
    """Tell whether a test, by its pytest id, is one of a library."""
    return re.search(rf"(?<!\w){library}(?!\w)", test.partition("[")[2]) is not None


def equivalent(test: str) -> str:
    """Return an id that the tests of syncblob and of array-api-strict have in common."""
    name, bracket, parameters = test.partition("[")
    parameters = re.sub(rf"(?<!\w)({'|'.join(LIBRARIES)})(?!\w)", "LIBRARY", parameters)
    # scikit-learn's names of array-api-strict's devices.
    parameters = re.sub(r"(?<!\w)(CPU_DEVICE|device1|None)(?!\w)", "DEVICE", parameters)
    return name + bracket + parameters
