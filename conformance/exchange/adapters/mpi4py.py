"""mpi4py."""

import numpy as np
from mpi4py import MPI

REQUIRES = ["mpi4py==4.1.2", "mpich==5.0.2", "numpy==2.4.6"]
GROUP = "torch"
ADVICE = "`sent(b)` is what `Comm.Sendrecv` receives. It sends memory in its order: pass `b.copy()` of a transposed view."
TAKES = ["sent(b)"]


def sent(b):
    received = np.zeros(b.shape, b.dtype)
    MPI.COMM_SELF.Sendrecv(b, 0, recvbuf=received, source=0)
    return received
