"""Functions and operators called with Blobs: bring the arguments to one home, compute, give Blobs.

A function runs on the Blobs' device: on the accelerator if one of them is there, with CuPy if that
is a CUDA device. Inputs take the const path. Written arguments take the mutable path; a fully
overwritten `out` causes no transfer.
"""
