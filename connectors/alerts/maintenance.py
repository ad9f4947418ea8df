"""Maintenance windows: events of an iCalendar file that act as silences. An event that recurs has several windows."""

from __future__ import annotations

import html
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import icalendar
import recurring_ical_events
from icalendar.timezone import tzp

from cep.connectors.alerts.matchers import Matchers
from cep.connectors.alerts.silences import LONGEST_COMMENT, Silence
from cep.connectors.alerts.text import clean
from cep.core.errors import CepError, reason_of

AHEAD, BACK = timedelta(days=14), timedelta(days=5)
"""The time before the beginning of a window, and the time after its end, during which the window is listed."""

MOST_TIMES = 2_000
"""The maximum number of windows of one recurring event that may be listed at the same time."""

MOST_WINDOWS = 20_000
"""The maximum number of listed windows."""

_MOST_STEPS = 1_000_000  # recurrences since the first one, which the library visits one by one
_MOST_REMARKS = 20
_AGAIN = 3600 * 1_000_000  # microseconds after which the list of windows is computed again
_LARGEST = 10_000_000
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"|[“”„‟«»]((?:[^“”„‟«»\\]|\\.)*+)[“”„‟«»]', re.DOTALL)
_MATCHERS = re.compile(rf'\{{(?:[^{{}}"“”„‟«»]|{_QUOTED.pattern})*+\}}', re.DOTALL)
_MARKUP = re.compile(r"</?(?:a|b|br|div|em|i|li|ol|p|span|strong|u|ul|html-blob)\b[^<>]*>", re.IGNORECASE)
_FORM = 'write matchers in the description or the title, such as `{site="north",alertname=~"flood.*"}`'
_A_DAY = {"SECONDLY": 86_400, "MINUTELY": 1_440, "HOURLY": 24}


class MaintenanceCalendar:
    """The maintenance windows of a calendar file, which is read again when it changes.

    If the changed file cannot be read, the windows stay the same, and `trouble` contains the reason. `remarks`: the
    reasons why some calendar events are not maintenance windows. The constructor raises CepError if it cannot read the
    file.
    """

    def __init__(self, file: Path) -> None:
        self.file, self.trouble, self.remarks = file, "", tuple[str, ...]()
        self._read: tuple[int, int] | None = None
        self._until = 0
        self._windows: Mapping[str, Silence] = {}
        self._series: list[tuple[str, Any]] = []
        self._zone: tzinfo = UTC
        self._load()

    def windows(self, now: int) -> Mapping[str, Silence]:
        """Return the windows near a time (microseconds of Unix time), by id."""
        if self._changed():
            try:
                self._load()
                self.trouble = ""
            except CepError as error:
                self.trouble = error.message
        if now >= self._until:
            self._windows = self._around(now)
            self._until = now + _AGAIN
        return self._windows

    def _changed(self) -> bool:
        try:
            status = os.stat(self.file)
        except OSError:  # reading the file will report the reason
            self._read = None
            return True
        before, self._read = self._read, (status.st_mtime_ns, status.st_size)
        return before != self._read

    def _load(self) -> None:
        """Read the calendar events that are maintenance windows. Raises CepError if the file is not a calendar."""
        where = f"--maintenance {self.file}"
        try:
            status = os.stat(self.file)
            if status.st_size > _LARGEST:
                raise CepError(f"{where}: the file has more than {_LARGEST:,} bytes", code="maintenance")
            content = self.file.read_bytes()
        except OSError as error:
            raise CepError(f"{where}: {reason_of(error)}", code="maintenance") from None
        self._read = status.st_mtime_ns, status.st_size
        try:
            calendar = icalendar.Calendar.from_ical(content)
            if not isinstance(calendar, icalendar.Calendar):
                raise ValueError("the text does not begin with BEGIN:VCALENDAR")
        except (ValueError, IndexError, KeyError, TypeError) as error:
            hint = "use an iCalendar file, which begins with `BEGIN:VCALENDAR`"
            message = f"{where}: this is not a calendar: {clean(str(error), 200)}"
            raise CepError(message, hint=hint, code="maintenance") from None
        zone = _zone_of(calendar, where)
        self._series, self.remarks = _series_of(calendar, zone, where, datetime.now(UTC))
        self._zone = zone
        self._until = 0

    def _around(self, now: int) -> dict[str, Silence]:
        moment = datetime.fromtimestamp(now / 1_000_000, UTC)
        silences: dict[str, Silence] = {}
        for title, series in self._series:
            try:
                silences |= {window.id: window for window in _windows(series, self._zone, moment)}
            except Exception as error:  # the library raises many kinds of errors for a wrong rule
                self.trouble = f"--maintenance {self.file}, `{title}`: {clean(str(error), 200)}"
        return silences


def _zone_of(calendar: icalendar.Calendar, where: str) -> tzinfo:
    """Return the time zone that the calendar names, or UTC if it names none. The zone applies to days, and to times
    that have no zone of their own.

    Raises CepError if the time zone is unknown.
    """
    if not (name := str(calendar.get("X-WR-TIMEZONE", "")).strip()):
        return UTC
    zone = tzp.timezone(name)
    if zone is None:
        message = f"{where}: the time zone `{clean(name, 80)}` is not known"
        raise CepError(message, hint="`X-WR-TIMEZONE:Europe/Berlin`", code="maintenance")
    assert isinstance(zone, tzinfo), "it is one of the standard library"
    return zone


def _series_of(
    calendar: icalendar.Calendar, zone: tzinfo, where: str, now: datetime
) -> tuple[list[tuple[str, Any]], tuple[str, ...]]:
    """Return the calendar events that are maintenance windows, and the reasons why the other events are not.

    Each event is a pair: its title, and an object that lists the event's occurrences.
    """
    by_id: dict[str, list[Any]] = {}
    for number, event in enumerate(calendar.walk("VEVENT")):
        by_id.setdefault(str(event.get("UID", "")) or f" {number}", []).append(event)
    series_by_title: list[tuple[str, Any]] = []
    remarks: list[str] = []
    without: list[str] = []
    windows = 0
    for events in by_id.values():
        valid = [event for event in events if not _cancelled(event)]
        if not valid:
            continue
        title = clean(str(valid[0].get("SUMMARY", "")).strip(), 80) or "an event without a title"
        try:
            hiding = [_matchers(event) for event in valid]
            if not any(hiding):
                without.append(title)
                continue
            windows += (times := sum(_times(event, now) for event in valid))
            if windows > MOST_WINDOWS:
                windows -= times
                raise CepError(f"this event makes more than {MOST_WINDOWS:,} windows in total", hint="use fewer events")
            if all(_ticks(event.end, zone) <= _ticks(event.start, zone) for event in valid):
                raise CepError("the event has no duration", hint="add an end (DTEND) after the start, or a DURATION")
            part = icalendar.Calendar()
            if "CALSCALE" in calendar:
                part["CALSCALE"] = calendar["CALSCALE"]
            part.subcomponents = [*calendar.walk("VTIMEZONE"), *events]
            series = recurring_ical_events.of(part)
            list(_windows(series, zone, now))
        except CepError as error:
            hint = f"; {error.hint}" if error.hint else ""
            remarks.append(f"{where}, `{title}` is not a window: {error.message}{hint}")
        except Exception as error:  # the library raises many kinds of errors for a wrong rule
            hint = "write RRULE as in RFC 5545: `FREQ=WEEKLY;BYDAY=SU`"
            remarks.append(
                f"{where}, `{title}` is not a window: the event is not valid: {clean(str(error), 200)}; {hint}"
            )
        else:
            series_by_title.append((title, series))
    if len(remarks) > _MOST_REMARKS:
        remarks = [
            *remarks[:_MOST_REMARKS],
            f"{where}: {len(remarks) - _MOST_REMARKS} more events are not windows either",
        ]
    if without:
        some = "1 event has" if len(without) == 1 else f"{len(without)} events have"
        hide = "hides" if len(without) == 1 else "hide"
        remarks.append(f"{where}: {some} no matchers in braces and {hide} no alerts, such as `{without[0]}`; {_FORM}")
    return series_by_title, tuple(remarks)


def _windows(series: Any, zone: tzinfo, now: datetime) -> Iterator[Silence]:
    for event in series.between(now - BACK, now + AHEAD):
        starts, ends = _ticks(event.start, zone), _ticks(event.end, zone)
        if ends <= starts or _cancelled(event):
            continue
        text = " ".join(_MARKUP.sub(" ", _MATCHERS.sub("", _plain(event, name))) for name in ("SUMMARY", "DESCRIPTION"))
        comment = clean(" ".join(text.split()), LONGEST_COMMENT)
        for matchers in _matchers(event):
            id = str(uuid5(NAMESPACE_URL, f"{event.get('UID', '')} {starts} {matchers}"))
            yield Silence(id, matchers, starts, ends, _author(event), comment, starts, maintenance=True)


def _cancelled(event: Any) -> bool:
    return str(event.get("STATUS", "")).upper() == "CANCELLED"


def _plain(event: Any, name: str) -> str:
    """Return a property of a calendar event as plain text.

    Some programs export HTML. If the text contains no `"` outside of HTML tags, the tags are removed and HTML entities
    are replaced by their characters. Otherwise, the text is returned unchanged.
    """
    text = str(event.get(name, ""))
    bare = _MARKUP.sub(" ", text)
    return text if '"' in bare else html.unescape(bare)


def _texts(event: Any) -> list[str]:
    """Return the texts in braces in a calendar event's description or, if it has none, in the event's title.

    Raises CepError if a brace or a quote is not closed or not opened.
    """
    for name in ("DESCRIPTION", "SUMMARY"):
        if texts := [match[0] for match in _MATCHERS.finditer(_plain(event, name))]:
            return texts
        if "{" in _plain(event, name):
            hint = f'put a regular expression with braces in quotes: `{{site=~"n{{2}}.*"}}`; {_FORM}'
            raise CepError(
                f"a brace or a quote in its {name.lower()} is not closed or not opened", hint=hint, code="maintenance"
            )
    return []


def _matchers(event: Any) -> Sequence[Matchers]:
    """Return the matchers of a calendar event. Each text in braces defines a separate maintenance window.

    Raises CepError if the matchers are not valid.
    """
    parsed = []
    for text in _texts(event):
        matchers = Matchers.parse(_QUOTED.sub(_straight, text))
        if matchers.match_all:
            message = f"{matchers} would hide every alert" if matchers else "its braces contain no matchers"
            raise CepError(message, hint=_FORM, code="maintenance")
        parsed.append(matchers)
    return parsed


def _straight(quoted: re.Match[str]) -> str:
    """Replace the curly quotes that phones insert by straight ones."""
    return quoted[0] if quoted[1] is None else '"' + quoted[1].replace('"', '\\"') + '"'


def _times(event: Any, now: datetime) -> int:
    """Return an upper bound for the number of windows that a calendar event has near the time `now`.

    Raises CepError if the bound is too large, or if the event has recurred too often since it began.
    """
    rules = event.get("RRULE", [])
    most = 1
    for rule in rules if isinstance(rules, list) else [rules]:
        often = str((rule.get("FREQ") or [""])[0]).upper()
        a_day = _A_DAY.get(often, 1) / max(1, int((rule.get("INTERVAL") or [1])[0]))
        for name, finer in (("BYHOUR", ()), ("BYMINUTE", ("HOURLY",)), ("BYSECOND", ("HOURLY", "MINUTELY"))):
            if often not in _A_DAY or often in finer:
                a_day *= max(1, len(rule.get(name) or ()))
        begin, end = _ticks(event.start) / 86_400e6, now.timestamp() / 86_400 + AHEAD.days
        if until := rule.get("UNTIL"):
            end = min(end, _ticks(until[0]) / 86_400e6)
        count = int((rule.get("COUNT") or [_MOST_STEPS + 1])[0])
        steps = min(count, a_day * max(1.0, end - begin))
        times = math.ceil(min(steps, a_day * (AHEAD + BACK).days))
        if times > MOST_TIMES or steps > _MOST_STEPS:
            rate = f"{a_day:,.0f} times a day since {event.start:%Y-%m-%d}"
            hint = "use one long window, or an event that recurs once a day"
            raise CepError(f"the event recurs {rate}, which is too often", hint=hint, code="maintenance")
        most = max(most, times)
    return most


def _author(event: Any) -> str:
    organizer = event.get("ORGANIZER")
    if organizer is None:
        return "calendar"
    name = str(organizer.params.get("CN", "")) or re.sub("^mailto:", "", str(organizer), flags=re.IGNORECASE)
    return clean(name, 64) or "calendar"


def _ticks(when: date | datetime, zone: tzinfo = UTC) -> int:
    """Return a time in microseconds of Unix time. `zone`: the time zone of days, and of times without a zone."""
    if not isinstance(when, datetime):
        when = datetime(when.year, when.month, when.day)
    instant = when if when.tzinfo is not None else when.replace(tzinfo=zone)
    return round((instant - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
