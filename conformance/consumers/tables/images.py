"""Libraries for pictures and sounds."""

import numpy as np

from conformance.consumers.inputs import *


def pillow():
    from PIL import Image, ImageDraw, ImageFilter

    BASE = Image.fromarray(RGB)
    Image.fromarray(GRAY)
    Image.fromarray(RGB)
    Image.fromarray(FLOATS)
    Image.fromarray(RGB).resize((9, 8))
    Image.fromarray(GRAY).filter(ImageFilter.BLUR)
    Image.frombytes("L", (18, 16), GRAY.tobytes())
    Image.frombytes("L", (18, 16), GRAY)
    Image.frombuffer("L", (18, 16), GRAY)
    Image.new("L", (18, 16)).putdata(GRAY.ravel())
    Image.new("L", (18, 16)).putdata(GRAY.ravel().tolist())
    Image.new("P", (2, 2)).putpalette(BYTES)
    BASE.point(GRAY.ravel()[:256].tolist() * 3)
    BASE.rotate(SCALAR)
    BASE.resize(INDEX[:2] + 3).size
    ImageDraw.Draw(BASE.copy()).line(VECTOR[:8].tolist())
    ImageDraw.Draw(BASE.copy()).polygon([tuple(p) for p in POINTS[:3, :2]])
    BASE.transform((9, 8), Image.Transform.AFFINE, VECTOR[:6])
    np.asarray(BASE) - RGB


def opencv_python_headless():
    import cv2

    cv2.GaussianBlur(RGB, (3, 3), 0)
    cv2.resize(RGB, (9, 8))
    cv2.cvtColor(RGB, cv2.COLOR_BGR2GRAY)
    cv2.threshold(GRAY, 100, 255, cv2.THRESH_BINARY)[1]
    cv2.Canny(GRAY, 50, 100)
    cv2.findContours(GRAY, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)[0][0]
    cv2.imencode(".png", RGB)[1]
    cv2.imdecode(BYTES, cv2.IMREAD_COLOR)
    cv2.imwrite(str(TMP / "x.png"), RGB)
    cv2.rectangle(RGB, (0, 0), (3, 3), (255, 0, 0))
    cv2.warpAffine(RGB, MATRIX[:2, :3], (18, 16))
    cv2.add(ND.GRAY, GRAY)
    cv2.filter2D(ND.FLOATS, -1, MATRIX)
    cv2.perspectiveTransform(POINTS[:, None, :2], np.eye(3))
    cv2.normalize(FLOATS, None)


def scikit_image():
    from skimage import color, draw, exposure, feature, filters, graph, io, measure, metrics
    from skimage import morphology, restoration, segmentation, transform, util

    filters.gaussian(FLOATS)
    filters.gaussian(GRAY, 2, out=OUT)
    filters.sobel(FLOATS)
    filters.median(GRAY)
    filters.threshold_otsu(GRAY)
    filters.threshold_local(FLOATS, 3)
    filters.unsharp_mask(PICTURE)
    filters.apply_hysteresis_threshold(FLOATS, 0.2, 0.6)
    filters.rank.mean(GRAY, np.ones((3, 3), "u1"))
    filters.rank.mean(ND.GRAY, GRAY[:3, :3])
    filters.gabor(FLOATS, 0.5)[0]
    filters.frangi(FLOATS)
    transform.resize(FLOATS, (8, 9))
    transform.resize(RGB, (8, 9))
    transform.rescale(FLOATS, 0.5)
    transform.rotate(FLOATS, 30)
    transform.warp(FLOATS, transform.AffineTransform(scale=2))
    transform.warp(ND.FLOATS, MATRIX[:3, :3])
    transform.AffineTransform(matrix=MATRIX[:3, :3])(POINTS[:, :2])
    transform.AffineTransform()(POINTS[:, :2])
    transform.estimate_transform("affine", POINTS[:, :2], POINTS[:, 1:]).params
    transform.hough_line(BLACK)[0]
    transform.radon(FLOATS, [0.0, 45.0], circle=False)
    transform.pyramid_reduce(FLOATS)
    transform.integral_image(FLOATS)
    transform.downscale_local_mean(FLOATS, (2, 2))
    color.rgb2gray(PICTURE)
    color.rgb2gray(RGB)
    color.rgb2hsv(PICTURE)
    color.rgb2lab(PICTURE)
    color.gray2rgb(FLOATS)
    color.label2rgb(REGIONS, FLOATS)
    exposure.rescale_intensity(GRAY)
    exposure.equalize_hist(FLOATS)
    exposure.equalize_adapthist(FLOATS)
    exposure.adjust_gamma(FLOATS, 2)
    exposure.histogram(GRAY)
    exposure.match_histograms(FLOATS, FLOATS[::-1])
    feature.canny(FLOATS)
    feature.corner_harris(FLOATS)
    feature.peak_local_max(FLOATS)
    feature.blob_dog(FLOATS)
    feature.hog(FLOATS, cells_per_block=(1, 1))
    feature.local_binary_pattern(GRAY, 8, 1)
    feature.match_template(FLOATS, FLOATS[:3, :3])
    feature.graycomatrix(GRAY, [1], [0])
    measure.label(BLACK)
    measure.label(REGIONS)
    [x.area for x in measure.regionprops(REGIONS)]
    [x.mean_intensity for x in measure.regionprops(ND.REGIONS, FLOATS)]
    measure.regionprops_table(REGIONS, FLOATS, properties=("label", "intensity_mean"))
    measure.find_contours(FLOATS, 0.5)[0]
    measure.block_reduce(FLOATS, (2, 2))
    measure.marching_cubes(VOLUME, 0.5)[0]
    measure.moments(FLOATS)
    measure.profile_line(FLOATS, (0, 0), (9, 9))
    measure.perimeter(BLACK)
    measure.euler_number(BLACK)
    measure.shannon_entropy(GRAY)
    measure.ransac(POINTS[:, :2], measure.LineModelND, 2, 0.1, rng=0)[1]
    metrics.structural_similarity(FLOATS, FLOATS[::-1], data_range=1)
    metrics.peak_signal_noise_ratio(FLOATS, FLOATS[::-1], data_range=1)
    metrics.mean_squared_error(FLOATS, ND.FLOATS)
    morphology.dilation(GRAY)
    morphology.erosion(GRAY, MASK[:3, :3])
    morphology.dilation(ND.FLOATS, out=OUT)
    morphology.isotropic_dilation(BLACK, 1)
    morphology.remove_small_objects(BLACK, max_size=3)
    morphology.remove_small_holes(BLACK, max_size=3)
    morphology.skeletonize(BLACK)
    morphology.thin(BLACK)
    morphology.convex_hull_image(BLACK)
    morphology.reconstruction(FLOATS * 0.9, FLOATS)
    morphology.flood_fill(GRAY, (0, 0), 7)
    morphology.h_maxima(GRAY, 20)
    morphology.white_tophat(FLOATS)
    morphology.medial_axis(BLACK, rng=0)
    restoration.denoise_tv_chambolle(FLOATS)
    restoration.denoise_bilateral(FLOATS)
    restoration.denoise_nl_means(FLOATS)
    restoration.richardson_lucy(FLOATS, np.ones((3, 3)) / 9, 3)
    restoration.unwrap_phase(FLOATS)
    restoration.inpaint_biharmonic(ND.FLOATS, BLACK)
    segmentation.slic(PICTURE, 4)
    segmentation.watershed(FLOATS, 2)
    segmentation.watershed(ND.FLOATS, REGIONS)
    segmentation.felzenszwalb(PICTURE)
    segmentation.find_boundaries(REGIONS)
    segmentation.mark_boundaries(PICTURE, REGIONS)
    segmentation.clear_border(REGIONS)
    segmentation.expand_labels(REGIONS)
    segmentation.random_walker(FLOATS, REGIONS)
    segmentation.chan_vese(FLOATS, max_num_iter=2)
    util.img_as_ubyte(FLOATS)
    util.img_as_float(GRAY)
    util.invert(GRAY)
    util.random_noise(FLOATS, rng=0)
    util.view_as_blocks(FLOATS, (2, 2))
    util.view_as_windows(FLOATS, (2, 2))
    util.crop(FLOATS, 1)
    util.montage(VOLUME)
    graph.route_through_array(FLOATS, (0, 0), (5, 5))[0]
    draw.polygon(POINTS[:4, 0] * 9, POINTS[:4, 1] * 9)
    draw.set_color(GRAY, (ND.INDEX, ND.INDEX), 7)
    draw.polygon2mask((9, 9), POINTS[:4, :2] * 9)
    io.imsave(TMP / "x.png", RGB) or io.imread(TMP / "x.png")


def imageio():
    import imageio.v3 as iio

    iio.imwrite(TMP / "x.png", RGB) or iio.imread(TMP / "x.png")
    iio.imwrite("<bytes>", GRAY, extension=".png")
    iio.imwrite(TMP / "x.tif", FLOATS) or iio.imread(TMP / "x.tif")
    iio.imwrite(TMP / "x.gif", [RGB, RGB]) or iio.imread(TMP / "x.gif").shape


def tifffile():
    import tifffile

    tifffile.imwrite(TMP / "x.tif", FLOATS) or tifffile.imread(TMP / "x.tif")
    tifffile.imwrite(TMP / "x.tif", RGB, photometric="rgb") or tifffile.imread(TMP / "x.tif")
    tifffile.imwrite(TMP / "x.tif", VOLUME, compression="zlib") or tifffile.imread(TMP / "x.tif")
    tifffile.imwrite(TMP / "x.tif", list(VOLUME)) or tifffile.imread(TMP / "x.tif")


def mahotas():
    import mahotas

    mahotas.gaussian_filter(FLOATS, 1)
    mahotas.otsu(GRAY)
    mahotas.label(BLACK)
    mahotas.erode(GRAY)
    mahotas.distance(BLACK)
    mahotas.features.haralick(GRAY)


def simpleitk():
    import SimpleITK as sitk

    sitk.GetArrayFromImage(sitk.GetImageFromArray(FLOATS))
    sitk.GetArrayFromImage(sitk.GetImageFromArray(VOLUME))
    sitk.GetArrayFromImage(sitk.DiscreteGaussian(sitk.GetImageFromArray(FLOATS)))


def nibabel():
    import nibabel

    nibabel.Nifti1Image(VOLUME, MATRIX).get_fdata()
    nibabel.Nifti1Image(ND.VOLUME, MATRIX).affine
    nibabel.save(nibabel.Nifti1Image(VOLUME, np.eye(4)), TMP / "x.nii") or nibabel.load(TMP / "x.nii").get_fdata()
    nibabel.affines.apply_affine(MATRIX, POINTS)
    nibabel.Nifti1Image.from_bytes(nibabel.Nifti1Image(VOLUME, np.eye(4)).to_bytes()).get_fdata()


def pydicom():
    from pydicom import Dataset
    from pydicom.pixels import apply_windowing

    Dataset().set_pixel_data(GRAY, "MONOCHROME2", 8) is None
    Dataset().update({"PixelData": GRAY.tobytes()}) is None
    apply_windowing(GRAY, Dataset())


def librosa():
    import librosa

    librosa.stft(AUDIO, n_fft=256)
    librosa.istft(librosa.stft(AUDIO, n_fft=256))
    librosa.feature.melspectrogram(y=AUDIO, n_fft=256)
    librosa.feature.mfcc(y=AUDIO, n_fft=256, n_mfcc=4)
    librosa.feature.rms(y=AUDIO)
    librosa.resample(AUDIO, orig_sr=8000, target_sr=4000, res_type="polyphase")
    librosa.to_mono(AUDIO)
    librosa.amplitude_to_db(FLOATS)
    librosa.power_to_db(FLOATS)
    librosa.effects.trim(AUDIO)[0]
    librosa.feature.zero_crossing_rate(AUDIO)
    librosa.onset.onset_strength(y=AUDIO, n_fft=256)
    librosa.feature.melspectrogram(S=FLOATS)
    librosa.util.normalize(FLOATS)
    librosa.hz_to_mel(VECTOR * 100)
    librosa.frames_to_time(INDEX)


def soxr():
    import soxr

    soxr.resample(AUDIO, 8000, 4000)
    soxr.resample(SIGNAL, 8000, 4000)
    soxr.ResampleStream(8000, 4000, 1).resample_chunk(AUDIO)
    soxr.resample(ND.AUDIO, 8000, 4000)[:3] + AUDIO[:3]


def soundfile():
    import io

    import soundfile

    soundfile.write(TMP / "x.wav", AUDIO, 8000) or soundfile.read(TMP / "x.wav")
    soundfile.write(TMP / "x.flac", AUDIO, 8000) or soundfile.read(TMP / "x.flac")
    soundfile.write(io.BytesIO(), AUDIO, 8000, format="WAV")


def mne():
    import mne

    mne.set_log_level("ERROR")
    INFO = mne.create_info(3, 100.0, "eeg")
    mne.io.RawArray(POINTS.T.astype("f8"), INFO).get_data()
    mne.filter.filter_data(SIGNAL, 100.0, None, 20.0)
    mne.filter.resample(SIGNAL, down=2.0)
    mne.time_frequency.psd_array_welch(SIGNAL, 100.0, n_fft=16)[0]
    mne.EpochsArray(VOLUME[:, :3].astype("f8"), INFO).get_data(copy=True)
