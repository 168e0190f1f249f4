"""Functions and operators called with Blobs: bring the arguments to one home, compute, give Blobs.

A function runs on the Blobs' device: on the accelerator if one of them is there, with CuPy if that
is a CUDA device. Inputs take the const path. Written arguments take the mutable path; a fully
overwritten `out` causes no transfer.

| where | what |
| --- | --- |
| `tables.written_arguments` | which arguments a call writes, such as `out` |
| `engine` | the steps of a call whose arrays are at hand: `_WRITE` writes, `_BLOB` reads |
| `make_call.Call` | the same for all other calls: `write`, `read` |
| `operands.home_of` | on which device a call runs |
| `results.give` | what a call returns: new Blobs, or views of operands |
| `numpy_protocols` | calls that make views and read nothing |
"""
