"""The folders in docs/architecture.md. As a program, this prints what each module does."""

import ast
import re
import sys
from pathlib import Path

import syncblob

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "syncblob"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "_pb" not in path.parts)


def first_line(path):
    """Return the first line of a module's docstring, which says what the module does."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def test_each_module_says_in_one_line_what_it_does():
    silent = [path for path in MODULES if not first_line(path).endswith((".", ":"))]
    assert silent == []


def test_each_folder_is_described():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert {folder for folder in folders if f"| `{folder}/` |" not in page} == set()


def test_the_files_of_one_operation_are_named_in_their_order():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+/\w+\.py)`", page)

    def note(frame, *_):
        files.append(frame.f_code.co_filename)

    assert [name for name in named if not (PACKAGE / name).is_file()] == []
    a, b = (syncblob.ones((8, 8), device="simulated") for _ in range(2))
    files = []
    for _ in range(2):  # the first time, the plan and the shortcuts are made
        a.cpu_data()
        b.cpu_data()
        files.clear()
        sys.setprofile(note)
        a += b
        sys.setprofile(None)
    ours = [x.removeprefix(f"{PACKAGE}/") for x in dict.fromkeys(files) if Path(x).is_file()]
    entered = [name for name in ours if re.fullmatch(r"\w+/\w+\.py", name)]
    assert len(entered) > 3
    assert [name for name in dict.fromkeys(named) if name in entered] == entered
    assert {path.name for path in (PACKAGE / "memory").glob("[a-z]*.py")} <= {
        name.rpartition("/")[2] for name in named if name.startswith("memory/")
    }


if __name__ == "__main__":
    for module in MODULES:
        sys.stdout.write(f"{module.relative_to(PACKAGE)!s:44} {first_line(module)}\n")
