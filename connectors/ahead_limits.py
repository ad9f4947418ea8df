"""Limits on how far the time of a record may be ahead of this machine's clock."""

from __future__ import annotations

from dataclasses import dataclass

AHEAD = 5 * 60_000_000
"""The default limit for records of live inputs, in microseconds."""


@dataclass(frozen=True, slots=True)
class AheadLimits:
    """The limits for live inputs and for files, in microseconds. None: no limit."""

    live: int | None = AHEAD
    files: int | None = None


LIVE = AheadLimits()
"""The default limits. Records of live inputs are limited, records of files are not."""
