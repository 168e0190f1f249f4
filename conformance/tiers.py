"""The tiers: how thoroughly the suite is run."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TIERS", "Tier"]


class Tier(NamedTuple):
    """A number of random examples, with a name."""

    name: str
    max_examples: int
    boosted: bool = False
    """Whether special cases get many draws instead of one, and the suite's skip marks are off."""


TIERS = {
    tier.name: tier
    for tier in (
        Tier("quick", 20),
        Tier("ci", 100),
        Tier("full", 1000),
        Tier("boosted", 100, boosted=True),
    )
}
