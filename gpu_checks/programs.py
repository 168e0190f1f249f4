"""Random programs on a CUDA device: ``python -m gpu_checks.programs SECONDS FILE [FIRST]``.

A program uses a few Blobs from both sides: accessors, parts, pushes, aliases, and kernels on
several streams, some of which start late. The program orders conflicting kernels of one Blob, as a
user would; syncblob has to order everything else. A model made of NumPy arrays gives the expected
result of each read. A program is made from a number, which a failure reports.
"""

from __future__ import annotations

import json
import random
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gpu_checks.device import cupy_of_this_machine, delay, side_stream, warm_up
from syncblob import Blob, Head

__all__ = ["Program", "main", "run"]

STEPS = 30
SIZE = 96
DEVICE = "cuda:0"
# About 6 ms.
SHORT = 10_000_000


class Kept:
    """A Blob, its expected contents, and the kernels of the program that use it."""

    def __init__(self, number: int) -> None:
        self.name = f"blob{number}"
        self.blob = Blob(SIZE, "int32", device=DEVICE)
        self.truth = np.zeros(SIZE, np.int32)
        self.alias: Any = None
        # The streams whose kernels may still run, with an event after the last kernel of each.
        self.events: dict[int, Any] = {}


class Program:
    """One random program.

    Parameters
    ----------
    number
        The number that it is made from.
    """

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)  # noqa: S311  # no secret
        self.cupy = cupy_of_this_machine()
        self.streams = [self.cupy.cuda.Stream.null, self.cupy.cuda.Stream(), side_stream()]
        self.streams.append(side_stream())
        self.kept = [Kept(each) for each in range(2)]
        self.trace: list[str] = []
        # The results of kernels that read, and the expected results.
        self.reads: list[tuple[str, Any, Any]] = []

    def run(self) -> None:
        """Run it, and compare everything at the end."""
        doing = [self.host_write, self.host_write, self.host_read, self.push, self.item]
        doing += [self.kernel_write, self.kernel_write, self.kernel_read, self.kernel_read]
        doing += [self.alias_write, self.drop_alias, self.replace]
        for _ in range(STEPS):
            self.random.choice(doing)(self.random.choice(self.kept))
        self.cupy.cuda.Device(0).synchronize()
        for what, seen, expected in self.reads:
            self.same(what, seen.get(), expected)
        for kept in self.kept:
            self.same(f"{kept.name} at the end", kept.blob.cpu_data(), kept.truth)

    def same(self, what: str, seen: Any, expected: Any) -> None:
        """Compare a read with the expected contents."""
        if not np.array_equal(seen, expected):
            places = np.flatnonzero(seen != expected)
            raise AssertionError(
                f"{what}: {places.size} of {expected.size} differ, from place {places[0]} on: "
                f"expected {np.unique(expected)[:5]}, got {np.unique(seen)[:5]}"
            )

    def note(self, text: str) -> None:
        """Record an operation, for the report of a failure."""
        self.trace.append(text)

    def part(self) -> slice:
        """Choose a part, usually the whole."""
        if self.random.random() < 0.5:  # noqa: PLR2004  # a half
            return slice(None)
        first = self.random.randrange(SIZE - 1)
        return slice(first, self.random.randrange(first + 1, SIZE + 1))

    def stream(self) -> tuple[int, Any]:
        """Choose a stream."""
        place = self.random.randrange(len(self.streams))
        return place, self.streams[place]

    # --- the host ---

    def host_write(self, kept: Kept) -> None:
        """Write a part on the host."""
        part, value = self.part(), self.random.randrange(1000)
        how = self.random.choice(["mutable_cpu_data", "overwrite_cpu_data"])
        self.note(f"{kept.name}[{part}].{how}()[...] = {value}")
        self.settle_writes(kept)
        self.forget_alias(kept)
        getattr(kept.blob[part], how)()[...] = value
        kept.truth[part] = value

    def host_read(self, kept: Kept) -> None:
        """Read a part on the host."""
        part = self.part()
        self.note(f"read {kept.name}[{part}] on the host")
        self.same(f"{kept.name}[{part}]", kept.blob[part].cpu_data(), kept.truth[part])

    def item(self, kept: Kept) -> None:
        """Read one element."""
        place = self.random.randrange(SIZE)
        self.note(f"{kept.name}[{place}].item()")
        self.same(f"{kept.name}[{place}]", np.int32(kept.blob[place].item()), kept.truth[place])

    # --- the device ---

    def push(self, kept: Kept) -> None:
        """Start an upload."""
        place, stream = self.stream()
        named = self.random.random() < 0.5  # noqa: PLR2004  # a half
        self.note(f"{kept.name}.prefetch() or push to {place if named else 'its own'}")
        if named and kept.blob.head is Head.HEAD_AT_CPU:
            kept.blob.async_gpu_push(stream)
        else:
            kept.blob.prefetch()

    def kernel_write(self, kept: Kept) -> None:
        """Add to a part on some stream, perhaps late."""
        part, value = self.part(), self.random.randrange(1, 100)
        place, stream = self.stream()
        late = self.random.random() < 0.3  # noqa: PLR2004  # sometimes
        self.note(f"stream {place}: {kept.name}[{part}] += {value}{', late' if late else ''}")
        self.forget_alias(kept)
        self.after_all(kept, stream)
        with stream:
            array = kept.blob[part].mutable_gpu_data()
            self.change(array, value, stream, late=late)
        kept.truth[part] += value
        kept.events[place] = stream.record()

    def change(self, array: Any, value: int, stream: Any, *, late: bool) -> None:
        """Launch a kernel that adds, without waiting for anything."""
        if late:
            delay(stream, SHORT)
        if getattr(self.cupy, "is_model", False):
            from cupy_model import launch

            launch(lambda a: a.__iadd__(value), array, stream=stream)
        else:
            array += value

    def kernel_read(self, kept: Kept) -> None:
        """Read a part on some stream, perhaps late. Later writes must not be seen."""
        part = self.part()
        place, stream = self.stream()
        late = self.random.random() < 0.5  # noqa: PLR2004  # a half
        self.note(f"stream {place}: read {kept.name}[{part}]{', late' if late else ''}")
        self.after_all(kept, stream)
        with stream:
            array = kept.blob[part].gpu_data()
            seen = self.cupy.empty(array.shape, array.dtype)
            if late:
                delay(stream, SHORT)
            seen[...] = array
        self.reads.append((f"{kept.name}[{part}] on stream {place}", seen, kept.truth[part].copy()))
        kept.events[place] = stream.record()

    def alias_write(self, kept: Kept) -> None:
        """Write through an alias of the device's side, and keep the alias."""
        value = self.random.randrange(1, 100)
        place, stream = self.stream()
        self.note(f"stream {place}: alias of {kept.name} += {value}")
        self.after_all(kept, stream)
        with stream:
            if kept.alias is None:
                kept.alias = self.cupy.asarray(kept.blob.gpu)
            self.change(kept.alias, value, stream, late=False)
        kept.truth += value
        kept.events[place] = stream.record()

    def drop_alias(self, kept: Kept) -> None:
        """Drop the alias."""
        self.note(f"drop the alias of {kept.name}")
        self.forget_alias(kept)

    def replace(self, kept: Kept) -> None:
        """Drop a Blob, even if kernels still use it, and make another."""
        if self.random.random() < 0.3:  # noqa: PLR2004  # sometimes
            self.note(f"{kept.name} is a new one")
            # CuPy's pool reuses memory in the order of the stream it was allocated on. The program
            # has to wait for kernels on other streams.
            for event in kept.events.values():
                event.synchronize()
            kept.events.clear()
            kept.alias = None
            kept.blob = Blob(SIZE, "int32", device=DEVICE)
            kept.truth[:] = 0

    # --- the order that is the program's business ---

    def after_all(self, kept: Kept, stream: Any) -> None:
        """Order a stream after the kernels that the program has launched on a Blob."""
        for event in kept.events.values():
            stream.wait_event(event)

    def settle_writes(self, kept: Kept) -> None:
        """Wait in some programs only, so that the others test syncblob's own waits."""
        if self.random.random() < 0.2:  # noqa: PLR2004  # sometimes
            for event in kept.events.values():
                event.synchronize()
            kept.events.clear()

    def forget_alias(self, kept: Kept) -> None:
        """Drop an alias before another write, as a user must."""
        kept.alias = None


def run(number: int) -> None:
    """Run one program. An exception includes its trace."""
    program = Program(number)
    try:
        program.run()
    except BaseException as error:
        lines = "\n  ".join(program.trace)
        raise AssertionError(f"program {number}: {error}\n  {lines}") from error


def main(seconds: float, path: Path, first: int) -> int:
    """Run programs for `seconds` seconds, and write the results; return 1 after a failure."""
    warnings.simplefilter("error")
    warm_up("int32", "uint8")
    end = time.monotonic() + seconds
    number, failures = first, []
    while time.monotonic() < end and len(failures) < 5:  # noqa: PLR2004  # they repeat themselves
        try:
            run(number)
        except Exception:  # noqa: BLE001  # go on with the next ones
            failures.append(traceback.format_exc()[-3000:])
        number += 1
        if number % 20 == 0 or time.monotonic() >= end or failures:
            _write(path, number - first, failures)
    print(_write(path, number - first, failures))
    for failure in failures:
        print(failure)
    return int(bool(failures))


def _write(path: Path, number: int, failures: list[str]) -> str:
    line = f"{number} random programs, {len(failures)} of them failed"
    found = {"line": line, "programs": number, "failures": failures}
    path.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return line


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(float(given[0]), Path(given[1]), int(given[2]) if len(given) > 2 else 0))  # noqa: PLR2004  # the third
