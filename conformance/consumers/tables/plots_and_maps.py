"""Libraries for plots, meshes and maps."""

import numpy as np

from conformance.consumers.inputs import *


def matplotlib():
    import matplotlib as mpl
    from matplotlib import colors
    from matplotlib.figure import Figure

    mpl.use("Agg")

    def axes(**kinds):
        return Figure().subplots(**kinds)

    axes().scatter(VECTOR, TIMES, c=POSITIVE[:9, :3] / 9).get_facecolor()
    axes().hist(SIGNAL, bins=VECTOR)[0]
    axes().hist2d(VECTOR, TIMES, bins=3)[0]
    axes().errorbar(VECTOR, TIMES, yerr=VECTOR)[0].get_xydata()
    axes().fill_between(VECTOR, TIMES, where=FLAGS).get_paths()[0].vertices
    axes().stackplot(VECTOR, TIMES)[0].get_paths()[0].vertices
    axes().quiver(VECTOR, TIMES, VECTOR, TIMES).U
    axes().axhline(SCALAR).get_ydata()
    axes().set_xlim(SCALAR, 5)
    axes().tricontourf(POINTS[:, 0], POINTS[:, 1], POINTS[:, 2]).levels
    axes(subplot_kw={"projection": "3d"}).plot_surface(*np.meshgrid(VECTOR, VECTOR[:8]), IMAGE).get_array()
    axes().plot("a", "b", data={"a": VECTOR, "b": TIMES})[0].get_ydata()
    axes().plot([1, 2, 3, 4, 5, 6, 7, 8, 9])[0].set_ydata(VECTOR)
    colors.BoundaryNorm(VECTOR, 256)(VECTOR)
    colors.LightSource().hillshade(IMAGE)
    mpl.transforms.Affine2D(MATRIX[:3, :3]).transform(POINTS[:, :2])


def contourpy():
    import contourpy

    contourpy.contour_generator(VECTOR, VECTOR[:8], IMAGE).filled(0.2, 0.5)


def plotly():
    import plotly.express as px
    import plotly.graph_objects as go

    go.Scatter(x=VECTOR, y=TIMES).y
    px.line(x=VECTOR, y=TIMES).data[0].y


def bokeh():
    from bokeh.models import ColumnDataSource

    ColumnDataSource({"a": VECTOR}).data["a"]


def altair():
    import altair as alt
    import pandas as pd

    alt.Chart(pd.DataFrame({"a": VECTOR})).mark_line().to_dict()["data"]
    alt.Scale(domain=VECTOR.tolist()).to_dict()
    alt.Scale(domain=VECTOR).to_dict()


def pyvista():
    import pyvista as pv

    def mesh():
        return pv.PolyData(np.array(POINTS_))

    POINTS_ = POINTS.tolist()

    def written(array, value):
        points = mesh()
        points.point_data["x"] = array
        points.point_data["x"][0] = value
        return np.array(points.point_data["x"])

    pv.PolyData(POINTS).points
    pv.wrap(POINTS).n_points
    pv.ImageData(dimensions=tuple(INDEX + 2)).n_points
    pv.StructuredGrid(*np.meshgrid(VECTOR, VECTOR, INDEX)).n_points
    pv.RectilinearGrid(VECTOR, TIMES, VECTOR).n_points
    pv.lines_from_points(POINTS).n_points
    written(POINTS, 9)
    np.array(mesh().rotate_z(SCALAR.item()).points)
    mesh().find_closest_point(POINTS[0])
    mesh().point_data.set_array(POINTS[:, 0], "x") is None
    pv.Sphere(center=POINTS[0]).center
    pv.Plane(direction=POINTS[0]).n_points


def vtk():
    from vtkmodules.util import numpy_support
    from vtkmodules.vtkCommonMath import vtkMatrix4x4

    def written(array):
        numpy_support.numpy_to_vtk(array).SetTuple3(0, 9, 9, 9)

    numpy_support.vtk_to_numpy(numpy_support.numpy_to_vtkIdTypeArray(INDEX))
    written(POINTS)
    vtkMatrix4x4().DeepCopy(MATRIX.ravel())


def trimesh():
    import trimesh

    trimesh.Trimesh(POINTS, FACES).area
    trimesh.PointCloud(POINTS).bounds
    trimesh.creation.box().apply_transform(np.diag(SYMMETRIC.diagonal())).area
    trimesh.unitize(POINTS)


def rasterio():
    from rasterio import features, fill, io, plot, transform, warp

    SHAPES = [({"type": "Polygon", "coordinates": [[(1, 1), (9, 1), (9, 9), (1, 1)]]}, 7)]
    GRID = {"src_crs": "EPSG:4326", "dst_crs": "EPSG:4326"}
    GRID |= dict.fromkeys(["src_transform", "dst_transform"], transform.from_origin(0, 16, 1, 1))
    PROFILE = {"driver": "GTiff", "width": 18, "height": 16, "count": 1, "crs": "EPSG:4326"}

    def stored(dtype, *arguments):
        with io.MemoryFile() as memory:
            with memory.open(**PROFILE, dtype=dtype, transform=GRID["src_transform"]) as file:
                file.write(*arguments)
            with memory.open() as file:
                return file.read(1)

    def read(out):
        with io.MemoryFile() as memory:
            with memory.open(**PROFILE, dtype="float32", transform=GRID["src_transform"]) as file:
                file.write(np.full((16, 18), 7, "f4"), 1)
            with memory.open() as file:
                file.read(1, out=out)

    stored("float32", FLOATS[None])
    read(OUT)
    features.rasterize(SHAPES, out=OUT)
    features.rasterize([(SHAPES[0][0], NUMBER.item())], out_shape=(16, 18))
    len(list(features.shapes(ND.REGIONS, mask=BLACK)))
    features.sieve(ND.REGIONS, 2, out=REGIONS)
    warp.reproject(ND.FLOATS, OUT, **GRID) is None
    fill.fillnodata(FLOATS, mask=ND.BLACK)
    warp.transform("EPSG:4326", "EPSG:3857", VECTOR, TIMES)
    plot.reshape_as_image(PICTURE.transpose(2, 0, 1))
    plot.adjust_band(FLOATS)


def healpy():
    import healpy

    healpy.ang2pix(4, VECTOR, TIMES)
    healpy.anafast(COUNTS.astype(float))


def igraph():
    import igraph

    igraph.Graph(EDGES.tolist()).vcount()
    igraph.Graph(EDGES).vcount()
