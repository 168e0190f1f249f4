"""h5py."""

import h5py

REQUIRES = ["h5py==3.16.0", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["file.create_dataset(None, data=b)", "assigned(b)"]
BACK = "x[()]"
MAKE = "file.create_dataset(None, data=array)"
OPERATORS = False
ADVICE = "`assigned(b)` is `dataset[...] = b`."
file = h5py.File("in memory", "w", driver="core", backing_store=False)


def assigned(b):
    dataset = file.create_dataset(None, b.shape, b.dtype)
    dataset[...] = b
    return dataset
