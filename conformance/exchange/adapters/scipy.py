"""SciPy."""

import numpy as np
from scipy import ndimage, sparse

REQUIRES = ["scipy==1.17.1", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["ndimage.shift(b, 0, order=0)", "sparse.coo_array(b)"]
BACK = "x.toarray() if sparse.issparse(x) else np.asarray(x)"
MAKE = "sparse.coo_array(array)"
