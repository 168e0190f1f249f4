"""nanobind."""

from pathlib import Path

import nanobind

from conformance.exchange.extensions import built

REQUIRES = ["nanobind==3.1.0", "numpy==2.4.6"]
GROUP = "torch"
TAKES = ["extension.array(b)", "extension.const_array(b)"]
WRITE = "x[...] = 1"
ADVICE = "`array` takes a `nb::ndarray<>`, and `const_array` a `nb::ndarray<nb::ro>`."
REASONS = {
    "extension.const_array(b)": "It says so of any BufferError, here that of a negative stride."
}
SOURCE = """
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
namespace nb = nanobind;
template <class In, class Out> Out view(In x) {
    auto* kept = new In(x);
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<In*>(p); });
    size_t shape[8];
    for (size_t i = 0; i < x.ndim(); i++) shape[i] = x.shape(i);
    return Out(x.data(), x.ndim(), shape, owner, x.stride_ptr(), x.dtype());
}
NB_MODULE(nanobind_extension, m) {
    m.def("array", &view<nb::ndarray<>, nb::ndarray<nb::numpy>>);
    m.def("const_array", &view<nb::ndarray<nb::ro>, nb::ndarray<nb::ro, nb::numpy>>);
}
"""
root = Path(nanobind.include_dir()).parent
includes = [root / "include", root / "ext/robin_map/include"]
extension = built("nanobind_extension", SOURCE, includes, root / "src/nb_combined.cpp")
