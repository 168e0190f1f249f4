"""TensorStore."""

import tensorstore as ts

REQUIRES = ["tensorstore==0.1.86", "numpy==2.4.6"]
GROUP = "tables"
TAKES = ["ts.array(b)"]
BACK = "x.read().result()"
WRITE = "x[...] = 1"
MAKE = "ts.array(array)"
OPERATORS = False
