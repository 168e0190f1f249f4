"""Calls of the namespace that are refused, on every device."""

import builtins
import inspect
import re

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob, fft, linalg


def rows(text):
    """Yield rows of a text: errors, a pattern of their message or none, and calls that raise them.

    NAME stands for each of the names in braces.
    """
    lines = inspect.cleandoc(text)
    for line in re.split(r"\n(?! )", re.sub("(?m)^#.*\n", "", lines)):
        head, _, calls = " ".join(line.split()).partition(": ")
        names, head = re.fullmatch(r"(?:\{(.*?)\} )?(.*)", head).groups()
        errors, _, message = head.partition(" ")
        kinds = tuple(getattr(builtins, error) for error in errors.split("|"))
        for name in names.split() if names else [""]:
            for call in calls.split("; "):
                yield call.replace("NAME", name), kinds, message.replace("NAME", name) or "."


# The calls: `x` has shape (2, 3), `c` is complex, `i` is [0], and `o` makes a Blob of ones. Then
# the error, and what it says where that is the library's own.
REFUSED = [
    *rows(
        r"""
        # --- elementwise ---
        TypeError clip .* int: xp.clip(1, x)
        TypeError complex: xp.imag(x); xp.imag(xp.astype(x, 'int8')); xp.imag(xp.astype(x, 'bool'))
        ValueError broadcast: xp.add(x, o(2)); xp.pow(x, o(2)); x // o(2)
        # --- searching ---
        IndexError: xp.argmax(x, axis=2); xp.argmin(x, axis=-3); xp.count_nonzero(x, axis=2)
        ValueError: xp.argmax(Blob(0)); xp.searchsorted(x, x);
            xp.searchsorted(x[0], x, side='middle');
            xp.searchsorted(x[0], x, sorter=xp.astype(x[0, :2], np.int64)); xp.where(x, x, Blob(2))
        ValueError 0d|axes: xp.nonzero(o())
        TypeError: xp.searchsorted(x[0], x, sorter=x[0]);
            xp.searchsorted(x[0], x, sorter=[0, 1, 2]); xp.searchsorted(x[0], None);
            xp.searchsorted(1.0, x);
            xp.where(x, None, x); xp.where(x, x, [1, 1, 1])
        OverflowError: xp.searchsorted(xp.astype(x[0], 'int8'), 300)
        # The standard leaves this open. NumPy's operators refuse it; its `where` truncates bits.
        OverflowError: xp.where(x, xp.astype(x, 'int8'), 300)
        IndexError: xp.sum(x, axis=3); xp.mean(x, axis=(0, -4)); xp.var(x, axis=3);
            xp.std(x, axis=3, correction=100)
        ValueError: xp.prod(x, axis=(0, 0)); xp.max(Blob(0)); xp.min(Blob((2, 0)), axis=1)
        # --- indexing ---
        # The standard: indices are one-dimensional integers, and several axes require `axis`.
        ValueError: xp.take(x, i); xp.take(x, xp.reshape(i, (1, 1)), axis=0);
            xp.take_along_axis(x, i)
        TypeError: xp.take(x, xp.astype(i, xp.bool), axis=0);
            xp.take(x, xp.astype(i, xp.float32), axis=0); xp.take(x, 0, axis=0);
            xp.take(x, [0], axis=0); xp.take_along_axis(x, x);
            xp.take_along_axis(x, xp.astype(x, xp.bool));
            xp.take_along_axis(x, xp.astype(x, 'int64'), axis=None); xp.take_along_axis(x, 0)
        IndexError: xp.take(x, i, axis=2); xp.take_along_axis(x, xp.astype(x, 'int64'), axis=2)
        # --- utilities ---
        IndexError: xp.all(x, axis=2); xp.any(x, axis=(0, -3)); xp.diff(x, axis=2);
            xp.diff(x, axis=2, n=0); xp.diff(x[0, 0])
        ValueError: xp.diff(x, n=-1); xp.diff(x, prepend=x[0]); xp.diff(x, prepend=x[:1])
        TypeError: xp.diff(x, prepend=0); xp.diff(x, append=[[1], [1]])
        # --- manipulation ---
        ValueError: xp.broadcast_to(x, (3, 3)); xp.broadcast_arrays(x, Blob(5));
            xp.broadcast_shapes((2,), (3,)); xp.concat([]); xp.concat([x, Blob(3)]); xp.stack(());
            xp.stack([x, xp.reshape(x, (6,))]); xp.expand_dims(x, (0, 0));
            xp.moveaxis(x, (0, 1), (0,)); xp.moveaxis(x, (0, 0), (0, 1));
            xp.permute_dims(x, (0,)); xp.permute_dims(x, (0, 0)); xp.repeat(x, -1);
            xp.reshape(x, (4,))
        IndexError: xp.concat([x, x], axis=2); xp.expand_dims(x, 3); xp.flip(x, axis=2);
            xp.moveaxis(x, 0, 2); xp.permute_dims(x, (0, 2)); xp.repeat(x, 1, axis=2);
            xp.roll(x, 1, axis=2)
        TypeError: xp.concat([x, 1.0]); xp.stack([x, [[1, 1, 1]] * 2]); xp.stack([x], axis=None);
            xp.permute_dims(x, None); xp.repeat(x, 1.5); xp.repeat(x, x, axis=0)
        ValueError \(-1, -1\): xp.reshape(x, (-1, -1))
        ValueError copy=False: xp.reshape(x.T, (6,), copy=False)
        # The standard: a tuple of shifts requires a tuple of as many axes.
        ValueError: xp.roll(x, (1, 1)); xp.roll(x, (1, 1), axis=0); xp.roll(x, (1,), axis=(0, 1));
            xp.squeeze(x, 0)
        IndexError: xp.squeeze(x, 2)
        # The standard: the axis of squeeze is required.
        TypeError: xp.squeeze(x, None)
        IndexError: xp.unstack(x, axis=2); xp.unstack(Blob(()))
        TypeError Blob.* float: xp.tensordot(x, 2.0)
        ValueError \(3,\): xp.matrix_transpose(o(3))
        # The standard: a number must be non-negative. NumPy treats a negative one as zero.
        ValueError at least 0, got -1: xp.tensordot(o(3, 3), o(3, 4), axes=-1)
        ValueError mismatch: xp.tensordot(o(3, 3), o(3, 4), axes=((0,), (0, 1)))
        # The standard: each axis of a sequence must be unique.
        ValueError each axis once: xp.tensordot(o(3, 3), o(3, 4), axes=((0, 0), (0, 1)))
        ValueError mismatch|not similar: xp.tensordot(o(3, 3), o(3, 4), axes=((0,), (1,)))
        ValueError size|dimension: xp.vecdot(o(3), o(1))
        ValueError expected mode "reduced" or "complete": linalg.qr(x, mode='r')
        TypeError integer: linalg.matrix_power(o(2, 2), 0.5)
        ValueError norm: linalg.matrix_norm(x, ord='max')
        TypeError numbers and booleans: linalg.trace(x, dtype='M8[s]')
        TypeError Blob.* float: linalg.matrix_rank(1.0, rtol=x); linalg.pinv(1.0, rtol=x)
        ValueError: linalg.solve(o(3, 3), o(4)); linalg.solve(o(2, 3, 3), o(3, 3, 3));
            linalg.solve(o(3), o(3)); linalg.solve(x, o(2))
        ValueError dimension: linalg.solve(o(3, 3), o())
        # The standard: an error if the axis does not have size 3 before broadcasting.
        ValueError size 3|dimension: linalg.cross(o(2), o(2)); linalg.cross(o(3), o(1));
            linalg.cross(o(3, 4), o(3, 4)); linalg.outer(x, o(2)); linalg.outer(o(2), x);
            linalg.outer(o(), o(2))
        IndexError: linalg.cross(o(3), o(3), axis=-2)
        {add atan2 equal logical_and} TypeError NoneType: xp.NAME(x, None); xp.NAME(None, x)
        {sort argsort} IndexError: xp.NAME(x, axis=2); xp.NAME(x, axis=-3); xp.NAME(o())
        {sort argsort} TypeError: xp.NAME(x, axis=None); xp.NAME(x, axis=(0, 1))
        {np.ones(2) [1.0,2.0] 1.0 None} TypeError Blob: xp.isin(NAME, 1); xp.isin(1, NAME);
            xp.isin(x, [NAME])
        {sum prod} TypeError dtype: xp.NAME(x, dtype='no dtype')
        # The standard: `axis` is required if x has more than one axis.
        {cumulative_sum cumulative_prod} ValueError axis: xp.NAME(x)
        {cumulative_sum cumulative_prod} IndexError: xp.NAME(x, axis=3)
        {cumulative_sum cumulative_prod} TypeError dtype: xp.NAME(x, axis=0, dtype='no dtype')
        {tril triu} TypeError asarray: xp.NAME(np.ones((2, 2)))
        # CuPy and dpnp have messages of their own.
        ValueError matmul|broadcast|dimension mismatch|Scalar operands|enough dimensions:
            xp.matmul(o(), o(3)); xp.matmul(o(3), o()); xp.matmul(o(3), o(4));
            xp.matmul(o(2, 3), o(4, 5)); xp.matmul(o(2, 2, 3), o(3, 3, 4)); xp.matmul(o(1), o(4))
        {matmul vecdot} TypeError Blob.* float: xp.NAME(x, 2.0)
        {cholesky det diagonal eig eigh eigvals eigvalsh inv matrix_norm matrix_rank pinv qr slogdet
            svd svdvals trace} ValueError|IndexError: linalg.NAME(o(2))
        {cholesky det eig eigh eigvals eigvalsh inv slogdet} ValueError square: linalg.NAME(x)
        {rfft ihfft rfftn} TypeError ^NAME .*complex128: fft.NAME(c)
        {0 -1 -3} ValueError NAME: fft.fft(x, n=NAME); fft.ifft(x, n=NAME); fft.rfft(x, n=NAME);
            fft.irfft(x, n=NAME); fft.hfft(x, n=NAME); fft.ihfft(x, n=NAME)
        {fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn} ValueError norm:
            fft.NAME(x, norm='sideways')
        {fft ifft rfft irfft hfft ihfft} IndexError axis 3: fft.NAME(x, axis=3)
        # The standard: axes must not be None if s is given.
        {fftn ifftn rfftn irfftn} ValueError axes.* s=\(2, 2\): fft.NAME(x, s=(2, 2))
        {fftn ifftn rfftn irfftn} ValueError s=\(2, 2\) .*axes=\(0,\):
            fft.NAME(x, s=(2, 2), axes=(0,))
        {fftn ifftn rfftn irfftn} ValueError 0: fft.NAME(x, s=(0,), axes=(0,))
        {fftn ifftn rfftn irfftn} ValueError -2: fft.NAME(x, s=(-2,), axes=(0,))
        {fftn ifftn rfftn irfftn} IndexError axis 3: fft.NAME(x, axes=(3,));
            fft.NAME(x, axes=(3,), s=(-1,))
        {fftn ifftn rfftn irfftn} TypeError Blob.* ndarray: fft.NAME(np.ones(3), s=(-1,), axes=(0,))
        {fftshift ifftshift} IndexError axis 3: fft.NAME(x, axes=3); fft.NAME(x, axes=(0, 3))
        {fftfreq rfftfreq} ValueError at least one element, got n=0: fft.NAME(0)
        {fftfreq rfftfreq} ValueError at least one element, got n=-2: fft.NAME(-2)
        {fftfreq rfftfreq} TypeError integer: fft.NAME(2.5)
        {int32 complex64} TypeError real floating-point dtype, got NAME:
            fft.fftfreq(4, dtype='NAME'); fft.rfftfreq(4, dtype=xp.NAME)
        {fftfreq rfftfreq} ValueError a device is: fft.NAME(4, device='tpu')
        """
    )
]


# Calls without operands on a device.
REFUSED_ANYWHERE = [
    *rows(
        r"""
        TypeError floating-point: xp.finfo('int8'); xp.finfo('bool'); xp.finfo(Blob(1, 'uint8'))
        TypeError integer: xp.iinfo('float32'); xp.iinfo('bool'); xp.iinfo('complex64')
        ValueError integers: xp.isdtype(np.dtype('int8'), 'integers')
        TypeError: xp.isdtype(np.dtype('int8'), 3)
        ValueError kind: xp.__array_namespace_info__().dtypes(kind='integers')
        ValueError device: xp.__array_namespace_info__().dtypes(device='tpu');
            xp.__array_namespace_info__().default_dtypes(device='tpu')
        TypeError Blob: xp.asarray([2**64, None])
        ValueError num|negative: xp.linspace(0, 1, -1)
        ValueError 8 bytes: xp.zeros((2**40, 2**40)); xp.empty((2**40, 2**40))
        ValueError \(1099511627776, 1099511627776\) exceeds: xp.full((2**40, 2**40), 1)
        {2**64 -(2**63)-1 10**5000} OverflowError 64 bits: xp.asarray(NAME); xp.asarray([1, NAME]);
            xp.full(2, NAME)
        OverflowError 300 out of bounds for uint8: Blob(2, 'uint8').__setitem__(..., [300, 1]);
            Blob(2, 'uint8').__setitem__([0, 1], (1, 300))
        IndexError axis 1 is out of bounds: xp.repeat(xp.asarray(1.5), 2, axis=1)
        {'a' b'a' None np.datetime64('2020') object()} TypeError Blob: xp.full(2, NAME)
        # NumPy 2.5 warns of a number as the step of dates.
        TypeError a Blob holds: xp.arange(np.longdouble(1), np.longdouble(3), np.longdouble(2));
            xp.arange(2**64, (2**64 + 2), 2**64 + 2 - 2**64);
            xp.arange(np.datetime64('2018'), np.datetime64('2020'), np.timedelta64(2, 'Y'))
        ValueError|ZeroDivisionError: xp.arange(0, 5, 0)
        {None 3 [1]} TypeError meshgrid .*Blob: xp.meshgrid(xp.ones(2), NAME)
        """
    )
]
NAMES = {"xp": xp, "np": np, "fft": fft, "linalg": linalg, "Blob": Blob}


@pytest.mark.parametrize("row", REFUSED_ANYWHERE, ids=[row[0] for row in REFUSED_ANYWHERE])
def test_refused_anywhere(row):
    refused(row, NAMES)


@pytest.mark.parametrize("row", REFUSED, ids=[row[0] for row in REFUSED])
def test_refused(row, on):
    operands = {"x": on(np.ones((2, 3))), "c": on(np.ones((2, 3), complex)), "i": on([0])}
    refused(row, NAMES | operands | {"o": lambda *shape: on(np.ones(shape))})


def refused(row, names):
    call, error, *message = row
    with pytest.raises(error, match=message[0] if message else "."):
        eval(call, {**names})  # noqa: S307  # of the table


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_values_are_checked_where_numpy_computes(device):
    x, far = xp.asarray([1, 2], device=device), xp.asarray([2], device=device)
    for function in (xp.take, xp.take_along_axis):
        with pytest.raises(IndexError):
            function(x, far)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        linalg.inv(xp.zeros((2, 2), device=device))
