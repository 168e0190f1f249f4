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

    pd.Series(VECTOR)
    pd.Series(VECTOR, name="a", index=TIMES)
    pd.Series(VECTOR, dtype="f4")
    pd.Series(VECTOR, copy=True)
    pd.Series(FLAGS)
    pd.Series(INTEGERS).value_counts()
    pd.Series({"a": VECTOR[0], "b": VECTOR[1]}).tolist()
    pd.Series([VECTOR[0], VECTOR[1]], dtype=float)
    pd.Series(VECTOR).rolling(3).mean()
    pd.Series(VECTOR) + VECTOR
    pd.Series(VECTOR).to_numpy()
    pd.DataFrame(IMAGE)
    pd.DataFrame(IMAGE, columns=list("abcdefghi"), index=VECTOR[:8])
    pd.DataFrame(IMAGE, dtype="f4")
    pd.DataFrame(VECTOR)
    pd.DataFrame(FLOATS).describe()
    pd.DataFrame({"a": VECTOR, "b": TIMES})
    pd.DataFrame({"a": VECTOR, "b": 1}, index=INTEGERS[:8].tolist() + [9])
    pd.DataFrame({"a": VECTOR}).groupby(INTEGERS[[0, 1, 2, 3, 4, 5, 6, 7, 0]]).sum()
    pd.DataFrame([VECTOR, TIMES])
    pd.DataFrame(dict(enumerate(IMAGE)))
    pd.DataFrame.from_records(IMAGE)
    pd.DataFrame.from_dict({"a": VECTOR}, orient="columns")
    pd.DataFrame(INTEGERS.reshape(4, 2)).to_dict()
    pd.DataFrame(IMAGE).to_csv()
    pd.DataFrame(IMAGE).to_parquet(TMP / "x") or pd.read_parquet(TMP / "x")
    pd.Index(VECTOR)
    pd.Index(INTEGERS, dtype="i4")
    pd.MultiIndex.from_arrays([INTEGERS, INTEGERS]).tolist()
    pd.Categorical(INTEGERS)
    pd.Categorical.from_codes(INDEX, ["a", "b", "c"])
    pd.array(VECTOR)
    pd.array(INTEGERS, dtype="Int64")
    pd.to_datetime(INTEGERS, unit="s")
    pd.to_timedelta(VECTOR, unit="s")
    pd.to_numeric(VECTOR)
    pd.unique(INTEGERS)
    pd.factorize(INTEGERS)
    pd.cut(VECTOR, 3)
    pd.cut(ND.VECTOR, VECTOR[::4])
    pd.qcut(VECTOR, 3)
    pd.isna(WITH_NANS)
    pd.notna(WITH_NANS)
    pd.concat([pd.Series(VECTOR), pd.Series(TIMES)])
    pd.crosstab(INTEGERS, INTEGERS)
    pd.get_dummies(INTEGERS)
    pd.Timestamp(int(NUMBER))
    pd.date_range("2020", periods=NUMBER.item())
    pd.arrays.IntervalArray.from_breaks(VECTOR).mid
    pd.DatetimeIndex(INTEGERS)
    pd.merge_asof(FRAME.sort_values("a"), pd.DataFrame({"a": VECTOR}), on="a")
    pd.testing.assert_series_equal(pd.Series(VECTOR), pd.Series(ND.VECTOR))
    SERIES + VECTOR
    VECTOR + SERIES
    SERIES * FLOATS[0, 0]
    SERIES > VECTOR
    SERIES == VECTOR
    SERIES.add(VECTOR)
    SERIES.dot(VECTOR)
    SERIES[FLAGS]
    SERIES[INDEX]
    SERIES.iloc[INDEX]
    SERIES.iloc[FLAGS]
    SERIES.loc[INDEX]
    SERIES.loc[FLAGS]
    SERIES.iloc[NUMBER]
    SERIES.take(INDEX)
    SERIES.isin(VECTOR[:3])
    SERIES.where(FLAGS)
    SERIES.where(FLAGS, VECTOR)
    SERIES.mask(FLAGS, 0)
    SERIES.clip(VECTOR)
    SERIES.map(dict(zip(VECTOR, TIMES)))
    SERIES.reindex(INDEX)
    SERIES.replace(VECTOR[0], 5)
    SERIES.fillna(SCALAR)
    SERIES.fillna(0.0) + SCALAR
    SERIES.combine(pd.Series(TIMES), max)
    SERIES.corr(pd.Series(TIMES))
    SERIES.quantile(VECTOR)
    SERIES.searchsorted(VECTOR)
    SERIES.between(VECTOR, TIMES)
    SERIES.groupby(INTEGERS[[0, 1, 2, 3, 4, 5, 6, 7, 0]]).sum()
    SERIES.groupby(ND.FLAGS).transform(lambda x: x * SCALAR)
    SERIES.set_axis(TIMES)
    SERIES.repeat(INTEGERS[[0, 1, 2, 3, 4, 5, 6, 7, 0]])
    SERIES.rolling(3).apply(lambda x: x @ VECTOR[:3], raw=True)
    np.add(SERIES, VECTOR)
    np.where(FLAGS, SERIES, 0)
    np.dot(SERIES, VECTOR)
    assigned(SERIES, FLAGS, 0)
    assigned(SERIES, slice(None), VECTOR)
    located(SERIES, FLAGS, VECTOR[FLAGS])
    located(SERIES, INDEX, VECTOR[:3])
    FRAME + IMAGE
    IMAGE + FRAME
    FRAME * VECTOR
    FRAME == IMAGE
    FRAME @ VECTOR
    FRAME.dot(IMAGE.T)
    IMAGE.T @ FRAME
    FRAME.add(VECTOR, axis=1)
    FRAME.mul(VECTOR[:8], axis=0)
    FRAME[MASK[:, 0]]
    FRAME[MASK]
    FRAME.loc[MASK[:, 0]]
    FRAME.loc[:, FLAGS]
    FRAME.loc[INDEX]
    FRAME.iloc[INDEX]
    FRAME.iloc[INDEX, INDEX]
    FRAME.iloc[:, FLAGS]
    FRAME.iloc[NUMBER]
    FRAME.at[NUMBER.item(), "a"]
    FRAME.where(MASK)
    FRAME.where(MASK, IMAGE)
    FRAME.mask(MASK)
    FRAME.isin(VECTOR)
    FRAME.assign(z=VECTOR[:8])
    FRAME.copy().insert(0, "z", VECTOR[:8])
    FRAME.set_index(VECTOR[:8])
    FRAME.set_index([VECTOR[:8], "a"])
    FRAME.take(INDEX)
    FRAME.drop(INDEX)
    FRAME.reindex(INDEX)
    FRAME.groupby(INTEGERS).mean()
    FRAME.groupby([INTEGERS, INTEGERS]).size()
    FRAME.apply(lambda row: row @ VECTOR, axis=1)
    FRAME.sort_values("a", key=lambda x: x * SCALAR)
    FRAME.query("a > @VECTOR.mean()")
    FRAME.eval("a + @SCALAR")
    FRAME.corrwith(pd.Series(VECTOR[:8]))
    FRAME.sample(3, weights=VECTOR[:8], random_state=0)
    FRAME.fillna(SCALAR)
    FRAME.join(pd.DataFrame(IMAGE))
    FRAME.pivot_table(index=INTEGERS, values="a")
    FRAME.rolling(3).corr(pd.Series(VECTOR[:8]))["a"].count()
    FRAME.sum() + VECTOR
    FRAME.clip(VECTOR, axis=1)
    assigned(FRAME, "z", VECTOR[:8])
    assigned(FRAME, "a", IMAGE[:, 0])
    assigned(FRAME, ["a", "b"], IMAGE[:, :2])
    assigned(FRAME, MASK, 0)
    located(FRAME, (MASK[:, 0], "a"), 0)
    located(FRAME, (slice(None), "a"), VECTOR[:8])
    pd.Index(ND.VECTOR).isin(VECTOR)
    pd.Index(ND.INDEX).get_indexer(INDEX)
    pd.Index(ND.INDEX).union(INDEX)
    pd.Index(ND.VECTOR)[FLAGS]
    pd.Index(ND.VECTOR).take(INDEX)
    pd.eval("a + 1", local_dict={"a": VECTOR})


def polars():
    import polars as pl

    FRAME = pl.DataFrame({"a": VECTOR, "b": TIMES})
    pl.Series(VECTOR)
    pl.Series("a", VECTOR)
    pl.Series("a", VECTOR, dtype=pl.Float32)
    pl.Series(values=INTEGERS, name="a")
    pl.Series("a", FLAGS)
    pl.Series("a", IMAGE)
    pl.Series([VECTOR, TIMES])
    pl.Series("a", FLOATS[0])
    pl.DataFrame({"a": VECTOR, "b": TIMES})
    pl.DataFrame({"a": VECTOR}, schema={"a": pl.Float32})
    pl.DataFrame({"a": IMAGE})
    pl.DataFrame(IMAGE)
    pl.DataFrame(IMAGE, schema=list("abcdefghi"))
    pl.DataFrame([VECTOR, TIMES])
    pl.DataFrame(VECTOR)
    pl.from_numpy(IMAGE)
    pl.from_dict({"a": VECTOR})
    pl.LazyFrame({"a": VECTOR}).collect()
    FRAME.with_columns(c=VECTOR)
    FRAME.with_columns(pl.Series("c", VECTOR))
    FRAME.with_columns(pl.lit(VECTOR).alias("c"))
    FRAME.filter(FLAGS)
    FRAME.filter(pl.Series(FLAGS))
    FRAME.filter(pl.col("a").is_in(VECTOR[:3]))
    FRAME[INDEX]
    FRAME["a"][INDEX]
    FRAME["a"].gather(INDEX)
    FRAME["a"].filter(FLAGS)
    FRAME["a"] + VECTOR
    VECTOR + FRAME["a"]
    FRAME["a"].is_in(VECTOR)
    FRAME["a"].search_sorted(VECTOR)
    FRAME["a"].set(pl.Series(FLAGS), 0.0)
    FRAME["a"].scatter(INDEX, 0.0)
    FRAME.clone().insert_column(0, pl.Series("c", VECTOR))
    FRAME.select(pl.col("a") * SCALAR)
    FRAME.select(pl.col("a") + VECTOR)
    FRAME.select(pl.col("a").fill_null(SCALAR))
    FRAME.head(int(NUMBER))


def pyarrow():
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    pa.array(VECTOR)
    pa.array(VECTOR, type=pa.float32())
    pa.array(VECTOR, mask=FLAGS)
    pa.array(FLAGS)
    pa.array(INTEGERS, from_pandas=True)
    pa.array([VECTOR, TIMES])
    pa.chunked_array([VECTOR, TIMES])
    pa.table({"a": VECTOR, "b": INTEGERS[[0, 1, 2, 3, 4, 5, 6, 7, 0]]})
    pa.table([VECTOR], names=["a"])
    pa.record_batch({"a": VECTOR})
    pa.Table.from_pydict({"a": VECTOR}).to_pydict()
    pa.Table.from_arrays([VECTOR], names=["a"])
    pa.table({"a": ND.VECTOR}).append_column("b", pa.array(TIMES))
    pa.table({"a": ND.VECTOR}).filter(pa.array(FLAGS))
    pa.table({"a": ND.VECTOR}).filter(FLAGS)
    pa.table({"a": ND.VECTOR}).take(INDEX)
    pa.scalar(VECTOR[0].item())
    pa.scalar(SCALAR[()])
    pa.Tensor.from_numpy(IMAGE).to_numpy()
    pa.FixedSizeListArray.from_arrays(VECTOR, 3)
    pa.ListArray.from_arrays(INDEX[1:] * 4, VECTOR)
    pa.DictionaryArray.from_arrays(INDEX, ["a", "b", "c"])
    pa.py_buffer(BYTES).to_pybytes()
    pc.sum(VECTOR)
    pc.add(pa.array(ND.VECTOR), VECTOR)
    pc.is_in(pa.array(ND.VECTOR), value_set=pa.array(VECTOR))
    pq.write_table(pa.table({"a": VECTOR}), TMP / "x") or pq.read_table(TMP / "x")


def xarray():
    import pandas as pd
    import xarray as xr

    ARRAY = xr.DataArray(IMAGE, dims=("y", "x"), coords={"x": VECTOR, "y": np.arange(8)})
    xr.DataArray(IMAGE, dims=("y", "x")).values
    xr.DataArray(IMAGE, dims=("y", "x"), coords={"x": VECTOR}).sel(x=0.5, method="nearest").values
    xr.DataArray(VECTOR).to_numpy()
    xr.DataArray(IMAGE).to_pandas()
    xr.DataArray(VECTOR, dims="x", name="a").to_dataframe()
    xr.DataArray(IMAGE).to_series()
    xr.Dataset({"a": ("x", VECTOR)}).a.values
    xr.Dataset({"a": ("x", VECTOR)}, coords={"x": TIMES}).to_dataframe()
    xr.Dataset({"a": (("y", "x"), IMAGE)}).to_netcdf(TMP / "x") is None
    xr.Dataset({"a": ("x", VECTOR)}).to_zarr(TMP / "x") is None
    xr.Variable("x", VECTOR).values
    xr.IndexVariable("x", VECTOR).values
    ARRAY + IMAGE
    IMAGE + ARRAY
    ARRAY * SCALAR
    np.multiply(IMAGE, ARRAY)
    ARRAY.values + IMAGE
    ARRAY.isel(x=INDEX)
    ARRAY[INDEX]
    ARRAY[:, FLAGS]
    ARRAY.isel(x=FLAGS)
    ARRAY.sel(x=VECTOR[:3])
    ARRAY.where(MASK)
    ARRAY.where(ARRAY > SCALAR, 0)
    ARRAY.interp(x=VECTOR[:8] + 0.01)
    ARRAY.assign_coords(x=TIMES)
    ARRAY.copy(data=IMAGE)
    ARRAY.groupby_bins("x", VECTOR[::4]).mean()
    ARRAY.isin(VECTOR)
    ARRAY.fillna(SCALAR)
    ARRAY.dot(xr.DataArray(VECTOR, dims="x"))
    ARRAY.quantile(VECTOR[:3])
    ARRAY.reindex(x=TIMES)
    ARRAY.expand_dims(z=VECTOR[:2])
    ARRAY.to_dataset(name="a").assign(b=(("y", "x"), IMAGE)).b.values
    xr.DataArray(IMAGE, dims=("y", "x")).rolling(x=3).mean().values
    xr.DataArray(VECTOR, dims="x", coords={"x": ND.VECTOR}).interp(x=[0.1, 0.2]).values
    xr.DataArray(VECTOR, dims="x", coords={"x": ND.TIMES}).polyfit("x", 1).polyfit_coefficients
    xr.DataArray(VECTOR, dims="x").rank("x").values
    xr.DataArray(WITH_NANS, dims=("y", "x")).ffill("x").values
    xr.DataArray(WITH_NANS, dims=("y", "x")).interpolate_na("x").values
    xr.DataArray(WITH_NANS, dims=("y", "x")).dropna("x").shape
    xr.DataArray(IMAGE, dims=("y", "x")).chunk(x=3).mean().values
    xr.concat([ARRAY, ARRAY.copy(data=IMAGE)], "y").values
    xr.merge([xr.DataArray(VECTOR, dims="x", name="a")]).a.values
    xr.full_like(ARRAY, SCALAR)
    xr.align(ARRAY, xr.DataArray(IMAGE, dims=("y", "x")))[0]
    xr.testing.assert_equal(xr.DataArray(IMAGE), xr.DataArray(ND.IMAGE))
    xr.apply_ufunc(np.hypot, ARRAY, IMAGE)
    xr.corr(xr.DataArray(VECTOR), xr.DataArray(TIMES))
    xr.DataArray(IMAGE, dims=("y", "x")).equals(xr.DataArray(ND.IMAGE, dims=("y", "x")))
    xr.DataArray(INTEGERS, dims="x").item(0)
    pd.Series(xr.DataArray(VECTOR))


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

    geopandas.points_from_xy(VECTOR, TIMES)[0].wkt
    geopandas.GeoDataFrame({"a": VECTOR}, geometry=geopandas.points_from_xy(TIMES, TIMES))["a"]
    geopandas.GeoSeries.from_xy(VECTOR, TIMES).x
    geopandas.GeoSeries.from_xy(ND.VECTOR, ND.TIMES)[FLAGS].y
    geopandas.GeoSeries.from_xy(ND.VECTOR, ND.TIMES).distance(geopandas.GeoSeries.from_xy(VECTOR, VECTOR))


def seaborn():
    import matplotlib as mpl
    import pandas as pd
    import seaborn as sns
    from matplotlib.figure import Figure

    mpl.use("Agg")

    def axes():
        return Figure().subplots()

    sns.lineplot(x=VECTOR, y=TIMES, ax=axes()).lines[0].get_ydata()
    sns.scatterplot(x=VECTOR, y=TIMES, ax=axes()).collections[0].get_offsets()
    sns.histplot(SIGNAL, ax=axes()).patches[0].get_height()
    sns.heatmap(IMAGE, ax=axes()).collections[0].get_array()
    sns.barplot(x=INTEGERS, y=VECTOR[:8], ax=axes()).patches[0].get_height()
    sns.boxplot(SIGNAL, ax=axes()).lines[0].get_ydata()
    sns.kdeplot(SIGNAL, ax=axes()).lines[0].get_ydata()
    sns.regplot(x=VECTOR, y=TIMES, ax=axes(), ci=None).lines[0].get_ydata()
    sns.color_palette("viridis", NUMBER.item())
    sns.lineplot(pd.DataFrame({"a": VECTOR}), ax=axes()).lines[0].get_ydata()
