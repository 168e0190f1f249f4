"""nanobind."""

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import nanobind

REQUIRES = ["nanobind==3.1.0", "numpy==2.4.6"]
GROUP = "torch"
TAKES = ["extension.array(b)", "extension.const_array(b)"]
ADVICE = "`array` takes `nb::ndarray<>`, and `const_array` takes `nb::ndarray<nb::ro>`."
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
