"""Libraries for tables, columns and labelled arrays."""

import numpy as np

from conformance.consumers.inputs import *


def pandas():
    import pandas as pd

    SERIES = pd.Series(VECTOR, name="s")
    FRAME = pd.DataFrame(IMAGE, columns=list("abcdefghi"))

    def assigned(target, key, value):
        target = target.copy()
        target[key] = value
        return target

    def located(target, key, value):
        target = target.copy()
        target.loc[key] = value
        return target

    pd.Series(VECTOR, copy=True)
    pd.DataFrame({"a": VECTOR, "b": 1}, index=INTEGERS[:8].tolist() + [9])
    pd.DataFrame({"a": VECTOR}).groupby(INTEGERS[[0, 1, 2, 3, 4, 5, 6, 7, 0]]).sum()
    pd.DataFrame.from_records(IMAGE)
    pd.DataFrame(INTEGERS.reshape(4, 2)).to_dict()
    pd.MultiIndex.from_arrays([INTEGERS, INTEGERS]).tolist()
    pd.array(VECTOR)
    pd.unique(INTEGERS)
    pd.factorize(INTEGERS)
    pd.Timestamp(int(NUMBER))
    pd.date_range("2020", periods=NUMBER.item())
    VECTOR + SERIES
    SERIES[FLAGS]
    SERIES.iloc[FLAGS]
    SERIES.iloc[NUMBER]
    SERIES.mask(FLAGS, 0)
    SERIES.replace(VECTOR[0], 5)
    SERIES.repeat(INTEGERS[[0, 1, 2, 3, 4, 5, 6, 7, 0]])
    assigned(SERIES, FLAGS, 0)
    located(SERIES, FLAGS, VECTOR[FLAGS])
    FRAME + IMAGE
    IMAGE + FRAME
    FRAME == IMAGE
    IMAGE.T @ FRAME
    FRAME[MASK[:, 0]]
    FRAME.iloc[:, FLAGS]
    FRAME.set_index(VECTOR[:8])
    FRAME.query("a > @VECTOR.mean()")
    FRAME.eval("a + @SCALAR")
    assigned(FRAME, MASK, 0)
    pd.Index(ND.VECTOR)[FLAGS]


def polars():
    import polars as pl

    FRAME = pl.DataFrame({"a": VECTOR, "b": TIMES})
    pl.Series([VECTOR, TIMES])
    pl.Series("a", FLOATS[0])
    pl.DataFrame([VECTOR, TIMES])
    pl.from_numpy(IMAGE)
    FRAME.with_columns(c=VECTOR)
    FRAME.filter(FLAGS)
    FRAME.filter(pl.col("a").is_in(VECTOR[:3]))
    FRAME[INDEX]
    FRAME["a"][INDEX]
    FRAME["a"] + VECTOR
    VECTOR + FRAME["a"]
    FRAME.head(int(NUMBER))


def pyarrow():
    import pyarrow as pa

    pa.array(VECTOR, mask=FLAGS)
    pa.array([VECTOR, TIMES])
    pa.table({"a": VECTOR, "b": INTEGERS[[0, 1, 2, 3, 4, 5, 6, 7, 0]]})
    pa.table({"a": ND.VECTOR}).filter(FLAGS)
    pa.scalar(VECTOR[0].item())
    pa.scalar(SCALAR[()])
    pa.Tensor.from_numpy(IMAGE).to_numpy()
    pa.ListArray.from_arrays(INDEX[1:] * 4, VECTOR)
    pa.py_buffer(BYTES).to_pybytes()


def xarray():
    import xarray as xr

    ARRAY = xr.DataArray(IMAGE, dims=("y", "x"), coords={"x": VECTOR, "y": np.arange(8)})
    xr.Dataset({"a": (("y", "x"), IMAGE)}).to_netcdf(TMP / "x") is None
    IMAGE + ARRAY
    ARRAY[:, FLAGS]
    ARRAY.where(MASK)
    ARRAY.interp(x=VECTOR[:8] + 0.01)
    ARRAY.groupby_bins("x", VECTOR[::4]).mean()
    ARRAY.isin(VECTOR)
    ARRAY.fillna(SCALAR)
    ARRAY.quantile(VECTOR[:3])
    xr.DataArray(IMAGE, dims=("y", "x")).rolling(x=3).mean().values
    xr.DataArray(VECTOR, dims="x", coords={"x": ND.TIMES}).polyfit("x", 1).polyfit_coefficients
    xr.DataArray(WITH_NANS, dims=("y", "x")).dropna("x").shape
    xr.DataArray(IMAGE, dims=("y", "x")).chunk(x=3).mean().values
    xr.concat([ARRAY, ARRAY.copy(data=IMAGE)], "y").values
    xr.testing.assert_equal(xr.DataArray(IMAGE), xr.DataArray(ND.IMAGE))
    xr.corr(xr.DataArray(VECTOR), xr.DataArray(TIMES))
    xr.DataArray(INTEGERS, dims="x").item(0)


def duckdb():
    import duckdb
    import pandas as pd
    import pyarrow as pa

    def counted(frame):
        return duckdb.connect().sql("select sum(a) from frame").fetchall()

    def queried(given):
        return duckdb.connect().sql("select * from given").fetchall()

    counted(pd.DataFrame({"a": VECTOR}))
    counted(pa.table({"a": VECTOR}))
    queried(VECTOR)
    duckdb.execute("select list_sum(?)", [VECTOR.tolist()]).fetchone()
    duckdb.execute("select ?", [NUMBER.item()]).fetchone()


def fastparquet():
    import fastparquet
    import pandas as pd

    fastparquet.write(TMP / "x", pd.DataFrame({"a": VECTOR})) or pd.read_parquet(TMP / "x")


def geopandas():
    import geopandas

    geopandas.GeoDataFrame({"a": VECTOR}, geometry=geopandas.points_from_xy(TIMES, TIMES))["a"]
    geopandas.GeoSeries.from_xy(ND.VECTOR, ND.TIMES)[FLAGS].y


def seaborn():
    import matplotlib as mpl
    import seaborn as sns
    from matplotlib.figure import Figure

    mpl.use("Agg")

    def axes():
        return Figure().subplots()

    sns.histplot(SIGNAL, ax=axes()).patches[0].get_height()
    sns.barplot(x=INTEGERS, y=VECTOR[:8], ax=axes()).patches[0].get_height()
    sns.regplot(x=VECTOR, y=TIMES, ax=axes(), ci=None).lines[0].get_ydata()
    sns.color_palette("viridis", NUMBER.item())
