"""Sphinx configuration: ``sphinx-build -n -W docs docs/_build``. Needs no network."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "syncblob"
author = "The syncblob developers"
project_copyright = "2026, the syncblob developers"
release = installed_version("syncblob")
# Without the commit.
version = release.partition("+")[0]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 2

html_theme = "furo"
html_title = f"syncblob {version}"
html_show_sourcelink = False
pygments_dark_style = "github-dark"
html_static_path = ["_static"]
html_css_files = ["syncblob.css"]

# Docstrings mark objects with single backquotes, and parameters too.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
# Its tables link to the pages that are there.
autosummary_generate = False
# The reference pages are laid out by hand: no second list of members.
numpydoc_show_class_members = False

# Without these libraries the page of the modules that need them is short, and that is no mistake.
if not all(map(find_spec, ("torch",))):
    suppress_warnings = ["autodoc.import_object"]

_PRIVATE = (
    "Access|AnyBlob|BlobProto|Explanation|Function|Gradient|LayerParameter|Layout|Loans|Moment|NetParameter|OpenFile|Place|"
    "Readable|SolverParameter|Source|Spans|Transition|Values|Writable|_SimulatedPush|_Work"
)
nitpick_ignore_regex = [
    # Parameters: a plain word in a docstring that is the name of no object.
    ("py:obj", r"[a-z]\w*"),
    # Other libraries and the standard library: links to them would need the network.
    (
        "py:class",
        r"(collections|contextlib|da|dask|io|np|numpy|os|pathlib|threading|torch|types)\..*|NDArray|DTypeLike|ModuleType|Path",
    ),
    ("py:class", "AbstractContextManager|PickleBuffer|RemovableHandle"),
    ("py:obj", r"(cupy|numpy|time)\..*"),
    # Aliases of types, and the classes of some results, that signatures name.
    (
        "py:class",
        r"Axes|BlobParameter|DType|Entry|Norm|NotedPlace|OnDevice|Shape|Tensor|FInfo|torch_device",
    ),
    ("py:class", r"Unique\w+Result"),
    # Private classes that some signatures name.
    ("py:class", rf"(syncblob\..*\.)?({_PRIVATE})"),
]


def _leave_parameters_alone(
    _app: Sphinx, _what: str, _name: str, obj: Any, _options: Any, lines: list[str]
) -> None:
    """Make no link of a parameter's name that happens to be the name of something else."""
    try:
        parameters = inspect.signature(obj).parameters
    except (TypeError, ValueError):
        return
    for number, line in enumerate(lines):
        lines[number] = re.sub(
            r"(?<![`\w])`(\w+)`(?!`)",
            lambda found: f"``{found[1]}``" if found[1] in parameters else found[0],
            line,
        )


def setup(app: Sphinx) -> None:
    """Connect the hook."""
    app.connect("autodoc-process-docstring", _leave_parameters_alone)
