"""pybind11."""

import numpy as np
import pybind11

from conformance.exchange.extensions import built

REQUIRES = ["pybind11==3.1.0", "numpy==2.4.6"]
GROUP = "torch"
TAKES = ["extension.array(b)", "extension.array(np.asarray(b))", "extension.ensured(b)"]
WRITE = "x[...] = 1"
ADVICE = "`array` takes a `py::array`, and `ensured` calls `py::array::ensure`."
REASONS = {"extension.array(b)": "It takes arrays by their type, ndarray."}
SOURCE = """
#include <pybind11/numpy.h>
namespace py = pybind11;
PYBIND11_MODULE(pybind11_extension, m) {
    m.def("array", [](py::array x) { return x; });
    m.def("ensured", [](py::object x) { return py::array::ensure(x); });
}
"""
extension = built("pybind11_extension", SOURCE, [pybind11.get_include()])
