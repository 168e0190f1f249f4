"""Libraries for pictures and sounds."""

import numpy as np

from conformance.consumers.inputs import *


def pillow():
    from PIL import Image, ImageDraw

    BASE = Image.fromarray(RGB)
    Image.fromarray(GRAY)
    Image.frombytes("L", (18, 16), GRAY.tobytes())
    Image.frombytes("L", (18, 16), GRAY)
    Image.frombuffer("L", (18, 16), GRAY)
    Image.new("L", (18, 16)).putdata(GRAY.ravel().tolist())
    BASE.rotate(SCALAR)
    BASE.resize(INDEX[:2] + 3).size
    ImageDraw.Draw(BASE.copy()).polygon([tuple(p) for p in POINTS[:3, :2]])
    np.asarray(BASE) - RGB


def opencv_python_headless():
    import cv2

    cv2.GaussianBlur(RGB, (3, 3), 0)
    cv2.warpAffine(RGB, MATRIX[:2, :3], (18, 16))


def scikit_image():
    from skimage import color, draw, exposure, feature, filters, measure
    from skimage import morphology, restoration, segmentation, transform, util

    filters.gaussian(GRAY, 2, out=OUT)
    filters.threshold_otsu(GRAY)
    filters.apply_hysteresis_threshold(FLOATS, 0.2, 0.6)
    filters.rank.mean(GRAY, np.ones((3, 3), "u1"))
    filters.rank.mean(ND.GRAY, GRAY[:3, :3])
    transform.warp(ND.FLOATS, MATRIX[:3, :3])
    transform.hough_line(BLACK)[0]
    transform.integral_image(FLOATS)
    color.label2rgb(REGIONS, FLOATS)
    exposure.rescale_intensity(GRAY)
    exposure.equalize_hist(FLOATS)
    feature.peak_local_max(FLOATS)
    feature.match_template(FLOATS, FLOATS[:3, :3])
    [x.area for x in measure.regionprops(REGIONS)]
    measure.regionprops_table(REGIONS, FLOATS, properties=("label", "intensity_mean"))
    measure.find_contours(FLOATS, 0.5)[0]
    measure.marching_cubes(VOLUME, 0.5)[0]
    measure.shannon_entropy(GRAY)
    measure.ransac(POINTS[:, :2], measure.LineModelND, 2, 0.1, rng=0)[1]
    morphology.remove_small_objects(BLACK, max_size=3)
    morphology.remove_small_holes(BLACK, max_size=3)
    morphology.skeletonize(BLACK)
    morphology.thin(BLACK)
    morphology.medial_axis(BLACK, rng=0)
    restoration.denoise_tv_chambolle(FLOATS)
    restoration.denoise_bilateral(FLOATS)
    restoration.inpaint_biharmonic(ND.FLOATS, BLACK)
    segmentation.watershed(FLOATS, 2)
    segmentation.watershed(ND.FLOATS, REGIONS)
    segmentation.clear_border(REGIONS)
    segmentation.expand_labels(REGIONS)
    segmentation.random_walker(FLOATS, REGIONS)
    segmentation.chan_vese(FLOATS, max_num_iter=2)
    util.view_as_windows(FLOATS, (2, 2))
    draw.polygon(POINTS[:4, 0] * 9, POINTS[:4, 1] * 9)


def imageio():
    import imageio.v3 as iio

    iio.imwrite(TMP / "x.png", RGB) or iio.imread(TMP / "x.png")
    iio.imwrite(TMP / "x.gif", [RGB, RGB]) or iio.imread(TMP / "x.gif").shape


def tifffile():
    import tifffile

    tifffile.imwrite(TMP / "x.tif", RGB, photometric="rgb") or tifffile.imread(TMP / "x.tif")
    tifffile.imwrite(TMP / "x.tif", VOLUME, compression="zlib") or tifffile.imread(TMP / "x.tif")
    tifffile.imwrite(TMP / "x.tif", list(VOLUME)) or tifffile.imread(TMP / "x.tif")


def mahotas():
    import mahotas

    mahotas.otsu(GRAY)
    mahotas.label(BLACK)
    mahotas.erode(GRAY)
    mahotas.distance(BLACK)
    mahotas.features.haralick(GRAY)


def simpleitk():
    import SimpleITK as sitk

    sitk.GetArrayFromImage(sitk.GetImageFromArray(FLOATS))


def nibabel():
    import nibabel

    nibabel.Nifti1Image(VOLUME, MATRIX).get_fdata()
    nibabel.save(nibabel.Nifti1Image(VOLUME, np.eye(4)), TMP / "x.nii") or nibabel.load(TMP / "x.nii").get_fdata()


def pydicom():
    from pydicom import Dataset

    Dataset().set_pixel_data(GRAY, "MONOCHROME2", 8) is None


def librosa():
    import librosa

    librosa.stft(AUDIO, n_fft=256)
    librosa.effects.trim(AUDIO)[0]
    librosa.util.normalize(FLOATS)
    librosa.hz_to_mel(VECTOR * 100)


def soxr():
    import soxr

    soxr.resample(SIGNAL, 8000, 4000)
    soxr.ResampleStream(8000, 4000, 1).resample_chunk(AUDIO)
    soxr.resample(ND.AUDIO, 8000, 4000)[:3] + AUDIO[:3]


def soundfile():
    import soundfile

    soundfile.write(TMP / "x.wav", AUDIO, 8000) or soundfile.read(TMP / "x.wav")


def mne():
    import mne

    mne.set_log_level("ERROR")
    INFO = mne.create_info(3, 100.0, "eeg")
    mne.io.RawArray(POINTS.T.astype("f8"), INFO).get_data()
    mne.filter.filter_data(SIGNAL, 100.0, None, 20.0)
    mne.filter.resample(SIGNAL, down=2.0)
    mne.time_frequency.psd_array_welch(SIGNAL, 100.0, n_fft=16)[0]
