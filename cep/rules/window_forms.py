"""The forms of windows other than `LAST n EVENTS` and `LAST d`. They are EACH, SESSION and EVERY."""

from __future__ import annotations

from dataclasses import dataclass

from cep.core.literals import UNITS, write_duration

DAY = UNITS["d"]
WEEK = 7 * DAY
MONDAY = -3 * DAY
"""Midnight of a Monday in 1969, in microseconds. 1970 began on a Thursday."""


@dataclass(frozen=True, slots=True)
class Over:
    """The form of a window: `EACH length [ZONE zone]`, `SESSION length`, or `EVERY length` after `LAST d`.

    - `form`: each, session or every.
    - `length`: the length in microseconds.
    - `weeks`: True if the program gives the length in weeks, which begin on Mondays.
    - `zone`: the time zone in which windows begin at midnight, or None.
    """

    form: str
    length: int
    weeks: bool = False
    zone: str | None = None

    @property
    def origin(self) -> int:
        """A time at which a window begins, in microseconds since 1970. All other windows are counted from it. The time
        is in UTC, or in local time if the form has a zone."""
        return MONDAY if self.weeks else 0

    def text(self) -> str:
        """Return the text of this form of window, as a program writes it after OVER or after `LAST d`."""
        length = write_duration(self.length)
        if self.weeks:
            length = f"{self.length // WEEK} {'week' if self.length == WEEK else 'weeks'}"
        zone = "" if self.zone is None else f' ZONE "{self.zone}"'
        return f"{self.form.upper()} {length}{zone}"


def over(events: int | None, duration: int | None, form: Over | None) -> str:
    """Return the text of a window, which a program writes after OVER."""
    if duration is None and events is None:
        assert form is not None, "a window has a form"
        return form.text()
    last = f"LAST {f'{events} EVENTS' if duration is None else write_duration(duration)}"
    return last if form is None else f"{last} {form.text()}"
