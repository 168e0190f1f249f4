"""Arguments, exit statuses, errors in one line, and a quick start."""

import subprocess
import sys
from importlib.metadata import version

import pytest

from syncblob.caffe.commands import inspect


@pytest.mark.parametrize(
    ("arguments", "shown"), [(["--help"], ["syncblob tour", inspect.SUMMARY]), ([], ["commands:"])]
)
def test_help_names_the_commands(arguments, shown, run):
    done = run(*arguments)
    assert done.status == 0
    assert all(text in done.out for text in shown)


@pytest.mark.parametrize("command", ["tour", "inspect", "diff", "convert"])
def test_help_of_a_command_fits_80_columns(command, run):
    done = run(command, "--help")
    assert done.status == 0
    assert max(map(len, done.out.splitlines())) <= 80


def test_version(run):
    assert run("--version") == (0, f"syncblob {version('syncblob')}\n", "")


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        ("no-such-command", "usage: syncblob"),
        ("inspect", "usage: syncblob inspect"),
        ("diff a", "usage: syncblob diff"),
        ("convert a", "usage: syncblob convert"),
        ("inspect a b", "usage: syncblob"),
        ("convert a -o b", "usage: syncblob"),
        ("tour a", "usage: syncblob"),
    ],
)
def test_misuse_shows_how_a_command_is_used(arguments, usage, run):
    done = run(*arguments.split())
    assert done.status == 2
    assert done.err.startswith(usage)


def test_help_imports_nothing_heavy(spawn):
    heavy = {"torch", "cupy", "h5py", "safetensors", "importlib.metadata"}
    done = spawn(
        python=(
            "import sys\n"
            "from syncblob.caffe.commands import main\n"
            "try: main(['--help'])\n"
            "except SystemExit: pass\n"
            f"print(sorted(set(sys.modules) & {heavy}), file=sys.stderr)\n"
        )
    )
    assert done.status == 0
    assert done.err == "[]\n"


def test_module_and_script_are_the_same_command(spawn, write_model):
    path = write_model(("conv1", "Convolution", [[1.0]]))
    module = spawn("inspect", path)
    script = spawn(
        "inspect",
        path,
        python="import sys; from importlib.metadata import entry_points; "
        "(script,) = entry_points(group='console_scripts', name='syncblob'); "
        "sys.exit(script.load()())",
    )
    assert module.status == 0
    assert module == script
    assert "conv1" in module.out


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("nowhere.caffemodel", "nowhere.caffemodel: No such file or directory\n"),
        # A path that would upset a terminal.
        ("two\nlines\x1b[31m", "two\\nlines\\x1b[31m: No such file or directory\n"),
        (".", ": "),
    ],
)
def test_what_cannot_be_read_is_one_line(run, tmp_path, name, shown):
    done = run("inspect", tmp_path / name)
    assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.startswith(f"syncblob: error: {tmp_path}")
    assert shown in done.err


def test_a_damaged_file_is_one_line_also_with_a_name_that_would_upset_a_terminal(run, tmp_path):
    # A blob without values, in a layer of a name in GBK, with a newline.
    layer = b"\x0a\x03\xd6\n\xd0\x12\x01T\x3a\x04\x3a\x02\x08\x02"
    path = tmp_path / "x.caffemodel"
    path.write_bytes(b"\xa2\x06" + bytes([len(layer)]) + layer)
    done = run("inspect", path)
    assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.startswith("syncblob: error: ")
    assert "needs 2 values" in done.err
    assert r"layer '\udcd6\n\udcd0'" in done.err


def test_an_interrupt_is_no_traceback(run, monkeypatch, write_model):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(inspect, "open_contents", interrupted)
    assert run("inspect", write_model()) == (130, "", "")


def test_a_reader_that_has_seen_enough_is_no_error(write_model):
    path = write_model(*((f"layer{i}", "ReLU", []) for i in range(4_000)))
    with subprocess.Popen(
        [sys.executable, "-m", "syncblob", "inspect", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
