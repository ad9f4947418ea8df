"""Maintenance windows: the events of an iCalendar file, also recurring ones, as silences."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import icalendar
import recurring_ical_events

from cep.core.errors import CepError, reason_of
from connectors.alerts.matchers import Matchers
from connectors.alerts.silences import LONGEST_COMMENT, Silence
from connectors.alerts.text import clean

AHEAD, BACK = timedelta(days=14), timedelta(days=5)
"""How long before they begin, and after their end, windows are listed."""

_AGAIN = 3600 * 1_000_000  # microseconds after which the windows that are listed are computed again
_LARGEST = 10_000_000
_MATCHERS = re.compile(r"\{[^{}]*\}")
_FORM = 'matchers in the description or the title, as `{site="north",alertname=~"flood.*"}`'


class MaintenanceCalendar:
    """The windows of a file. It is read again when it changes; one that cannot be read then leaves things as they
    were, and `trouble` says why. Raises CepError if it cannot be read at first."""

    def __init__(self, file: Path) -> None:
        self.file, self.trouble = file, ""
        self._read: tuple[int, int] | None = None
        self._until = 0
        self._windows: Mapping[str, Silence] = {}
        self._calendar = self._load()

    def windows(self, now: int) -> Mapping[str, Silence]:
        """The windows around a time, microseconds of Unix time, by id."""
        if self._changed():
            try:
                self._calendar, self._until, self.trouble = self._load(), 0, ""
            except CepError as error:
                self.trouble = error.message
        if now >= self._until:
            self._windows = {each.id: each for each in self._around(now)}
            self._until = now + _AGAIN
        return self._windows

    def _changed(self) -> bool:
        try:
            status = os.stat(self.file)
        except OSError:
            return False
        before, self._read = self._read, (status.st_mtime_ns, status.st_size)
        return before != self._read

    def _load(self) -> icalendar.Calendar:
        """The calendar, of which every event has valid matchers and can recur. CepError: it is not one."""
        where = f"--maintenance {self.file}"
        try:
            status = os.stat(self.file)
            if status.st_size > _LARGEST:
                raise CepError(f"{where}: it has more than {_LARGEST:,} bytes", code="maintenance")
            content = self.file.read_bytes()
        except OSError as error:
            raise CepError(f"{where}: {reason_of(error)}", code="maintenance") from None
        self._read = status.st_mtime_ns, status.st_size
        try:
            calendar = icalendar.Calendar.from_ical(content)
            if not isinstance(calendar, icalendar.Calendar):
                raise ValueError("it does not begin with BEGIN:VCALENDAR")
        except (ValueError, IndexError, KeyError, TypeError) as error:
            hint = "a calendar as programs export it, which begins with `BEGIN:VCALENDAR`"
            message = f"{where}: this is not a calendar: {clean(str(error), 200)}"
            raise CepError(message, hint=hint, code="maintenance") from None
        for event in calendar.walk("VEVENT"):
            title = clean(str(event.get("SUMMARY", "")).strip(), 80) or "an event without a title"
            matchers = _matchers(f"{where}, `{title}`", event)
            if matchers.match_all:
                message = f"{where}, `{title}`: it says of no alert that it is to be silent"
                if matchers:
                    message = f"{where}, `{title}`: {matchers} would hide every alert"
                raise CepError(message, hint=_FORM, code="maintenance")
        try:
            list(_occurrences(calendar, datetime.now(UTC)))
        except Exception as error:  # of a library that says in many ways what is wrong with a rule
            message = f"{where}: an event is not valid: {clean(str(error), 200)}"
            raise CepError(message, hint="RRULE as in RFC 5545: `FREQ=WEEKLY;BYDAY=SU`", code="maintenance") from None
        return calendar

    def _around(self, now: int) -> Iterator[Silence]:
        moment = datetime.fromtimestamp(now / 1_000_000, UTC)
        for event in _occurrences(self._calendar, moment):
            starts, ends = _ticks(event.start), _ticks(event.end)
            if ends <= starts or str(event.get("STATUS", "")).upper() == "CANCELLED":
                continue
            text = " ".join(_MATCHERS.sub("", str(event.get(name, ""))) for name in ("SUMMARY", "DESCRIPTION"))
            id = str(uuid5(NAMESPACE_URL, f"{event.get('UID', '')} {starts} {_matchers('', event)}"))
            yield Silence(
                id, _matchers("", event), starts, ends, _author(event), clean(" ".join(text.split()), LONGEST_COMMENT),
                starts, maintenance=True,
            )  # fmt: skip


def _occurrences(calendar: icalendar.Calendar, now: datetime) -> Iterator[Any]:
    yield from recurring_ical_events.of(calendar).between(now - BACK, now + AHEAD)


def _matchers(where: str, event: Any) -> Matchers:
    """The matchers in an event's description, else in its title. CepError: they are not valid."""
    for name in ("DESCRIPTION", "SUMMARY"):
        if texts := _MATCHERS.findall(str(event.get(name, ""))):
            try:
                return Matchers.parse_all(texts)
            except CepError as error:
                raise CepError(f"{where}: {error.message}", hint=error.hint, code="maintenance") from None
    return Matchers()


def _author(event: Any) -> str:
    organizer = event.get("ORGANIZER")
    if organizer is None:
        return "calendar"
    name = str(organizer.params.get("CN", "")) or re.sub("^mailto:", "", str(organizer), flags=re.IGNORECASE)
    return clean(name, 64) or "calendar"


def _ticks(when: date | datetime) -> int:
    """A time in microseconds of Unix time; a day begins at midnight UTC, and a time without a zone is in UTC."""
    if not isinstance(when, datetime):
        when = datetime(when.year, when.month, when.day)
    at = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return round((at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
