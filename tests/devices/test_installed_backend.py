"""A backend of another package: it is found by its entry point, and it computes.

Its array library has the peculiarities of dpnp's; see `drawers_package`. Other tests take its
device as a parameter.
"""

import subprocess
import sys
from pathlib import Path

import drawers
import numpy as np
import pytest
from made_blobs import filled
from numpy_calls import CALLS, listed

import syncblob
from syncblob import Blob, StaleAliasWarning
from syncblob.devices import accelerator
from syncblob.devices.array_library import LibraryHome

PACKAGE = Path(drawers.__file__).parent
LISTED = listed()


def host(x):
    """Return results with ndarrays in place of Blobs."""
    if isinstance(x, (list, tuple)):
        return [host(item) for item in x]
    return np.asarray(x) if isinstance(x, Blob) else x


def made(array):
    """Make a Blob that is newest on the device."""
    blob = filled(array, array.shape, array.dtype, device="drawer:0")
    blob.mutable_gpu_data()
    return blob


def same(actual, expected):
    if isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected)
        for x, y in zip(actual, expected, strict=True):
            same(x, y)
    else:
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    "lines",
    [
        "assert (syncblob.zeros(2, device='drawer:1') + 1).tolist() == [1, 1]",
        # Nobody has named a device.
        "x = __import__('drawers').ones(2, device=1); assert syncblob.from_dlpack(x).device.index",
    ],
)
def test_the_entry_point_is_found(lines):
    program = f"import sys; sys.path.append({str(PACKAGE)!r})\nimport syncblob\n{lines}"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_name_without_an_entry_point_is_no_device():
    with pytest.raises(ValueError, match="a device is"):
        syncblob.Device("wardrobe")
    with pytest.raises(syncblob.NoDeviceError, match="there are 2"):
        Blob(3, device="drawer:2")


@pytest.mark.parametrize(
    "name", sorted(CALLS.keys() - {"numpy.linspace"})
)  # whose arguments are numbers
def test_numpys_functions_compute_there(name):
    for call in CALLS[name]:
        expected = call(LISTED[name], np.copy)
        if name.startswith("numpy.lib.scimath."):
            with pytest.raises(NotImplementedError, match=r"compute on the host"):
                call(LISTED[name], made)
        else:
            same(host(call(LISTED[name], made)), expected)


def test_functions_get_no_array_of_numpys_and_do_not_transfer():
    x = made(np.arange(6.0).reshape(2, 3))
    with syncblob.no_transfers():
        result = np.linalg.norm(np.concatenate([x, x * 2]), axis=0).T[::-1]
        assert isinstance(result.gpu_data(), drawers.Array)
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.add(x, drawers.ones(3))
    assert (x + drawers.ones(3)).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_arrays_of_the_library_are_adopted_and_written_through():
    array = drawers.arange(6, device=1)
    blob = syncblob.asarray(array, copy=False)
    array[0] = 5
    assert (blob.device, blob.tolist()) == ("drawer:1", [5, 1, 2, 3, 4, 5])
    blob.cpu_data()
    array[0] = 7
    assert blob.cpu_data()[0] == 7
    assert syncblob.asarray(array.reshape(2, 3).T, copy=False).strides == (8, 24)
    with pytest.raises(ValueError, match="gaps"):
        syncblob.asarray(array[::2], copy=False)
    assert syncblob.asarray(array[::2]).tolist() == [7, 2, 4]
    # What a const access returns is read-only, so it is copied.
    assert syncblob.asarray(blob.gpu_data()).memory is not blob.memory


def test_its_protocol_lends_the_device_and_is_tracked():
    blob = made(np.zeros(3))
    inside, drawer = blob.gpu.__drawer_array_interface__
    inside[1] = 4
    assert (drawer, blob.tolist()) == (0, [0, 4, 0])
    alias = drawers.Array(*(lender := blob.gpu).__drawer_array_interface__, lender)
    del inside, lender
    with pytest.warns(StaleAliasWarning, match="__drawer_array_interface__ alias"):
        blob.mutable_cpu_data()
    del alias
    assert not blob.gpu.const.__drawer_array_interface__[0].flags.writeable
    assert not hasattr(blob.cpu, "__drawer_array_interface__")
    assert blob.__dlpack_device__() == (drawers.DLPACK_TYPE, 0)


def test_torch_computes_on_the_host():
    torch = pytest.importorskip("torch")
    x = made(np.array([[1.0, -2.0], [3.0, 4.0]]))
    assert torch.relu(x).tolist() == [[1, 0], [3, 4]]
    assert x.device.torch == torch.device("cpu")
    x.mutable_gpu_data()[0] = 7
    assert torch.matmul(x, torch.eye(2, dtype=torch.float64)).tolist() == [[7, 7], [3, 4]]


def test_out_has_the_shape_and_the_kind_of_the_result():
    x, out = made(np.arange(3.0)), made(np.zeros(3, np.int64))
    with pytest.raises(TypeError, match="holds float64, got int64"):
        np.multiply(x, 2, out=out)
    with pytest.raises(ValueError, match="shape"):
        np.multiply(x, 2, out=made(np.zeros((2, 3))))
    target = made(np.zeros(3, np.float32))
    assert np.multiply(x, 2, out=target) is target
    assert (target.tolist(), out.tolist()) == ([0, 2, 4], [0, 0, 0])


def test_a_mask_of_a_ufunc_keeps_the_other_elements_of_out():
    x, out, mask = np.arange(3.0), np.full((2, 3), 7.0), np.array([[True], [False]])
    target = made(out)
    np.add(made(x), 1, out=target, where=made(mask))
    np.testing.assert_array_equal(target, np.add(x, 1, out=out, where=mask))
    array = np.full(3, 7.0)
    np.add(made(x), 1, out=array, where=made(x) > 1)
    assert array.tolist() == [7, 7, 3]


def test_its_backend_inherits_what_the_page_names():
    home = accelerator("drawer:0")
    assert isinstance(home, LibraryHome)
    with pytest.raises(NotImplementedError, match="drawer:0 cannot compute lib"):
        home.own("lib.scimath.sqrt")
    with syncblob.use_device("drawer:1"):
        assert syncblob.fft.fftfreq(4).gpu_data().drawer == 1
