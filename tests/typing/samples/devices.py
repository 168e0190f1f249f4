"""Devices, the log of transfers, and guards."""

from __future__ import annotations

from typing import Any, assert_type

import syncblob
from syncblob import Blob, Device, MemoryRow, Operation, Problem, SourceLine, Transfer, TransferLog

assert_type(syncblob.available_devices(), tuple[Device, ...])
assert_type(syncblob.default_device(), Device)
assert_type(Device("simulated:1").index, int)
assert_type(syncblob.set_default_device("cpu"), None)
assert_type(syncblob.simulated(0).uploads, int)
assert_type(syncblob.__version__, str)

with syncblob.use_device("simulated") as device:
    assert_type(device, Device)
    blob = Blob((2, 3), device=device)

with syncblob.record_transfers() as log:
    assert_type(log, TransferLog)
    blob.mutable_cpu_data()[...] = 1
    assert_type(blob.gpu_data(), Any)
for transfer in log:
    assert_type(transfer, Transfer)
    assert_type(transfer.direction, str)
    assert_type(transfer.nbytes, int)
    assert_type(transfer.line, SourceLine)
assert_type(log.avoided, int)
assert_type(log.seconds, float)
assert_type(log.problems(), list[Problem])
assert_type(syncblob.memory_summary().rows, list[MemoryRow])
assert_type(log.operations, list[Operation])
assert_type(log[0].arrived, float | None)
assert_type(log.summary(), str)

with syncblob.no_transfers(), syncblob.max_transfers(count=1), syncblob.verified_const():
    assert_type(blob.cpu_data().sum(), Any)
with syncblob.max_transfers(bytes=100) as guard, syncblob.compute_only_on("simulated") as on_device:
    assert_type((guard.count, guard.nbytes), tuple[int, int])
    assert_type(on_device.device, Device | None)


@syncblob.no_transfers()
@syncblob.compute_only_on(Device("simulated"))
def total(blob: Blob, *, times: float = 1) -> Blob:
    return blob.sum() * times


@syncblob.max_transfers(1)
async def total_later(blob: Blob) -> Blob:
    return blob.sum()


async def totals() -> None:
    assert_type(total(blob, times=2), Blob)
    assert_type(await total_later(blob), Blob)
