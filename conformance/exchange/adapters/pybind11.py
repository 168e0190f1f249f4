"""pybind11."""

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
import pybind11

REQUIRES = ["pybind11==3.1.0", "numpy==2.4.6"]
GROUP = "torch"
TAKES = ["extension.array(b)", "extension.array(np.asarray(b))", "extension.ensured(b)"]
ADVICE = "`array` takes a `py::array`, which is an ndarray and nothing else; `ensured` calls `py::array::ensure`."
SOURCE = """
#include <pybind11/numpy.h>
namespace py = pybind11;
PYBIND11_MODULE(pybind11_extension, m) {
    m.def("array", [](py::array x) { return x; });
    m.def("ensured", [](py::object x) { return py::array::ensure(x); });
}
"""
folder = Path(tempfile.gettempdir()) / f"pybind11-{pybind11.__version__}"
if not (folder / "done").exists():
    folder.mkdir(exist_ok=True)
    (folder / "source.cpp").write_text(SOURCE)
    includes = [pybind11.get_include(), sysconfig.get_path("include")]
    options = ["-shared", "-fPIC", "-std=c++17", "-O1", *(f"-I{x}" for x in includes)]
    target = ["-o", folder / "pybind11_extension.so"]
    subprocess.run(["g++", *options, folder / "source.cpp", *target], check=True)
    (folder / "done").touch()
sys.path.append(str(folder))
import pybind11_extension as extension


def write(x):
    x[...] = 1
