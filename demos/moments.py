"""Format times (microseconds UTC) for the output of demos."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(ticks: int) -> str:
    """Format a time as `8 Feb 21:00`."""
    time = _date(ticks)
    return f"{time.day} {time:%b %H:%M}"


def clock(ticks: int) -> str:
    """Format a time as `21:00`."""
    return f"{_date(ticks):%H:%M}"


def days(start: int, end: int) -> str:
    """Format a period as `8–9 February`."""
    first, last = _date(start), _date(end)
    if first.date() == last.date():
        return f"{first.day} {first:%B}"
    if first.month == last.month:
        return f"{first.day}–{last.day} {last:%B}"
    return f"{first.day} {first:%B} – {last.day} {last:%B}"


def _date(ticks: int) -> datetime:
    return datetime.fromtimestamp(ticks // 1_000_000, UTC)


def ticks(time: datetime) -> int:
    """Return a time of a table as microseconds UTC."""
    return int(time.timestamp()) * 1_000_000 + time.microsecond
