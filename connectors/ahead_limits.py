"""Limits on how far the time of a record may be ahead of this machine's clock."""

from __future__ import annotations

from dataclasses import dataclass

AHEAD = 5 * 60_000_000
"""The default limit in microseconds for records of live inputs."""


@dataclass(frozen=True, slots=True)
class AheadLimits:
    """How far the time of a record may be ahead of the clock, in microseconds: `live` for records of live inputs,
    `files` for records of files. None means that there is no limit."""

    live: int | None = AHEAD
    files: int | None = None


LIVE = AheadLimits()
"""The default limits. They only limit the records of live inputs."""
