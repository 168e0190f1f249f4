"""The default policy against the offline policy that evicts what is needed last (Belady, 1966).

That one makes the fewest uploads. It can be beaten if downloads count, too.

Both start with everything on the host. An access is of a whole Blob, to read it, to change it, or
to overwrite it. Evictions of what the host lacks download it.
"""

import random

import pytest
import tiers
from devices import LIMITED

from syncblob import Blob

READ, CHANGE, OVERWRITE = "read", "change", "overwrite"
COUNT = 64
NBYTES = 4 * COUNT


def belady(accesses, capacity):
    """Return the number of Blobs that the offline policy moves."""
    following = [len(accesses)] * len(accesses)
    last = {}
    for place in range(len(accesses) - 1, -1, -1):
        following[place] = last.get(accesses[place][0], len(accesses))
        last[accesses[place][0]] = place
    resident, dirty, moved = {}, set(), 0
    for (blob, kind), needed in zip(accesses, following, strict=True):
        if blob not in resident:
            if len(resident) == capacity:
                gone = max(resident, key=lambda each: (resident[each], each not in dirty))
                moved += gone in dirty
                dirty.discard(gone)
                del resident[gone]
            moved += kind != OVERWRITE
        resident[blob] = needed
        if kind != READ:
            dirty.add(blob)
    return moved


def measured(accesses, capacity, device):
    """Return the number of Blobs that the default policy moves, and check all contents."""
    device.capacity = capacity * NBYTES + 64
    count = 1 + max(blob for blob, _ in accesses)
    blobs = [Blob(COUNT, "int32", device=LIMITED) for _ in range(count)]
    values = list(range(count))
    for value, blob in enumerate(blobs):
        blob.overwrite_cpu_data()[...] = value
    device.reset_counts()
    for place, (index, kind) in enumerate(accesses):
        if kind == READ:
            assert blobs[index].gpu_data()[3] == values[index]
        elif kind == CHANGE:
            blobs[index] += 1
            values[index] += 1
        else:
            blobs[index][...] = values[index] = place
    moved = (device.uploaded_bytes + device.downloaded_bytes) / NBYTES
    assert [blob.on("cpu")[5].item() for blob in blobs] == values
    return moved


def zipf():
    """Random accesses to 64 Blobs. Each is half as frequent as that of half its number (Zipf)."""
    rng = random.Random(1)  # noqa: S311  # accesses, not secrets
    chosen = rng.choices(range(64), [1 / (1 + i) for i in range(64)], k=3000)
    return [(blob, rng.choice((READ, READ, READ, CHANGE))) for blob in chosen], 12


def scan():
    """Reading more than fits, again and again. Least recently used moves everything each time."""
    return [(i, READ) for _ in range(6) for i in range(12)], 10


def phases():
    """Ten phases, each of which uses 9 of 60 Blobs at random."""
    rng, accesses = random.Random(6), []  # noqa: S311  # as above
    for _ in range(10):
        chosen = rng.sample(range(60), 9)
        accesses += [(rng.choice(chosen), rng.choice((READ, CHANGE))) for _ in range(150)]
    return accesses, 12


def training():
    """Steps of a net of 10 layers: activations and gradients are overwritten, weights changed."""
    layers = range(10)
    step = [(place, kind) for i in layers for place, kind in ((i, READ), (10 + i, OVERWRITE))]
    for i in reversed(layers):
        step += [(10 + i, READ), (i, READ), (20 + i, OVERWRITE)]
    for i in layers:
        step += [(20 + i, READ), (i, CHANGE)]
    return 6 * step, 16


# What the default policy moves, at most, as a multiple of what the offline policy moves.
PATTERNS = {zipf: 1.6, scan: 3.3, phases: 1.35, training: 1.5}


@pytest.mark.parametrize(
    "pattern",
    tiers.representatives(
        PATTERNS,
        {"scan": "what moves most", "training": "steps that repeat"},
        name=lambda pattern: pattern.__name__,
    ),
    ids=lambda pattern: pattern.__name__,
)
def test_the_default_policy_is_near_the_best(limited, pattern):
    accesses, capacity = pattern()
    best, found = belady(accesses, capacity), measured(accesses, capacity, limited)
    assert found <= PATTERNS[pattern] * best, f"{found} of {best}"
