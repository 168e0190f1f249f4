"""The Python array API standard, version 2025.12: one module for each chapter.

https://data-apis.org/array-api/2025.12/ has a page of the same name for each.

`syncblob` exports all of these names. The functions call the device's array library, NumPy or CuPy,
and correct it where it differs from the standard. Unless a function says otherwise, it returns new
Blobs, computed on its operands' device without a transfer; on the accelerator if the operands are
on both the CPU and an accelerator. Beside a Blob, an array of another library counts as a Blob, as
for operators; without one it raises a TypeError, and `asarray` converts it. A NumPy scalar counts
as a Blob without axes, on the device of the other operands, or else on the default device. An axis
out of range raises an IndexError, and so does a position for one; shapes that do not match raise a
ValueError.
"""

from types import FunctionType
from typing import TYPE_CHECKING

from syncblob._dtypes import NAMES
from syncblob.array_api import constants
from syncblob.array_api import fft as fft
from syncblob.array_api import linalg as linalg
from syncblob.array_api.constants import *  # noqa: F403  # the functions of each chapter
from syncblob.array_api.creation_functions import *  # noqa: F403
from syncblob.array_api.data_type_functions import *  # noqa: F403
from syncblob.array_api.data_types import *  # noqa: F403
from syncblob.array_api.elementwise_functions import *  # noqa: F403
from syncblob.array_api.indexing_functions import *  # noqa: F403
from syncblob.array_api.info import __array_namespace_info__ as __array_namespace_info__
from syncblob.array_api.linalg import matmul as matmul
from syncblob.array_api.linalg import matrix_transpose as matrix_transpose
from syncblob.array_api.linalg import tensordot as tensordot
from syncblob.array_api.linalg import vecdot as vecdot
from syncblob.array_api.manipulation_functions import *  # noqa: F403
from syncblob.array_api.searching_functions import *  # noqa: F403
from syncblob.array_api.set_functions import *  # noqa: F403
from syncblob.array_api.sorting_functions import *  # noqa: F403
from syncblob.array_api.statistical_functions import *  # noqa: F403
from syncblob.array_api.utility_functions import *  # noqa: F403

__array_api_version__ = "2025.12"

if not TYPE_CHECKING:  # mypy reads only literal lists, and would treat all other names as private
    __all__ = ["__array_api_version__", "__array_namespace_info__", "fft", "linalg"]
    __all__ += [*constants.__all__, *NAMES]  # noqa: PLE0604  # strings
    # The functions of the chapters, without the helpers that these import from files with a "_".
    __all__ += [
        name
        for name, x in globals().items()
        if isinstance(x, FunctionType)
        and x.__module__.startswith(f"{__name__}.")
        and not {name[0], x.__module__[len(__name__) + 1]} & {"_"}
    ]
