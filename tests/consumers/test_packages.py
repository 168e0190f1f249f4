"""Facts about packages that the table does not show: errors, writes, and conversions back."""

import operator
import warnings

import numpy as np
import pytest
from made_blobs import address, blob_in, values
from other_processes import run

import syncblob
from syncblob import Blob, Head


def test_pyarrow_takes_one_axis_of_any_number():
    pa = pytest.importorskip("pyarrow")
    for dtype in ("int8", "uint64", "float16", "float64", "bool"):
        blob = blob_in(Head.SYNCED, dtype, (5,))
        assert pa.array(blob).to_pylist() == values(dtype, (5,)).tolist()
        assert pa.array(blob[::-2]).to_pylist() == values(dtype, (5,))[::-2].tolist()
    assert pa.array(Blob(2), type=pa.float64()).type == pa.float64()
    assert pa.table({"x": Blob(2), "y": Blob(2)}).shape == (2, 2)
    for shape in ((), (2, 3)):
        with pytest.raises(pa.ArrowInvalid, match="1-dim"):
            pa.array(Blob(shape))


def test_arrows_capsules_are_over_the_memory_of_a_blob_of_one_axis():
    pa = pytest.importorskip("pyarrow")
    blob = blob_in(Head.HEAD_AT_GPU, shape=(5,))
    with syncblob.no_transfers():
        capsules = blob.__arrow_c_array__
    array = pa.Array._import_from_c_capsule(*capsules())
    assert array.to_pylist() == values(shape=(5,)).tolist()
    assert array.buffers()[1].address == address(blob.cpu_data())
    for shape in ((), (2, 3)):
        assert not hasattr(Blob(shape), "__arrow_c_array__")


def test_arrays_of_pyarrow_that_have_no_capsule_become_blobs():
    pa = pytest.importorskip("pyarrow")
    bools = Blob.asarray(np.array([True, False]))
    back = syncblob.asarray(pa.array(bools))
    assert (back.dtype, back.tolist()) == ("bool", [True, False])
    assert (bools ^ pa.array([True, True])).tolist() == [False, True]
    with_null = pa.array([1, None])
    assert np.isnan(syncblob.asarray(with_null).cpu_data()).tolist() == [False, True]
    np.testing.assert_array_equal(Blob.asarray(np.ones(2)) + with_null, [2, np.nan])
    with pytest.raises(TypeError, match="object"):
        syncblob.asarray(pa.array(["text"]))


@pytest.mark.parametrize("dtype", ["int4", "float8_e4m3fn"])
def test_small_dtypes_of_jax_are_converted(dtype):
    jax = pytest.importorskip("jax")
    array = jax.numpy.array([1, 2], dtype=dtype)
    assert syncblob.asarray(array, dtype="float32").tolist() == [1, 2]
    with pytest.raises(TypeError, match=dtype):
        syncblob.asarray(array)


def test_arrays_of_jax_become_blobs_and_simulated_devices_are_not_jaxs():
    jax = pytest.importorskip("jax")
    blob = blob_in(Head.SYNCED)
    taken = jax.dlpack.from_dlpack(blob.cpu)
    result = syncblob.asarray(jax.numpy.sin(taken))
    np.testing.assert_allclose(np.asarray(result), np.sin(values()), rtol=1e-6)
    result += 1  # a copy: JAX's arrays never change
    with pytest.raises(RuntimeError, match="local_device_id 1"):
        jax.dlpack.from_dlpack(blob_in(Head.HEAD_AT_GPU))
    host = syncblob.asarray(values())
    assert jax.dlpack.from_dlpack(host).tolist() == values().tolist()


def test_jax_converts_where_it_asks():
    jax = pytest.importorskip("jax")
    numpy = jax.numpy
    blob, array = blob_in(Head.HEAD_AT_GPU), values()
    for call in (
        lambda x: numpy.einsum("ij,ij->i", x, x),
        lambda x: numpy.stack([x, x]),
        lambda x: numpy.ones((2, 3)) * x,
        lambda x: jax.jit(lambda y: y + x)(numpy.ones((2, 3))),
        lambda x: jax.grad(lambda y: (y * x).sum())(numpy.ones((2, 3))),
    ):
        actual, expected = call(blob), call(array)
        assert type(actual) is type(expected)
        assert actual.tolist() == expected.tolist()
    kept = numpy.asarray(blob)
    blob[...] = 0
    assert kept.tolist() == array.tolist()  # JAX's arrays never change
    with pytest.raises(ValueError, match=r"jax\.numpy\.array"):
        numpy.sin(blob)


def run_alone(program):
    """Run a program in a process of its own, without an error."""
    done = run(program)
    assert done.returncode == 0, done.stderr


def test_sympy_takes_items_as_numbers_and_moves_nothing_else():
    sympy = pytest.importorskip("sympy")
    symbol = sympy.Symbol("a")
    for array in (np.array([8.5, 2]), np.array([11, 3]), np.array([True]), np.array([1 + 2j])):
        blob = Blob(array.shape, array.dtype, device="simulated")
        blob.overwrite_gpu_data()[...] = array
        for convert in (sympy.sympify, lambda x: symbol.subs(symbol, x)):
            assert convert(blob[0]) == convert(array[0])
        assert blob.head is Head.HEAD_AT_GPU
        assert sympy.sympify(blob) == sympy.sympify(array)
    item = Blob.asarray(np.array([11, 3]))[0]
    assert (symbol + item, item * symbol, sympy.Rational(item, 3)) == (
        symbol + 11,
        11 * symbol,
        sympy.Rational(11, 3),
    )


def test_jax_takes_blobs_everywhere_after_an_import():
    pytest.importorskip("jax")
    # In another process, because a pytree cannot be unregistered.
    program = """if True:
        import jax, numpy as np, syncblob.integrations.jax
        from syncblob import Head
        from made_blobs import blob_in, values
        for call in (
            jax.numpy.sin,
            jax.jit(lambda x: x @ x.T),
            jax.grad(lambda x: (x**2).sum()),
            jax.vmap(jax.numpy.sum),
            lambda x: jax.numpy.where(x > 2, x, 0),
        ):
            blob, array = blob_in(Head.HEAD_AT_GPU), values()
            actual, expected = call(blob), call(array)
            assert type(actual) is type(expected)
            np.testing.assert_array_equal(actual, expected)
            assert np.array_equal(blob.gpu_data(), array)
        kept = jax.jit(lambda x: x)(blob)
        blob[...] = 0
        assert kept.tolist() == array.tolist()  # JAX's arrays never change
    """
    run_alone(program)


def test_polars_takes_one_axis_as_an_arrow_array_without_a_name():
    pl = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    blob, numbers = blob_in(Head.HEAD_AT_GPU, shape=(5,)), values(shape=(5,))
    for series in (pl.Series(blob), pl.DataFrame({"a": blob})["a"]):
        assert series.to_list() == numbers.tolist()
        assert series.dtype == pl.Series(numbers).dtype
    # As of every library's Arrow arrays, it applies neither the name nor the dtype.
    given = pl.Series("name", blob, dtype=pl.Float64)
    assert (given.name, given.dtype) == ("", pl.Series(numbers).dtype)
    with pytest.raises(TypeError, match="unsupported type 'Blob'"):
        pl.DataFrame(blob_in(Head.HEAD_AT_GPU))


@pytest.mark.parametrize("array", [[1.5, 2.5], [2**53 + 1, 2]])
def test_polars_takes_lists_of_items(array):
    pytest.importorskip("polars")
    # In another process, because Polars converts all Blobs as it does the first one.
    run_alone(f"""if True:
        import polars as pl, syncblob
        x = syncblob.asarray({array})
        for series in (pl.Series([x[0], x[1]]), pl.DataFrame({{"a": [x[0], x[1]]}})["a"]):
            assert series.to_list() == x.tolist()
            assert series.dtype == pl.Series(x.tolist()).dtype
    """)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("DataFrame", (2, 3)),
        ("DataFrame", (3,)),
        ("DataFrame", ()),
        ("Series", (3,)),
        ("Series", ()),
    ],
)
def test_pandas_operators_take_blobs_on_both_sides(kind, shape):
    pd = pytest.importorskip("pandas")
    other = getattr(pd, kind)((values() + 1) if kind == "DataFrame" else [1.0, 4.0, 2.0])
    blob, array = blob_in(Head.HEAD_AT_GPU, shape=shape), values(shape=shape)
    for compute in (operator.add, operator.truediv, operator.pow, operator.eq, operator.lt):
        for actual, expected in (
            (compute(other, blob), compute(other, array)),
            (compute(blob, other), compute(array, other)),
        ):
            assert type(actual) is type(other)
            assert actual.equals(expected)


def test_scipys_iterative_solvers_take_a_dense_matrix_that_stays_on_its_device():
    linalg = pytest.importorskip("scipy.sparse.linalg")
    matrix = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 5.0]])
    blob, vector = Blob((3, 3), "float64", device="simulated:0", name="matrix"), np.ones(3)
    blob.overwrite_gpu_data()[...] = matrix
    with syncblob.record_transfers() as log:
        for solve in (
            lambda a: linalg.cg(a, vector)[0],
            lambda a: linalg.gmres(a, vector)[0],
            lambda a: linalg.eigsh(a, 1, v0=vector)[0],
            lambda a: linalg.svds(a[:2], 1, v0=np.ones(2))[1],
            lambda a: linalg.aslinearoperator(a).rmatmat(matrix),
        ):
            np.testing.assert_allclose(solve(blob), solve(matrix))
    assert log
    assert all(transfer.name != "matrix" for transfer in log)
    turned = matrix * (1 + 2j)
    np.testing.assert_allclose(Blob.asarray(turned).rmatvec(vector), turned.conj().T @ vector)


def test_pictures_by_arrow():
    image_module = pytest.importorskip("PIL.Image")
    pytest.importorskip("pyarrow")
    blob = blob_in(Head.HEAD_AT_GPU, "uint8", (4, 5, 4))
    picture = image_module.fromarrow(blob.reshape(-1), "RGBA", (5, 4))
    assert np.asarray(picture).tolist() == blob.tolist()
    blob.mutable_cpu_data()[...] = 9
    assert picture.getpixel((4, 3)) == (9, 9, 9, 9)  # without a copy


def test_hdf5_reads_into_a_blob_without_a_copy(tmp_path):
    h5py = pytest.importorskip("h5py")
    blob = Blob((2, 3), device="simulated")
    with h5py.File(tmp_path / "file.h5", "w") as file, syncblob.no_transfers():
        file["x"] = values()
        file["x"].read_direct(np.asarray(blob.cpu.overwrite))
    assert blob.gpu_data().tolist() == values().tolist()


def vtk_writes(array):
    """Set the first row to 9."""
    pytest.importorskip("vtkmodules.util.numpy_support").numpy_to_vtk(array).SetTuple3(0, 9, 9, 9)


def rasterio_writes(array):
    """Set the first row to 9."""
    row = [[(0, 0), (3, 0), (3, 1), (0, 1)]]
    features = pytest.importorskip("rasterio.features")
    features.rasterize([({"type": "Polygon", "coordinates": row}, 9)], out=array)


def warp_writes(array):
    """Set the first row to 9, by a kernel that runs after the export has ended."""
    warp = pytest.importorskip("warp")

    @warp.kernel
    def fill(y: warp.array2d(dtype=warp.float32)):
        y[0, warp.tid()] = 9.0

    warp.launch(fill, 3, inputs=[array])


@pytest.mark.parametrize("write", [vtk_writes, rasterio_writes, warp_writes])
def test_writes_through_const_arrays_are_found_where_they_have_no_right(write):
    adopted = values()
    for own in (True, False):
        blob = syncblob.asarray(adopted, copy=own).on("simulated")
        _ = blob.gpu_data()
        with (
            syncblob.verified_const(),
            warnings.catch_warnings(record=True, action="always") as caught,
        ):
            write(blob)
            first = blob.gpu_data()[0].tolist()
        assert [w.category.__name__ for w in caught] == ["ConstWriteWarning"] * own
        # If other libraries may write the memory, the device gets the newest contents.
        assert (first == [9, 9, 9]) is not own
