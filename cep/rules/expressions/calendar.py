"""Calendar functions on whole columns: the hour, weekday or month of times in a time zone, for example.

Days follow the proleptic Gregorian calendar, weeks follow ISO 8601. Times are int64 microseconds in UTC, or MISSING.
The date arithmetic follows H. Hinnant, "chrono-compatible low-level date algorithms" (2013).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cep.core.literals import UNITS
from cep.core.suggest import did_you_mean
from cep.core.values import MISSING, Ints, Pool
from cep.core.zones import Zone, names, zone, zone_hint
from cep.rules.expressions.functions import Operand

DAY, HOUR, MINUTE, SECOND = UNITS["d"], UNITS["h"], UNITS["min"], UNITS["s"]
_REACH = 2**62
"""The limit beyond which local times would need more than 64 bits."""


def days_of(local: Ints) -> Ints:
    """Return the number of days from 1970-01-01 to each local time."""
    days: Ints = np.floor_divide(local, DAY)
    return days


def civil(days: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the year, the month and the day of the month. `days`: numbers of days since 1970-01-01."""
    shifted = days + 719_468  # days since 0000-03-01
    era: Ints = np.floor_divide(shifted, 146_097)
    of_era = shifted - era * 146_097
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    part = (5 * of_year + 2) // 153
    month = np.where(part < 10, part + 3, part - 9)
    return year + era * 400 + (month <= 2), month, of_year - (153 * part + 2) // 5 + 1


def days_from_civil(year: Ints, month: Operand, day: Operand | int) -> Ints:
    """Return the number of days since 1970-01-01 for each date."""
    months = np.asarray(month, np.int64)
    shifted = year - (months <= 2)
    era: Ints = np.floor_divide(shifted, 400)
    of_era = shifted - era * 400
    of_year = (153 * np.where(months > 2, months - 3, months + 9) + 2) // 5 + day - 1
    days: Ints = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return days


def _weekday(local: Ints) -> Ints:
    return (days_of(local) + 3) % 7 + 1


def _week(local: Ints) -> Ints:
    thursday = days_of(local) - _weekday(local) + 4
    year, _, _ = civil(thursday)
    return (thursday - days_from_civil(year, 1, 1)) // 7 + 1


def _day_of_year(local: Ints) -> Ints:
    days = days_of(local)
    return days - days_from_civil(civil(days)[0], 1, 1) + 1


OF_LOCAL: dict[str, Callable[[Ints], Ints]] = {
    "hour": lambda local: local // HOUR % 24,
    "minute": lambda local: local // MINUTE % 60,
    "second": lambda local: local // SECOND % 60,
    "day": lambda local: civil(days_of(local))[2],
    "weekday": _weekday,
    "month": lambda local: civil(days_of(local))[1],
    "year": lambda local: civil(days_of(local))[0],
    "day_of_year": _day_of_year,
    "week": _week,
    "local_time": lambda local: local % DAY,
}
"""Functions that take local times and return a part of them, by name."""


def _begin_of_week(local: Ints) -> Ints:
    return (days_of(local) - _weekday(local) + 1) * DAY


def _begin_of_months(local: Ints, months: int) -> Ints:
    year, month, _ = civil(days_of(local))
    return days_from_civil(year, (month - 1) // months * months + 1, 1) * DAY


BEGIN: dict[str, Callable[[Ints], Ints]] = {
    "second": lambda local: local // SECOND * SECOND,
    "minute": lambda local: local // MINUTE * MINUTE,
    "hour": lambda local: local // HOUR * HOUR,
    "day": lambda local: days_of(local) * DAY,
    "week": _begin_of_week,
    "month": lambda local: _begin_of_months(local, 1),
    "quarter": lambda local: _begin_of_months(local, 3),
    "year": lambda local: _begin_of_months(local, 12),
}
"""For each calendar unit, a function that takes local times and returns the local times at which their hour, day, month
or other unit began."""
_OF_A_DAY = ("second", "minute", "hour")


def truncated(unit: str, times: Ints, place: Zone | None) -> Ints:
    """For each time, return the instant at which its hour, day, month or other `unit` began. `place`: the time zone, or
    None for UTC.

    An hour that clocks show twice begins twice. A day without midnight begins right after the time that clocks skip.
    """
    if place is None:
        return BEGIN[unit](times)
    begin = BEGIN[unit](place.local(times))
    first, _ = place.utc(begin)
    if unit not in _OF_A_DAY:
        return first
    second, _ = place.utc(begin, later=True)
    return np.where(second <= times, second, first)


def implementation(function: str, pool: Pool) -> Callable[..., Operand]:
    """Return the implementation of a calendar function for whole columns.

    It takes a column of times and, optionally, a column of time zones. For `date_trunc`, the first argument is the
    unit. The result for an unknown zone is missing.
    """
    if function == "date_trunc":

        def cut(unit: Operand, times: Operand, zones: Operand | None = None) -> Operand:
            name = str(pool.value(int(np.reshape(unit, -1)[0])))
            return _by_zone(lambda these, place: truncated(name, these, place), times, zones, pool)

        return cut
    of_local = OF_LOCAL[function]

    def part(times: Operand, zones: Operand | None = None) -> Operand:
        return _by_zone(
            lambda these, place: of_local(these if place is None else place.local(these)), times, zones, pool
        )

    return part


def _by_zone(
    compute: Callable[[Ints, Zone | None], Ints], times: Operand, zones: Operand | None, pool: Pool
) -> NDArray[np.int64]:
    """Call `compute` once per time zone, on the times in this zone. Return all results."""
    if zones is not None and np.ndim(zones):
        times = np.broadcast_to(np.asarray(times, np.int64), np.shape(zones))
        result = np.full(len(times), MISSING, np.int64)
        for code in np.unique(zones):
            rows = np.flatnonzero(np.equal(zones, code))
            result[rows] = _by_zone(compute, times[rows], np.int64(code), pool)
        return result
    times = np.atleast_1d(np.asarray(times, np.int64))
    place = None
    if zones is not None:
        name = None if zones == MISSING else pool.value(int(zones))
        if not isinstance(name, str) or name not in names():
            return np.full(len(times), MISSING, np.int64)
        place = None if name == "UTC" else zone(name)
    within_reach = np.abs(np.where(times == MISSING, _REACH, times)) < _REACH
    return np.where(within_reach, compute(np.where(within_reach, times, 0), place), MISSING)


def unknown_zone(name: str) -> tuple[str, str] | None:
    """Return the message and the hint for an unknown time zone, or None if the zone exists."""
    if name in names():
        return None
    return f"there is no time zone `{name}`", zone_hint(name)


def unknown_unit(name: str) -> tuple[str, str] | None:
    """Return the message and the hint for an unknown unit of `date_trunc`, or None if the unit exists."""
    if name in BEGIN:
        return None
    units = "the units are " + ", ".join(f'`"{unit}"`' for unit in BEGIN)
    hint = did_you_mean(name.lower(), list(BEGIN))
    return f"`{name}` is not a unit of the calendar", f"{hint} {units}" if hint else units
