"""Limits on how far a record's time may be ahead of this machine's clock."""

from __future__ import annotations

from dataclasses import dataclass

AHEAD = 5 * 60_000_000
"""The default limit for records of live input, in microseconds."""


@dataclass(frozen=True, slots=True)
class AheadLimits:
    """The limits in microseconds for live input and for files. None means no limit."""

    live: int | None = AHEAD
    files: int | None = None


LIVE = AheadLimits()
"""The default: a limit for live input, none for files."""
