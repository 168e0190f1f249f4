"""Public names and their docstrings, and the cost of importing the package."""

from __future__ import annotations

import inspect
import pkgutil
import subprocess
import sys
from importlib.metadata import version

import pytest

import syncblob

FIXED = {
    "Blob",
    "Device",
    "DeviceGuardError",
    "DeviceMismatchError",
    "Head",
    "ModelFileError",
    "NoDeviceError",
    "StaleAliasWarning",
    "SyncblobError",
    "SyncedMemory",
    "TransferGuardError",
    "asarray",
    "available_devices",
    "default_device",
    "from_dlpack",
    "open_model",
    "read_blob",
    "record_transfers",
    "save_model",
    "set_default_device",
    "use_device",
    "write_blob",
}

BLOB = """
    shape dtype device ndim size T mT num_axes num channels height width head diff_head data diff
    const nbytes strides count offset resize resize_like reshape cpu_data mutable_cpu_data
    overwrite_cpu_data set_cpu_data gpu_data mutable_gpu_data overwrite_gpu_data set_gpu_data
    cpu_diff mutable_cpu_diff overwrite_cpu_diff set_cpu_diff gpu_diff mutable_gpu_diff
    overwrite_gpu_diff set_gpu_diff async_gpu_push share_data share_diff copy_from update asum_data
    asum_diff sumsq_data sumsq_diff scale_data scale_diff from_proto load_proto to_proto
    shape_string canonical_axis_index legacy_shape data_at diff_at gpu_shape shape_equals
""".split()


def public(namespace: object) -> list[str]:
    return [name for name in dir(namespace) if not name.startswith("_")]


def test_all_names_exist_are_sorted_and_documented() -> None:
    assert sorted(syncblob.__all__) == syncblob.__all__
    for name in set(syncblob.__all__) - {"newaxis"}:  # it is None
        assert inspect.getdoc(getattr(syncblob, name)), name


def test_the_fixed_names_are_there() -> None:
    assert set(syncblob.__all__) >= FIXED


def test_nothing_else_is_public_but_submodules() -> None:
    others = set(public(syncblob)) - set(syncblob.__all__)
    assert all(
        inspect.ismodule(getattr(syncblob, name))
        for name in others - {"TYPE_CHECKING", "annotations", "warnings"}
    ), others


def test_no_name_hides_a_module() -> None:
    for name, package in list(sys.modules.items()):
        if name.partition(".")[0] == "syncblob" and hasattr(package, "__path__"):
            for module in pkgutil.iter_modules(package.__path__):
                here = vars(package).get(module.name)
                assert here is None or inspect.ismodule(here), f"{name}.{module.name}"


def test_a_documented_module_can_be_used_by_its_name() -> None:
    import syncblob.devices

    assert callable(syncblob.devices.register)


@pytest.mark.parametrize("name", BLOB)
def test_blob_has_the_fixed_names(name: str) -> None:
    assert hasattr(syncblob.Blob, name)


def test_the_version_is_that_of_the_distribution() -> None:
    assert syncblob.__version__ == version("syncblob")
    with pytest.raises(AttributeError, match="no_such_name"):
        syncblob.no_such_name  # noqa: B018  # the access is the test


def test_import_brings_in_no_heavy_package() -> None:
    heavy = {"cupy", "torch", "google.protobuf", "rich", "ml_dtypes", "array_api_compat"}
    code = f"import syncblob, sys; print(*({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)
    assert done.stdout.split() == []
