"""How thoroughly the suite is run."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TIERS", "Tier"]


class Tier(NamedTuple):
    """A name for how many random examples are tried."""

    name: str
    max_examples: int
    boosted: bool = False
    """Whether special cases get many draws instead of one, and skip marks of the suite are off."""


TIERS = {
    tier.name: tier
    for tier in (
        Tier("quick", 20),
        Tier("ci", 100),
        Tier("full", 1000),
        Tier("boosted", 100, boosted=True),
    )
}
