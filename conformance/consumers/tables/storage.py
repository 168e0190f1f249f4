"""Libraries that store and send arrays."""

import numpy as np

from conformance.consumers.inputs import *


def h5py():
    import io
    import h5py

    def file():
        return h5py.File(io.BytesIO(), "w")

    def created(**settings):
        return file().create_dataset("x", **settings)[()]

    def assigned(key, value):
        dataset = file().create_dataset("x", shape=(16, 18), dtype="f4")
        dataset[key] = value
        return dataset[()]

    DATA = file().create_dataset("x", data=np.arange(288, dtype="f4").reshape(16, 18))
    created(data=FLOATS.T)
    created(data=ND.FLOATS, fillvalue=SCALAR)
    created(shape=tuple(INDEX + 1), dtype="f4")
    assigned((0, slice(None)), FLOATS[0])
    assigned(BLACK, 7)
    assigned(ND.BLACK, FLOATS[BLACK])
    DATA[np.sort(ND.INDEX)] + 0 * FLOATS[:3]
    DATA[np.sort(INDEX)]
    DATA[BLACK[:, 0]]
    DATA.read_direct(OUT)
    file().create_dataset("x", (2,), h5py.vlen_dtype(np.float64)).__setitem__(0, VECTOR)


def tables():
    import tables as tb

    class Row(tb.IsDescription):
        a = tb.Float64Col()
        b = tb.Float32Col(shape=(18,))

    def file():
        return tb.open_file("x", "w", driver="H5FD_CORE", driver_core_backing_store=0)

    def with_table(change):
        with file() as f:
            table = f.create_table("/", "t", Row)
            table.append(np.zeros(4, table.dtype))
            change(table)
            table.flush()
            return table.col("a"), table.col("b")

    def filled(kind, value, *change):
        with file() as f:
            array = getattr(f, f"create_{kind}")("/", "x", obj=value)
            for function in change:
                function(array)
            return array[:]

    def array(key, *shape):
        with file() as f:
            return f.create_array("/", "x", obj=np.arange(float(np.prod(shape))).reshape(shape))[key]

    filled("array", FLOATS)
    filled("carray", ND.FLOATS, lambda x: x.__setitem__(BLACK, 7))
    filled("array", SCALAR[None])
    array((INDEX[1:], 0), 16, 18)
    array(FLAGS[:2], 2)
    array(NUMBER, 9)
    with_table(lambda t: t.modify_column(column=VECTOR[:4], colname="a"))
    with_table(lambda t: t.append([(VECTOR[0], FLOATS[0])]))
    with_table(lambda t: t[INDEX[1:]])
    with_table(lambda t: t.attrs.__setattr__("x", VECTOR))


def zarr():
    import zarr

    def assigned(key, value, way="__setitem__"):
        array = zarr.create_array(zarr.storage.MemoryStore(), shape=(16, 18), dtype="f4")
        target = getattr(array, way, None) or array
        (target if callable(target) else target.__setitem__)(key, value)
        return array[:]

    DATA = zarr.create_array(zarr.storage.MemoryStore(), data=np.arange(288.0).reshape(16, 18))
    zarr.open_group(zarr.storage.MemoryStore(), attributes={"a": VECTOR.tolist()}).attrs["a"]
    assigned((INDEX, slice(None)), FLOATS[:3], "set_orthogonal_selection")
    assigned((INDEX, INDEX), VECTOR[:3], "vindex")
    DATA.oindex[BLACK[:, 0]]
    DATA[:] + FLOATS


def joblib():
    import joblib

    joblib.dump(IMAGE, TMP / "x") and np.asarray(joblib.load(TMP / "x"))
    joblib.Parallel(2, "threading")(joblib.delayed(np.sum)(row) for row in IMAGE)
    joblib.Memory(TMP, verbose=0).cache(np.sum)(IMAGE)


def cloudpickle():
    import copy
    import pickle

    np.asarray(pickle.loads(pickle.dumps(IMAGE)))
    np.asarray(copy.deepcopy({"a": IMAGE})["a"])
    copy.copy(IMAGE)


def netcdf4():
    import netCDF4

    def stored(dtype, value, key=slice(None)):
        with netCDF4.Dataset("x", "w", diskless=True) as file:
            for name, size in zip("xy", (16, 18)):
                file.createDimension(name, size)
            variable = file.createVariable("v", dtype, ("x", "y"))
            variable[:] = np.zeros((16, 18))
            variable[key] = value
            return np.asarray(variable[:])

    stored("f4", FLOATS[:3], slice(3))
    stored("f4", 1.0, BLACK[:, 0])
    stored("f4", FLOATS[0], NUMBER)


def numcodecs():
    import numcodecs

    numcodecs.Blosc().encode(FLOATS)
    numcodecs.Zlib().decode(numcodecs.Zlib().encode(ND.FLOATS), out=OUT)


def blosc2():
    import blosc2

    blosc2.asarray(FLOATS)[:]
    blosc2.decompress(blosc2.compress(BYTES))
    blosc2.unpack_array2(blosc2.pack_array2(FLOATS))
    blosc2.SChunk(data=FLOATS)[:]


def lz4():
    import lz4.frame

    lz4.frame.decompress(lz4.frame.compress(BYTES))
    lz4.frame.decompress(lz4.frame.compress(BYTES.tobytes()))


def zstandard():
    import zstandard

    zstandard.decompress(zstandard.compress(BYTES))
    zstandard.decompress(zstandard.compress(bytes(BYTES)))


def msgpack_numpy():
    import msgpack
    import msgpack_numpy

    msgpack.unpackb(msgpack.packb(VECTOR, default=msgpack_numpy.encode), object_hook=msgpack_numpy.decode)
    msgpack.unpackb(msgpack.packb(VECTOR.tolist()))


def tensorstore():
    import tensorstore as ts

    def opened():
        return ts.array(np.zeros((16, 18), "f4"))

    opened().write(FLOATS).result() is None
    opened()[BLACK].read().result()


def asdf():
    import asdf

    asdf.AsdfFile({"a": FLOATS})["a"]
    asdf.AsdfFile({"a": FLOATS}).write_to(TMP / "x") or np.array(asdf.open(TMP / "x")["a"])


def fitsio():
    import fitsio

    fitsio.write(TMP / "x.fits", FLOATS) or fitsio.read(TMP / "x.fits")
    fitsio.write(TMP / "x.fits", {"a": VECTOR}) or fitsio.read(TMP / "x.fits")["a"]


def scikit_network():
    from sknetwork import data, ranking

    ranking.PageRank().fit_predict(ADJACENCY)
    data.from_edge_list(EDGES)
    data.from_adjacency_list(EDGES.tolist())
