"""examples/detect_faces.py with the real model: the network against NumPy, faces in images."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import syncblob

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

import detect_faces as faces  # noqa: E402  # needs both


@pytest.fixture(scope="module")
def path(real_files):
    return real_files / "mtcnn_det1.caffemodel"


@pytest.fixture
def model(path):
    with syncblob.open_model(path) as found:
        yield found


# --- the network in NumPy, with weights from an independent conversion ---------------------------


def convolution(x, layer):
    windows = sliding_window_view(x, layer["weights"].shape[:2], axis=(1, 2))
    # The converted weights have the axes rows, columns, input channels, output channels.
    return np.einsum("chwij,ijco->ohw", windows, layer["weights"]) + layer["biases"][:, None, None]


def prelu(x, layer):
    return np.where(x > 0, x, x * layer["alpha"][:, None, None])


def pooling(x):
    """Maxima of 2 x 2 windows, which may be smaller at the far edges."""
    channels, rows, columns = x.shape
    padded = np.full((channels, rows + rows % 2, columns + columns % 2), -np.inf)
    padded[:, :rows, :columns] = x
    return padded.reshape(channels, padded.shape[1] // 2, 2, -1, 2).max(axis=(2, 4))


def expected(x, weights):
    x = pooling(prelu(convolution(x, weights["conv1"]), weights["PReLU1"]))
    x = prelu(convolution(x, weights["conv2"]), weights["PReLU2"])
    x = prelu(convolution(x, weights["conv3"]), weights["PReLU3"])
    powers = np.exp(convolution(x, weights["conv4-1"]))
    return powers[1] / powers.sum(axis=0), convolution(x, weights["conv4-2"])


@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
@pytest.mark.parametrize("shape", [(3, 12, 12), (3, 30, 24), (3, 25, 31), (3, 26, 29)])
def test_the_network_is_that_of_numpy(model, real_files, shape, device):
    truth = np.load(real_files / "mtcnn_det1.npy", allow_pickle=True, encoding="latin1").item()
    image = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    with torch.inference_mode():
        found = faces.run(model, syncblob.asarray(image[None], device=device))
    for result, reference in zip(found, expected(image.astype(np.float64), truth), strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-4, atol=1e-5)


def test_weights_are_taken_where_they_are(model):
    weight = model["conv1"].blobs[0]
    weight.cpu_data()
    with torch.inference_mode(), syncblob.no_transfers():
        faces.run(model, syncblob.zeros((1, 3, 12, 12), dtype="float32"))
    assert weight.head is syncblob.Head.HEAD_AT_CPU


# --- images and boxes ----------------------------------------------------------------------------


def test_the_program_draws_boxes(path, tmp_path, capsys):
    pixels = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    image = tmp_path / "noise.png"
    Image.fromarray(pixels).save(image)
    # With such a low threshold, anything is a face.
    faces.main([str(path), str(image), "--threshold", "0.0001", "--device", "simulated"])
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == f"{len(printed) - 1} boxes drawn into {tmp_path / 'noise-faces.png'}"
    assert len(printed) > 1
    with Image.open(tmp_path / "noise-faces.png") as drawn:
        assert drawn.size == (90, 60)
        assert np.any(np.asarray(drawn) != pixels)
    with pytest.raises(SystemExit):
        faces.main([str(path), str(image), "--output", str(image)])
    assert "which would be lost" in capsys.readouterr().err


@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
def test_the_face_of_an_astronaut_is_found(model, device):
    data = pytest.importorskip("skimage.data")
    boxes = faces.detect(model, Image.fromarray(data.astronaut()), device=device)
    face = faces.Box(175, 65, 270, 185, 1)
    assert faces.overlap(boxes[0], face) > 0.6
    assert boxes[0].score > 0.99
    assert len(boxes) < 10
