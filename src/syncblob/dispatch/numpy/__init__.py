"""NumPy's functions called with Blobs: ``__array_ufunc__``, ``__array_function__``, methods.

A function is computed where the Blobs are: on the accelerator if one of them is there, by CuPy if
that is a CUDA device. Inputs take the const path. What the function writes takes the mutable path;
an `out` that is written completely is not brought up to date before.
"""
