"""Sphinx configuration: ``sphinx-build -n -W docs docs/_build``. Needs no network."""

from __future__ import annotations

from importlib.metadata import version as installed_version

project = "syncblob"
author = "The syncblob developers"
project_copyright = "2026, the syncblob developers"
release = version = installed_version("syncblob")

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 2

html_theme = "furo"
html_title = f"syncblob {release}"
html_show_sourcelink = False

# Docstrings mark objects with single backquotes, and parameters too.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
# The reference pages are laid out by hand: no second list of members.
numpydoc_show_class_members = False

_PRIVATE = (
    "BlobBase|BlobProto|Explanation|HandedOut|LayerParameter|Layout|MappedFile|NetParameter|Source|"
    "Transition|_SimulatedPush"
)
nitpick_ignore_regex = [
    # Parameters: a plain word in a docstring that is the name of no object.
    ("py:obj", r"[a-z]\w*"),
    # Other libraries and the standard library: links to them would need the network.
    ("py:class", r"(collections|np|numpy|os|types)\..*|NDArray|DTypeLike|ModuleType|Future"),
    ("py:obj", r"(cupy|numpy|time)\..*"),
    # Aliases of types, and the classes of some results, that signatures name.
    ("py:class", r"Axes|BlobParameter|Norm|Shape|Tensor|[FI]Info|Unique\w+Result"),
    # Private classes that some signatures name.
    ("py:class", rf"(syncblob\..*\.)?({_PRIVATE})"),
]
