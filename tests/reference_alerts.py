"""The lifecycle of alerts by brute force, following only `docs/language.md`, `docs/fluents.md` and `docs/revision.md`.

From the records known at a watermark, it computes the derived events and the alerts, second by second. Times are whole
seconds. Events of patterns come from the reference interpreter. Fluents hold at codes: 2t is the point t, 2t + 1 the
time between t and t + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from cep.events import Event
from tests.reference import detect

Args = tuple[Any, ...]
SINCE_EVER = -1
"""The code from which on holds what holds from before all time."""


@dataclass(frozen=True)
class Reading:
    """A record as it comes: `change` -1 withdraws one. `key`: the arguments that make two records of one time one."""

    type: str
    args: Args
    time: int
    change: int = 1
    key: Args | None = None


@dataclass(frozen=True)
class Inhibitor:
    """The alert or fluent `on`: places in its key or arguments, each with a place in the key of the alert that it
    inhibits (`equal`), or with a value."""

    on: str
    equal: tuple[tuple[int, int], ...]
    values: tuple[tuple[int, Any], ...]

    def concerns(self, mine: Args, key: Args) -> bool:
        """Return True if one with this key or these arguments inhibits the alert with a key."""
        alike = all(mine[place] == key[own] for place, own in self.equal)
        return alike and all(mine[place] == value for place, value in self.values)


@dataclass(frozen=True)
class Statement:
    """An ALERT. `on`: the event or fluent, whose value is the last of its arguments; `where`: of its occurrences those
    that are meant; `keys`: places of arguments, None: all (of a fluent)."""

    name: str
    on: str
    attributes: tuple[str, ...]
    where: Callable[[Args], bool]
    keys: tuple[int, ...] | None
    duration: int
    severity: str
    title: str
    text: str
    after: int = 0
    keep: int = 0
    escalations: tuple[tuple[str, int], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    runbook: str = ""
    inhibitor: Inhibitor | None = None

    def key(self, args: Args) -> Args:
        return args if self.keys is None else tuple(args[each] for each in self.keys)

    def filled(self, template: str, args: Args) -> str:
        """With the arguments for `{0}`, `{1}` ..."""
        return template.format(*(f"{each:.10g}" if isinstance(each, float) else each for each in args))


@dataclass(frozen=True)
class Change:
    """Follow an alert up to a time. `first`: the occurrence that it fired with: start, end (of a fluent none) and
    arguments."""

    name: str
    key: Args
    first: tuple[int, int | None, Args]
    state: str
    time: float
    start: int
    end: int
    until: int
    occurrences: int
    severity: str
    title: str
    text: str
    values: tuple[tuple[str, Any], ...]
    since: int
    fired: int | None
    labels: tuple[tuple[str, str], ...]
    runbook: str
    inhibited: bool = False


Held = Mapping[tuple[Any, ...], Sequence[tuple[float, float | None]]]
"""From when until when (None: still) somebody has acknowledged an alert: by its statement's name, its key and its
first occurrence."""

Interval = tuple[int, int | None, Args]
"""An interval of a fluent: its beginning (EVER: it holds from before all time), its end (None: it still holds), its
arguments."""
EVER = -1


def there(records: Iterable[Reading], window: int | None) -> tuple[list[Reading], int | None]:
    """The records that stand after these arrived, and the latest time. `window`: the age beyond which one is late."""
    kept: list[Reading] = []
    latest: int | None = None
    for one in records:
        if window is not None and latest is not None and one.time < latest - window:
            continue
        latest = one.time if latest is None else max(latest, one.time)
        same = next((place for place, other in enumerate(kept) if _same(other, one)), None)
        if same is not None and (one.key is not None or one.change < 0):
            del kept[same]  # with a key it is corrected; without one, one of those that are equal is withdrawn
        if one.change > 0:
            kept.append(one)
    return kept, latest


def _same(one: Reading, other: Reading) -> bool:
    if (one.type, one.time, one.key) != (other.type, other.time, other.key):
        return False
    return one.key is not None or one.args == other.args


@dataclass(frozen=True)
class Simple:
    """A simple fluent. `initiates` and `terminates` tell of a record the tuples that it begins and ends (the last of
    these None: every value); `valued`: of a key one value holds. `initially`: tuples; `after`: its deadline."""

    initiates: Callable[[Reading], Iterable[Args]]
    terminates: Callable[[Reading], Iterable[Args]]
    valued: bool = False
    initially: tuple[Args, ...] = ()
    after: int | None = None

    def codes(self, records: Sequence[Reading], until: int) -> dict[Args, set[int]]:
        """The intervals of each tuple, up to just after `until`."""
        held: dict[Args, set[int]] = {}
        now: dict[Args, tuple[Args, int | None]] = {self.key(each): (each, None) for each in self.initially}
        for key, (whole, _) in now.items():
            assert key == self.key(whole)
            held.setdefault(whole, set()).add(SINCE_EVER)
        by_time: dict[int, list[Reading]] = {}
        for one in records:
            by_time.setdefault(one.time, []).append(one)
        for code in range(2 * until + 2):
            for whole, _ in now.values():
                held.setdefault(whole, set()).add(code)
            if code % 2 == 0:
                self._instant(code // 2, by_time.get(code // 2, ()), now)
        return held

    def key(self, whole: Args) -> Args:
        return whole[:-1] if self.valued else whole

    def _instant(self, time: int, records: Sequence[Reading], now: dict[Args, tuple[Args, int | None]]) -> None:
        begun = {each for one in records for each in self.initiates(one)}
        ended = {each for one in records for each in self.terminates(one)}
        due = {whole for whole, since in now.values() if self.after is not None and since == time - self.after}
        for key in {self.key(each) for each in begun | ended | due}:
            mine = {each for each in begun if self.key(each) == key}
            over = {each for each in ended | due if self.key(each) == key}
            every = any(self.valued and each[-1] is None for each in over)
            holds = now.get(key)
            if holds is not None and (every or holds[0] in over or mine - {holds[0]}):
                del now[key]
            if len(mine) == 1 and not every and not mine & over and (holds is None or holds[0] not in mine):
                now[key] = (mine.pop(), time)


def intervals(held: Mapping[Args, set[int]], until: int) -> list[Interval]:
    """The maximal intervals of codes."""
    found: list[Interval] = []
    for args, codes in held.items():
        for low in sorted(each for each in codes if each - 1 not in codes):
            high = low
            while high + 1 in codes:
                high += 1
            start = EVER if low == SINCE_EVER else low // 2
            found.append((start, None if high == 2 * until + 1 else (high + 1) // 2, args))
    return found


def of_event(
    statement: Statement, events: Iterable[Event], second: int, until: int, held: Held = MappingProxyType({})
) -> list[Change]:
    """All changes of the alerts of a statement on an event, up to `until`."""
    meant = {(e.end // second, e.start // second, e.args) for e in events if e.type == statement.on}
    found: list[Change] = []
    live: dict[Args, Change] = {}
    for time in range(min((end for end, _, _ in meant), default=0), until + 1):
        found += _escalated(statement, live, time, held, before=True)
        now = [(start, args) for end, start, args in meant if end == time and statement.where(args)]
        for key in sorted({statement.key(args) for _, args in now}):
            group = sorted((start, args) for start, args in now if statement.key(args) == key)
            start, args = group[0]
            change = _seen(statement, live.get(key), key, (start, time, args), args, start, time, len(group))
            if change.fired is None and time - change.since >= statement.after:
                change = replace(change, state="firing", fired=time)
            live[key] = change
            found.append(change)
        for key, change in list(live.items()):
            if change.until == time:
                found.append(replace(live.pop(key), state="resolved", time=time))
        found += _escalated(statement, live, time, held)
    return found


def of_fluent(
    statement: Statement, every: Iterable[Interval], until: int, held: Held = MappingProxyType({})
) -> list[Change]:
    """The same of one on a fluent: it is over when nothing of its key holds any more, and was kept for a while. What
    holds from before all time does not begin, so it fires nothing and keeps nothing open."""
    meant = [each for each in every if each[0] != EVER and statement.where(each[2])]
    found: list[Change] = []
    live: dict[Args, Change] = {}
    for time in range(min((start for start, _, _ in meant), default=0), until + 1):
        found += _escalated(statement, live, time, held, before=True)
        for key in sorted({statement.key(args) for _, _, args in meant}):
            mine = [each for each in meant if statement.key(each[2]) == key]
            group = sorted(args for start, _, args in mine if start == time)
            if group:
                args = group[0]
                change = _seen(statement, live.get(key), key, (time, None, args), args, time, time, len(group))
                if change.fired is None and not statement.after:
                    change = replace(change, state="firing", fired=time)
                live[key] = change
                found.append(change)
            if key not in live:
                continue
            change = live[key]
            if change.fired is None and time - change.since == statement.after:
                live[key] = change = replace(change, state="firing", fired=time, time=time)
                found.append(change)
            if any(start <= time and (end is None or end > time) for start, end, _ in mine):
                continue
            if change.fired is not None and statement.keep and change.state != "kept":
                kept_until = time + statement.keep
                live[key] = replace(change, state="kept", time=time, until=kept_until)
                found.append(live[key])
            elif change.state != "kept" or change.until == time:
                found.append(replace(live.pop(key), state="resolved", time=time))
        found += _escalated(statement, live, time, held)
    return found


def _escalated(
    statement: Statement, live: dict[Args, Change], time: int, held: Held, before: bool = False
) -> list[Change]:
    """The alerts that become graver at a time; `before`: those that were given back since the second before it."""
    found = []
    words = [statement.severity, *(word for word, _ in statement.escalations)]
    for key in list(live):
        spans = held.get((statement.name, key, live[key].first), ())
        moments = (
            [float(time)] if not before else [end for _, end in spans if end is not None and time - 1 < end < time]
        )
        for at in moments:
            if any(begin < at and (end is None or at < end) for begin, end in spans):
                continue
            for number, (severity, seconds) in enumerate(statement.escalations):
                change = live[key]
                if words.index(change.severity) == number and change.fired is not None and change.fired + seconds <= at:
                    live[key] = replace(change, severity=severity)
                    found.append(replace(live[key], state="escalated", time=at))
    return found


def inhibited(
    statements: Iterable[Statement],
    changes: Mapping[str, Sequence[Change]],
    every: Mapping[str, Sequence[Interval]],
    until: int,
) -> list[Change]:
    """The changes of alerts by their names, with what inhibits them; `every`: the intervals of fluents."""
    found: list[Change] = []
    for statement in statements:
        lives = _lives(changes[statement.name])
        if statement.inhibitor is None:
            found += changes[statement.name]
            continue
        spans: list[Interval] = []
        if statement.inhibitor.on in changes:
            for life in _lives(changes[statement.inhibitor.on]):
                fired = next((each.fired for each in life if each.fired is not None), None)
                if fired is not None:
                    spans.append((fired, life[-1].time if life[-1].state == "resolved" else None, life[0].key))
        else:
            spans += every[statement.inhibitor.on]
        for life in lives:
            mine = [each for each in spans if statement.inhibitor.concerns(each[2], life[0].key)]
            found += _marked(life, mine, until)
    return found


def _lives(changes: Iterable[Change]) -> list[list[Change]]:
    lives: dict[tuple[Any, ...], list[Change]] = {}
    for change in changes:
        lives.setdefault((change.key, change.first), []).append(change)
    return list(lives.values())


def _marked(life: Sequence[Change], spans: Sequence[Interval], until: int) -> list[Change]:
    """The changes of an alert with whether it is inhibited, and when that begins and ends."""
    told: list[Change] = []
    for time in range(life[0].time, until + 1):
        now = any(start <= time and (end is None or time < end) for start, end, _ in spans)
        told += [replace(change, inhibited=now) for change in life if change.time == time]
        last = told[-1]
        if last.state != "resolved" and last.fired is not None and last.inhibited != now:
            sent = any(each.fired is not None and not each.inhibited for each in told)
            state = "inhibited" if now else "updated" if sent else "firing"
            told.append(replace(last, state=state, time=time, inhibited=now))
    return told


def _seen(
    statement: Statement,
    before: Change | None,
    key: Args,
    first: tuple[int, int | None, Args],
    args: Args,
    start: int,
    time: int,
    number: int,
) -> Change:
    fired = None if before is None else before.fired
    return Change(
        name=statement.name,
        key=key,
        first=first if before is None else before.first,
        state="pending" if fired is None else "updated",
        time=time,
        start=start if before is None else min(start, before.start),
        end=time,
        until=time + statement.duration,
        occurrences=number + (0 if before is None else before.occurrences),
        severity=statement.severity if before is None else before.severity,
        title=statement.filled(statement.title, args),
        text=statement.filled(statement.text, args),
        values=tuple(zip(statement.attributes, args, strict=True)),
        since=time if before is None else before.since,
        fired=fired,
        labels=tuple((name, statement.filled(value, args)) for name, value in statement.labels),
        runbook=statement.filled(statement.runbook, args),
    )


def patterns(rules: str, records: Iterable[Reading], second: int) -> list[Event]:
    """The records, and what rules derive of them."""
    events = [Event(one.type, one.args, one.time * second, one.time * second) for one in records]
    return [*events, *detect(rules, events)]
