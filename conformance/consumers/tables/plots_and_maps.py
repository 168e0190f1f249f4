"""Libraries for plots, meshes and maps."""

import numpy as np

from conformance.consumers.inputs import *


def matplotlib():
    import matplotlib as mpl
    from matplotlib import colors, image, path, tri
    from matplotlib.figure import Figure

    mpl.use("Agg")

    def axes(**kinds):
        return Figure().subplots(**kinds)

    def drawn(artist):
        """Draw the figure of an artist."""
        artist = artist[0] if isinstance(artist, (list, tuple)) else artist
        artist.axes.figure.canvas.draw()
        return artist

    axes().plot(VECTOR)[0].get_ydata()
    axes().plot(VECTOR, TIMES)[0].get_xydata()
    axes().plot(IMAGE)[3].get_ydata()
    axes().plot(VECTOR, TIMES, "o", markevery=FLAGS)[0].get_xydata()
    drawn(axes().plot(VECTOR, TIMES)).get_path().vertices
    drawn(axes().plot([0, 1], [SCALAR, SCALAR])).get_ydata()
    axes().scatter(VECTOR, TIMES, c=VECTOR, s=TIMES).get_offsets()
    axes().scatter(VECTOR, TIMES, c=POSITIVE[:9, :3] / 9).get_facecolor()
    drawn(axes().scatter(VECTOR, TIMES, c=VECTOR)).get_array()
    axes().bar(VECTOR, TIMES)[0].get_height()
    axes().barh(VECTOR, TIMES)[0].get_width()
    axes().hist(SIGNAL, bins=4)[0]
    axes().hist(SIGNAL, bins=VECTOR)[0]
    axes().hist(SAMPLES)[0]
    axes().hist2d(VECTOR, TIMES, bins=3)[0]
    axes().imshow(IMAGE).get_array()
    axes().imshow(RGB).get_array()
    drawn(axes().imshow(FLOATS)).get_clim()
    axes().matshow(IMAGE).get_array()
    axes().pcolormesh(IMAGE).get_array()
    axes().pcolormesh(VECTOR, VECTOR[:8], IMAGE).get_coordinates()
    axes().contour(IMAGE).levels
    axes().contourf(IMAGE, levels=VECTOR).levels
    axes().boxplot(SAMPLES)["medians"][0].get_ydata()
    axes().violinplot(SAMPLES)["bodies"][0].get_paths()[0].vertices
    axes().errorbar(VECTOR, TIMES, yerr=VECTOR)[0].get_xydata()
    axes().fill_between(VECTOR, TIMES, where=FLAGS).get_paths()[0].vertices
    axes().stem(VECTOR).markerline.get_ydata()
    axes().step(VECTOR, TIMES)[0].get_ydata()
    axes().stackplot(VECTOR, TIMES)[0].get_paths()[0].vertices
    axes().quiver(VECTOR, TIMES, VECTOR, TIMES).U
    axes().vlines(VECTOR, 0, 1).get_segments()
    axes().pie(TIMES)[0][0].theta2
    axes().hexbin(VECTOR, TIMES).get_array()
    axes().specgram(SIGNAL, NFFT=16, noverlap=0)[0]
    axes().acorr(SIGNAL)[1]
    axes().axhline(SCALAR).get_ydata()
    axes().set_xlim(SCALAR, 5)
    axes().set_xticks(VECTOR)[0].get_loc()
    axes().text(SCALAR, 0, "a").get_position()
    axes().annotate("a", POINTS[0, :2]).xy
    axes().eventplot(VECTOR)[0].get_positions()
    axes().triplot(POINTS[:, 0], POINTS[:, 1])[0].get_xdata()
    axes().tricontourf(POINTS[:, 0], POINTS[:, 1], POINTS[:, 2]).levels
    axes(subplot_kw={"projection": "3d"}).scatter(*POINTS.T).get_offsets()
    axes(subplot_kw={"projection": "3d"}).plot_surface(*np.meshgrid(VECTOR, VECTOR[:8]), IMAGE).get_array()
    axes(subplot_kw={"projection": "polar"}).plot(VECTOR, TIMES)[0].get_ydata()
    axes().plot("a", "b", data={"a": VECTOR, "b": TIMES})[0].get_ydata()
    axes().legend(axes().plot(IMAGE), [str(x) for x in INTEGERS]).get_texts()[0].get_text()
    axes().plot([1, 2, 3, 4, 5, 6, 7, 8, 9])[0].set_ydata(VECTOR)
    axes().imshow(ND.IMAGE).set_data(IMAGE)
    mpl.colormaps["viridis"](VECTOR)
    mpl.colormaps["viridis"](SCALAR / 4)
    colors.Normalize()(VECTOR)
    colors.LogNorm()(TIMES)
    colors.to_rgba_array(POSITIVE[:, :3] / 9)
    colors.to_rgba(POINTS[0])
    colors.ListedColormap(POINTS)(0.5)
    colors.BoundaryNorm(VECTOR, 256)(VECTOR)
    colors.LightSource().hillshade(IMAGE)
    image.imsave(TMP / "x.png", FLOATS) or image.imread(TMP / "x.png")
    image.imsave(TMP / "x.png", RGB) or image.imread(TMP / "x.png")
    path.Path(POINTS[:, :2]).contains_points(POINTS[:, :2])
    path.Path([[0, 0], [1, 0], [1, 1]]).contains_point(POINTS[0, :2])
    tri.Triangulation(POINTS[:, 0], POINTS[:, 1]).triangles
    mpl.transforms.Affine2D(MATRIX[:3, :3]).transform(POINTS[:, :2])
    mpl.dates.num2date(VECTOR)[0].isoformat()
    mpl.mlab.psd(SIGNAL, 16)[0]


def contourpy():
    import contourpy

    contourpy.contour_generator(z=IMAGE).lines(0.5)
    contourpy.contour_generator(VECTOR, VECTOR[:8], IMAGE).filled(0.2, 0.5)


def plotly():
    import plotly.express as px
    import plotly.graph_objects as go

    go.Scatter(x=VECTOR, y=TIMES).y
    go.Heatmap(z=IMAGE).z
    go.Figure(go.Scatter(y=VECTOR)).to_json()
    go.Figure(go.Surface(z=IMAGE)).to_json()
    px.line(x=VECTOR, y=TIMES).data[0].y
    px.imshow(IMAGE).data[0].z
    px.imshow(RGB).to_json()
    px.scatter(SAMPLES).data[0].y


def bokeh():
    from bokeh.models import ColumnDataSource
    from bokeh.plotting import figure

    ColumnDataSource({"a": VECTOR}).data["a"]
    figure().line(VECTOR, TIMES).data_source.data["y"]
    figure().image([FLOATS], 0, 0, 1, 1).data_source.data["image"][0]
    figure().scatter(VECTOR, TIMES, size=VECTOR).data_source.data["x"]


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
    pv.PolyData.from_regular_faces(POINTS, FACES).n_cells
    pv.wrap(POINTS).n_points
    pv.wrap(VOLUME).dimensions
    pv.ImageData(dimensions=tuple(INDEX + 2)).n_points
    pv.StructuredGrid(*np.meshgrid(VECTOR, VECTOR, INDEX)).n_points
    pv.RectilinearGrid(VECTOR, TIMES, VECTOR).n_points
    pv.lines_from_points(POINTS).n_points
    pv.Spline(POINTS, 9).n_points
    written(POINTS, 9)
    np.array(mesh().rotate_z(SCALAR.item()).points)
    np.array(mesh().translate(POINTS[0]).points)
    np.array(mesh().transform(MATRIX, inplace=False).points)
    mesh().find_closest_point(POINTS[0])
    mesh().point_data.set_array(POINTS[:, 0], "x") is None
    mesh().__setitem__("x", POINTS)
    mesh().__setattr__("points", POINTS)
    pv.Sphere(center=POINTS[0]).center
    pv.Plane(direction=POINTS[0]).n_points


def vtk():
    from vtkmodules.util import numpy_support
    from vtkmodules.vtkCommonCore import vtkPoints
    from vtkmodules.vtkCommonMath import vtkMatrix4x4

    def written(array):
        numpy_support.numpy_to_vtk(array).SetTuple3(0, 9, 9, 9)

    numpy_support.vtk_to_numpy(numpy_support.numpy_to_vtk(POINTS))
    numpy_support.vtk_to_numpy(numpy_support.numpy_to_vtk(POINTS, deep=True))
    numpy_support.vtk_to_numpy(numpy_support.numpy_to_vtkIdTypeArray(INDEX))
    written(POINTS)
    vtkPoints().InsertNextPoint(POINTS[0])
    vtkPoints().SetData(numpy_support.numpy_to_vtk(POINTS))
    vtkMatrix4x4().DeepCopy(MATRIX.ravel())


def trimesh():
    import trimesh

    trimesh.Trimesh(POINTS, FACES).area
    trimesh.Trimesh(POINTS, FACES, process=False).vertices
    trimesh.PointCloud(POINTS).bounds
    trimesh.transform_points(POINTS, np.eye(4))
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

    stored("float32", FLOATS, 1)
    stored("uint8", GRAY, 1)
    stored("float32", FLOATS[None])
    stored("float32", FLOATS[None], [1])
    read(OUT)
    features.rasterize(SHAPES, out=OUT)
    features.rasterize([(SHAPES[0][0], NUMBER.item())], out_shape=(16, 18))
    len(list(features.shapes(REGIONS)))
    len(list(features.shapes(ND.REGIONS, mask=BLACK)))
    features.sieve(REGIONS, 2)
    features.sieve(ND.REGIONS, 2, out=REGIONS)
    features.geometry_mask([SHAPES[0][0]], OUT.shape, GRID["src_transform"])
    warp.reproject(ND.FLOATS, OUT, **GRID) is None
    warp.reproject(FLOATS, np.zeros((16, 18), "f4"), **GRID)[0]
    fill.fillnodata(FLOATS, mask=ND.BLACK)
    fill.fillnodata(ND.FLOATS, mask=BLACK)
    warp.transform("EPSG:4326", "EPSG:3857", VECTOR, TIMES)
    transform.xy(GRID["src_transform"], INDEX, INDEX)
    transform.rowcol(GRID["src_transform"], VECTOR, TIMES)
    plot.reshape_as_image(PICTURE.transpose(2, 0, 1))
    plot.adjust_band(FLOATS)


def healpy():
    import healpy

    healpy.ang2pix(4, VECTOR, TIMES)
    healpy.pix2ang(4, INDEX)
    healpy.ud_grade(COUNTS.astype(float), 2)
    healpy.anafast(COUNTS.astype(float))


def igraph():
    import igraph

    igraph.Graph.Adjacency(ADJACENCY).ecount()
    igraph.Graph.Weighted_Adjacency(ADJACENCY).es["weight"]
    igraph.Graph(EDGES.tolist()).vcount()
    igraph.Graph(EDGES).vcount()
