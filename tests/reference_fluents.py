"""Simple fluents by brute force, microsecond by microsecond, following only `docs/fluents.md`.

Events are instants. A rule initiates or terminates when an event occurs, or when another fluent begins or ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

Key = str


@dataclass(frozen=True)
class Ask:
    """A condition on a fluent of the rule's key: that it holds (with this value, None: with any), or does not; `ago`:
    held(.., end() - ago), in microseconds."""

    fluent: str
    negated: bool = False
    value: int | None = None
    ago: int = 0


@dataclass(frozen=True)
class Tell:
    """`verb fluent(K) [= value] <- event(K, X) WHERE X = only, asks.` `value` is "X" for the event's, "_" for every.

    `event` is the name of one, or `BEGIN OF f`, `END OF f` of a boolean fluent."""

    verb: str
    fluent: str
    value: int | str | None
    event: str
    only: int | None = None
    asks: tuple[Ask, ...] = ()


@dataclass(frozen=True)
class Due:
    """`fluent(K) [= value] ENDS AFTER duration [RENEWED].`, or BECOMES. `value` None: any."""

    fluent: str
    value: int | None
    duration: int
    becomes: int | None
    renewed: bool


@dataclass(frozen=True)
class Model:
    """Fluents in an order in which each begins and ends by those before alone; `valued`: which have a value. `initial`:
    (fluent, key, value). `derived`: (name, event, asks), events made where conditions hold."""

    fluents: tuple[str, ...]
    valued: frozenset[str]
    tells: tuple[Tell, ...]
    dues: tuple[Due, ...] = ()
    initial: tuple[tuple[str, Key, int | None], ...] = ()
    derived: tuple[tuple[str, str, tuple[Ask, ...]], ...] = ()


@dataclass
class Now:
    """What holds of a fluent and key: the value, since when (None: before all time), and when it is due."""

    value: int | None
    since: int | None
    due: int | None = None


Interval = tuple[str, Key, int | None, int | None, int | None]
"""Fluent, key, value, start, end."""


@dataclass
class Run:
    """What came of a model: intervals of fluents, and how many derived events (name, key, time)."""

    intervals: set[Interval] = field(default_factory=set)
    events: Counter[tuple[str, Key, int]] = field(default_factory=Counter)


def run(model: Model, records: Sequence[tuple[str, Key, int, int]]) -> Run:
    """`records`: (event, key, X, time)."""
    out = Run()
    held: dict[tuple[str, Key], Now] = {}
    for fluent in model.fluents:
        for key in sorted({k for f, k, _ in model.initial if f == fluent}):
            values = {v for f, k, v in model.initial if (f, k) == (fluent, key)}
            if len(values) == 1:
                held[fluent, key] = Now(values.pop(), None)
    times = [time for *_, time in records]
    time = min(times, default=0)
    while time <= max(times, default=0) or any(now.due is not None for now in held.values()):
        _instant(model, [r for r in records if r[3] == time], time, held, out)
        time += 1
    for (fluent, key), now in held.items():
        out.intervals.add((fluent, key, now.value, now.since, None))
    return out


def _instant(
    model: Model, records: Sequence[tuple[str, Key, int, int]], time: int, held: dict[tuple[str, Key], Now], out: Run
) -> None:
    before = {place: now.value for place, now in held.items()}

    def values(ask: Ask, key: Key) -> list[int | None]:
        if not ask.ago:
            return [before[ask.fluent, key]] if (ask.fluent, key) in before else []
        every = [(v, s, e) for f, k, v, s, e in out.intervals if (f, k) == (ask.fluent, key)]
        if (ask.fluent, key) in held:
            every.append((held[ask.fluent, key].value, held[ask.fluent, key].since, None))
        then = time - ask.ago
        return [v for v, s, e in every if (s is None or s < then) and (e is None or then <= e)]

    def holds(asks: Sequence[Ask], key: Key) -> bool:
        return all(any(ask.value in (None, v) for v in values(ask, key)) != ask.negated for ask in asks)

    counts = Counter((event, key, x) for event, key, x, _ in records)
    for name, event, asks in model.derived:
        for (other, key, _), count in counts.items():
            if other == event and holds(asks, key):  # equal records are told apart by their numbers
                out.events[name, key, time] = max(out.events[name, key, time], count)
    happened = set(counts)
    for fluent in model.fluents:
        transitions = [
            (tell, key, x)
            for tell in model.tells
            for event, key, x in happened
            if tell.fluent == fluent and tell.event == event and tell.only in (None, x) and holds(tell.asks, key)
        ]
        keys = {key for _, key, _ in transitions} | {
            k for (f, k), now in held.items() if f == fluent and now.due == time
        }
        for key in keys:
            _decide(model, fluent, key, [(t, x) for t, k, x in transitions if k == key], time, held, out)
            now_holds, held_before = held.get((fluent, key)), (fluent, key) in before
            if held_before and (now_holds is None or now_holds.since == time):
                happened.add((f"END OF {fluent}", key, 0))
            if now_holds is not None and now_holds.since == time:
                happened.add((f"BEGIN OF {fluent}", key, 0))


def _decide(
    model: Model,
    fluent: str,
    key: Key,
    transitions: Sequence[tuple[Tell, int]],
    time: int,
    held: dict[tuple[str, Key], Now],
    out: Run,
) -> None:
    def value(tell: Tell, x: int) -> int | None:
        return x if tell.value == "X" else tell.value  # type: ignore[return-value]

    initiated = {value(t, x) for t, x in transitions if t.verb == "initiate"}
    terminated = {value(t, x) for t, x in transitions if t.verb == "terminate" and t.value != "_"}
    every = any(t.verb == "terminate" and t.value == "_" for t, _ in transitions)
    now = held.get((fluent, key))
    again = now is not None and now.value in initiated
    if now is not None and now.due == time:
        due = next(d for d in model.dues if d.fluent == fluent and d.value in (None, now.value))
        if not (due.renewed and again):
            if due.becomes is None:
                terminated.add(now.value)
            else:
                initiated.add(due.becomes)
        now.due = None
    if now is not None and (every or now.value in terminated or initiated - {now.value}):
        out.intervals.add((fluent, key, now.value, now.since, time))
        del held[fluent, key]
    begins = None
    if len(initiated) == 1 and not every and not initiated & terminated and not again:
        (begun,) = initiated
        begins = held[fluent, key] = Now(begun, time)
    still = held.get((fluent, key))
    if still is not None and (begins is not None or again):
        for due in model.dues:
            if due.fluent == fluent and due.value in (None, still.value) and (begins is not None or due.renewed):
                still.due = time + due.duration


def text(model: Model) -> str:
    """The program."""
    lines = ["event a(k: string, x: int) TIME time.", "event b(k: string, x: int) TIME time."]
    for fluent in model.fluents:
        lines.append(f"fluent {fluent}(k: string){' = v: int' if fluent in model.valued else ''}.")
    for fluent, key, v in model.initial:
        lines.append(f'initially {fluent}("{key}"){"" if v is None else f" = {v}"}.')
    for tell in model.tells:
        value = "" if tell.value is None else f" = {tell.value}"
        event = f"{tell.event}(K)" if " OF " in tell.event else f"{tell.event}(K, X)"
        asks = [*([] if tell.only is None else [f"X = {tell.only}"]), *_asks(model, tell.asks)]
        where = f" WHERE {', '.join(asks)}" if asks else ""
        lines.append(f"{tell.verb} {tell.fluent}(K){value} <- {event}{where}.")
    for due in model.dues:
        value = "" if due.fluent not in model.valued else f" = {'V' if due.value is None else due.value}"
        word = "ENDS" if due.becomes is None else f"BECOMES {due.becomes}"
        seconds = f"{due.duration / 1_000_000:.6f} s"
        lines.append(f"{due.fluent}(K){value} {word} AFTER {seconds}{' RENEWED' if due.renewed else ''}.")
    for name, event, asks in model.derived:
        where = f" WHERE {', '.join(_asks(model, asks))}" if asks else ""
        lines.append(f"{name}(K) <- {event}(K, X){where}.")
    return "\n".join(lines)


def _asks(model: Model, asks: Sequence[Ask]) -> list[str]:
    written = []
    for n, ask in enumerate(asks):
        if ask.fluent in model.valued:
            assert not ask.negated, "a value is asked, not its absence"
            asked = f"{ask.fluent}(K) = {f'V{n}' if ask.value is None else ask.value}"
        else:
            asked = f"{ask.fluent}(K)"
        if ask.ago:
            asked = f"held({asked}, end() - {ask.ago / 1_000_000:.6f} s)"
        written.append(f"not {asked}" if ask.negated else asked)
    return written
