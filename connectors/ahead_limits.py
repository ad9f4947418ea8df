"""Limits on how far a record's time may be ahead of this machine's clock."""

from __future__ import annotations

from dataclasses import dataclass

AHEAD = 5 * 60_000_000
"""Microseconds that a record of live input may be ahead of the clock, by default."""


@dataclass(frozen=True, slots=True)
class AheadLimits:
    """Limits in microseconds for each kind of source; None: no limit."""

    live: int | None = AHEAD
    files: int | None = None


LIVE = AheadLimits()
"""Limits for live input only."""
