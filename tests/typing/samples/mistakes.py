"""Wrong code, which is not run. Both type checkers must flag each line.

Both also flag an ignore comment on a line without an error.
"""

from __future__ import annotations

import syncblob
import syncblob as xp
from syncblob import Blob

blob = Blob((2, 3))

# Names that do not exist.
syncblob.opne_model("lenet.caffemodel")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
blob.gpu_dta()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

# Attributes that cannot be set.
blob.shape = (3, 2)  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
blob.device = "cuda"  # type: ignore[misc, assignment]  # pyright: ignore[reportAttributeAccessIssue]

# Arguments of the wrong kind.
Blob("3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Blob(2.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Blob((2, 3), device=0)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Blob((2, 3), name=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
blob.on(0)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Blob((2, 3), "float32", "cpu")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
blob.copy_from(blob, blob)  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue]
blob.count("0")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
syncblob.open_model(b"lenet.caffemodel")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
syncblob.compute_only_on(0)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
syncblob.max_transfers(count="1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# The functions of the array API take Blobs by position, not arrays of other libraries.
xp.sin([1, 2])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
xp.sin(x=blob)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
xp.add(blob, "1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
xp.sum(blob, 0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
xp.zeros(2, 3)  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue]

# Results of another type.
wrong_shape: list[int] = blob.shape  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
wrong_sum: float = xp.sum(blob)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
wrong_result: Blob = blob.resize(4)  # type: ignore[func-returns-value, assignment]  # pyright: ignore[reportAssignmentType]
names = {blob: "first"}  # pyright: ignore[reportUnhashable]
