"""nanobind."""

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import nanobind

REQUIRES = ["nanobind==3.1.0", "numpy==2.4.6"]
GROUP = "torch"
TAKES = ["extension.same(b)", "extension.same_const(b)"]
ADVICE = "`same` takes `nb::ndarray<>`, and `same_const` takes `nb::ndarray<nb::ro>`."
SOURCE = """
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
namespace nb = nanobind;
NB_MODULE(nanobind_extension, m) {
    m.def("same", [](nb::ndarray<> x) { return nb::ndarray<nb::numpy>(x); });
    m.def("same_const", [](nb::ndarray<nb::ro> x) { return nb::ndarray<nb::ro, nb::numpy>(x); });
}
"""
folder = Path(tempfile.gettempdir()) / f"nanobind-{nanobind.__version__}"
if not (folder / "done").exists():
    folder.mkdir(exist_ok=True)
    (folder / "source.cpp").write_text(SOURCE)
    root = Path(nanobind.include_dir()).parent
    includes = [nanobind.include_dir(), root / "ext/robin_map/include", sysconfig.get_path("include")]
    files = [folder / "source.cpp", Path(nanobind.source_dir()) / "nb_combined.cpp"]
    options = ["-shared", "-fPIC", "-std=c++17", "-O1", "-fno-strict-aliasing", *(f"-I{x}" for x in includes)]
    subprocess.run(["g++", *options, *files, "-o", folder / "nanobind_extension.so"], check=True)
    (folder / "done").touch()
sys.path.append(str(folder))
import nanobind_extension as extension


def write(x):
    x[...] = 1
