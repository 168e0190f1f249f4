"""JAX's functions with Blobs.

JAX calls ``__jax_array__`` in few functions, and refuses arguments of compiled functions that have
it. A pytree is accepted everywhere. So a Blob is one, whose leaf is an array of JAX's with its
contents: a copy, because JAX's arrays are immutable. The function gets the leaf itself.
"""

from jax import numpy, tree_util

from syncblob._blob import Blob

tree_util.register_pytree_node(
    Blob, lambda blob: ((numpy.array(blob),), None), lambda _, leaves: leaves[0]
)
