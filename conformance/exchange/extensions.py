"""Extension modules that adapters compile, for libraries of C++."""

import hashlib
import importlib
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType


def built(name: str, source: str, includes: Iterable[str | Path], *others: Path) -> ModuleType:
    """Compile a module from a source and other files, unless this was done before; import it."""
    key = hashlib.sha256(f"{sys.version}{source}{sys.prefix}".encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"{name}-{key}"
    if not (folder / "done").exists():
        folder.mkdir(exist_ok=True)
        (folder / "source.cpp").write_text(source, "utf-8")
        folders = [f"-I{each}" for each in (*includes, sysconfig.get_path("include"))]
        options = ["-shared", "-fPIC", "-std=c++17", "-O1", "-fno-strict-aliasing", *folders]
        files = [folder / "source.cpp", *others, "-o", folder / f"{name}.so"]
        subprocess.run(["g++", *options, *files], check=True)  # noqa: S603, S607  # the user's compiler
        (folder / "done").touch()
    sys.path.append(str(folder))
    return importlib.import_module(name)
