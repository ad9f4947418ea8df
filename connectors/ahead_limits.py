"""By how much a record may be ahead of this machine's clock."""

from __future__ import annotations

from dataclasses import dataclass

AHEAD = 5 * 60_000_000
"""Microseconds that a record of live input may be ahead of the clock, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class AheadLimits:
    """By how many microseconds records may be ahead, by where they come from; None: by any."""

    live: int | None = AHEAD
    files: int | None = None


LIVE = AheadLimits()
"""Live input alone is judged."""
