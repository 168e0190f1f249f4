"""examples/cg.py, gmm.py and kmeans.py: the same code on the host and on a device."""

import importlib
import sys

import numpy as np
import pytest

import syncblob
from syncblob import Blob


@pytest.fixture
def example(request, monkeypatch):
    """Import an example. It uses the simulated device even if there is a GPU."""
    module = importlib.import_module(request.param)
    monkeypatch.setattr(module, "device", lambda: syncblob.Device("simulated"))
    return module


def both(found):
    """Return the results of the host and of the device. Check that each is on its device."""
    assert list(found) == ["cpu", "simulated"]
    for kind, result in found.items():
        blobs = (result,) if isinstance(result, Blob) else result
        assert {blob.device.type for blob in blobs if isinstance(blob, Blob)} == {kind}
    return found.values()


@pytest.mark.parametrize("example", ["cg"], indirect=True)
def test_conjugate_gradients_find_the_solution(example, capsys):
    host, device = both(example.run(60, 1e-10, 100))
    np.testing.assert_allclose(host, device, rtol=1e-12)
    matrix, _, right = example.make_system(60, np.random.default_rng(seed=0))
    np.testing.assert_allclose(host, np.linalg.solve(matrix, right), rtol=1e-7)
    # One number is downloaded before the first step, and one in each step.
    printed = capsys.readouterr().out
    steps = int(printed.splitlines()[1].split()[1])
    assert f" {8 * (1 + steps)} bytes moved" in printed
    with pytest.raises(ArithmeticError, match="after 2 steps"):
        example.solve(matrix, right, 1e-10, 2)


@pytest.mark.parametrize("example", ["gmm"], indirect=True)
def test_a_mixture_is_found(example):
    host, device = both(example.run(2000, 2, 1e-6, 100))
    for mine, other in zip(host, device, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4)
    np.testing.assert_allclose(host.means, [[1, 1], [-1, -1]], atol=0.2)
    np.testing.assert_allclose(host.variances, 1, atol=0.2)
    np.testing.assert_allclose(host.shares, 0.5, atol=0.1)


@pytest.mark.parametrize("example", ["kmeans"], indirect=True)
def test_clusters_are_found_and_drawn(example, tmp_path):
    pytest.importorskip("matplotlib")
    host, device = both(example.run(2000, 4, 50, str(tmp_path / "clusters.png")))
    assert host.steps == device.steps < 50
    np.testing.assert_array_equal(host.labels, device.labels)
    np.testing.assert_allclose(host.centres, device.centres, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(host.centres, axis=1), 4, atol=0.3)
    assert (tmp_path / "clusters.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("example", "arguments", "said"),
    [
        ("cg", ["--size", "50"], "the largest difference is"),
        ("gmm", ["--samples", "50"], "the means differ by"),
        ("kmeans", ["--samples", "50"], "100.00% of the labels are the same"),
    ],
    indirect=["example"],
)
def test_the_command_line(example, arguments, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["program", *arguments])
    example.main()
    assert said in capsys.readouterr().out
