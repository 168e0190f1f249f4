"""The folders in docs/architecture.md. As a program, this prints what each module does."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "syncblob"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "_pb" not in path.parts)


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring, which says what the module does."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def test_each_module_says_in_one_line_what_it_does():
    silent = [path for path in MODULES if not first_line(path).endswith((".", ":"))]
    assert silent == []


def test_each_folder_is_described():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert {folder for folder in folders if f"| `{folder}/` |" not in page} == set()


if __name__ == "__main__":
    for module in MODULES:
        sys.stdout.write(f"{module.relative_to(PACKAGE)!s:44} {first_line(module)}\n")
