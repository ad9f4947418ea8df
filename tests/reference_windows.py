"""The reference interpreter's windows: the occurrences in each window, and the results of aggregates."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from tests import reference_tree as p
from tests.reference_expressions import ExpressionReader
from tests.reference_nodes import Node, Occurrence, PatternNode
from tests.reference_values import evaluate, finite, key, variables

if TYPE_CHECKING:
    from tests.reference import Run

DAY = 86_400 * p.SECOND


@dataclass
class Aggregate(p.Operator):
    pattern: Any
    results: tuple[tuple[p.Var, str, bool, Any, Any], ...]  # variable, function, distinct, argument, parameter
    events: int | None
    duration: int | None
    by: tuple[p.Var, ...]
    form: str = ""  # each, session, every
    step: int = 0  # their length
    origin: int = 0
    zone: str = ""
    filters: list[Any] = field(default_factory=list)

    @classmethod
    def read(cls, reader: ExpressionReader, pattern: Any) -> Aggregate:
        results = []
        while True:
            variable = p.Var(reader.take())
            reader.take("=")
            function = reader.take().lower()
            reader.take("(")
            distinct = reader.maybe("distinct")
            argument = None if reader.peek() == ")" else reader.expression()
            parameter = None
            if reader.maybe(","):
                parameter = reader.duration() if function == "ewma" else reader.constant()
            reader.take(")")
            results.append((variable, function, distinct, argument, parameter))
            if not reader.maybe(","):
                break
        reader.take("over")
        events = duration = None
        form, step, origin, zone = "", 0, 0, ""
        if reader.peek().lower() in ("each", "session"):
            form = reader.take().lower()
            if reader.peek(1).lower() in ("week", "weeks"):
                step, origin = int(reader.take()) * 7 * p.UNITS["d"], -3 * p.UNITS["d"]
                reader.take()
            else:
                step = reader.duration()
            if reader.maybe("zone"):
                zone = reader.constant()
        elif reader.maybe("last") and reader.peek(1).lower() in ("events", "event"):
            events = int(reader.take())
            reader.take()
        else:
            duration = reader.duration()
        if reader.maybe("every"):
            form, step = "every", reader.duration()
        by: list[p.Var] = []
        if reader.maybe("by"):
            by.append(p.Var(reader.take()))
            while reader.maybe(","):
                by.append(p.Var(reader.take()))
        return cls(pattern, tuple(results), events, duration, tuple(by), form, step, origin, zone)

    def uses(self) -> set[str]:
        return {*variables(self.by), *variables(self.results)}

    def binds(self, parts: list[set[str]]) -> set[str]:
        return {*variables(self.by), *(variable.name for variable, *_ in self.results)}

    def node(self, run: Run, parts: list[Node], shared: set[str], within: int | None) -> Node:
        return AggregateNode(run, parts[0], self, within)


class AggregateNode(PatternNode):
    def __init__(self, run: Run, part: Node, pattern: Aggregate, within: int | None) -> None:
        super().__init__(run, [part], (False,), pattern.filters, within)
        self.pattern = pattern
        self.entered: dict[tuple[Any, ...], list[Occurrence]] = {}

    def columns(self) -> list[str]:
        return [v.name for v in (*self.pattern.by, *(result[0] for result in self.pattern.results))]

    def step(self, time: int, first: bool) -> list[Occurrence]:
        touched: dict[tuple[Any, ...], None] = {}
        for o in self.news(0, first):
            group = tuple(key(o.values[by.name]) for by in self.pattern.by)
            self.entered.setdefault(group, []).append(o)
            touched.pop(group, None)
            touched[group] = None  # the group whose last occurrence arrived first comes first
        for group in touched:  # and so they are here
            self.entered[group] = self.entered.pop(group)
        if not self.pattern.form:
            return [self.result(self.entered[group], time) for group in touched]
        windows = ((entered, self.window(entered, time)) for entered in self.entered.values())
        return [self.result(entered, time, *window) for entered, window in windows if window is not None]

    def window(self, entered: list[Occurrence], time: int) -> tuple[list[Occurrence], int | None] | None:
        """What is in a group's window that is over at this time, and where it begins if that is not its least start."""
        if self.pattern.form == "session":
            if entered[-1].end + self.pattern.step != time:
                return None
            run = [entered[-1]]
            for o in reversed(entered[:-1]):
                if run[-1].end - o.end > self.pattern.step:
                    break
                run.append(o)
            return run[::-1], None
        if self.pattern.form == "every":
            if time % self.pattern.step:
                return None
            inside = [o for o in entered if o.end > time - self.pattern.duration]
            return (inside, None) if inside else None
        start, end = self.bounds(time)
        inside = [o for o in entered if start <= o.end]
        return (inside, start) if inside and time == end else None

    def bounds(self, time: int) -> tuple[int, int]:
        """The first and last microsecond of EACH's window around a time."""
        if self.pattern.zone:
            return local_window(self.pattern.zone, self.pattern.step, self.pattern.origin, time)
        start = time - (time - self.pattern.origin) % self.pattern.step
        return start, start + self.pattern.step - 1

    def close_instant(self) -> None:
        super().close_instant()
        form, step = self.pattern.form, self.pattern.step
        for o in self.parts[0].now if form else ():
            times = [o.end + step] if form == "session" else [self.bounds(o.end)[1]] if form == "each" else []
            if form == "every":
                times = list(range(o.end + -o.end % step, o.end + self.pattern.duration, step))
            for time in times:
                if time > o.end:
                    self.run.call_at(time)

    def result(
        self,
        entered: list[Occurrence],
        time: int,
        window: list[Occurrence] | None = None,
        start: int | None = None,
    ) -> Occurrence:
        if window is None and self.pattern.events is not None:
            window = entered[-self.pattern.events :]
        elif window is None:
            window = [o for o in entered if o.end > time - (self.pattern.duration or 0)]
        last = entered[-1]
        values = {by.name: last.values[by.name] for by in self.pattern.by}
        for variable, function, distinct, argument, parameter in self.pattern.results:
            values[variable.name] = aggregate(function, distinct, argument, parameter, window)
        order = self.order(values, [by.name for by in self.pattern.by]) if self.pattern.form else last.order
        return Occurrence(min(o.start for o in window) if start is None else start, time, order, values)


def local_window(zone: str, length: int, origin: int, time: int) -> tuple[int, int]:
    """The first and last microsecond of the window around a time by the clock of a zone: the stretch in which the clock
    stays between two multiples of the length; it is cut where the clock goes back by whole windows."""
    clock = ZoneInfo(zone)

    def shift(time: int) -> int:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=time // p.SECOND)
        return moment.astimezone(clock).utcoffset() // timedelta(microseconds=1)

    def number(time: int) -> int:
        return (time + shift(time) - origin) // length

    def together(time: int) -> bool:
        """Whether a microsecond is in the window of the one before."""
        back = shift(time - 1) - shift(time)
        return number(time - 1) == number(time) and not (back > 0 and back % length == 0)

    # Nothing changes but at multiples of the length, and where clocks change, which they do at whole seconds.
    near = [t for t in changes(zone) if abs(t - time) < length + 2 * DAY]
    shifts = {shift(t) for t in (time, *near, *(t - 1 for t in near))}
    cuts = near + [(number(time) + k) * length + origin - each for each in shifts for k in range(-2, 4)]
    cuts = [cut for cut in cuts if not together(cut)]
    return max(cut for cut in cuts if cut <= time), min(cut for cut in cuts if cut > time) - 1


@cache
def changes(zone: str) -> list[int]:
    """The times at which a zone's clock changes, from 1970 to 2037, by bisection."""
    clock = ZoneInfo(zone)

    def shift(second: int) -> timedelta:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)).astimezone(clock).utcoffset()

    found = []
    for low in range(0, 2_145_916_800, 6 * 3600):
        high = low + 6 * 3600
        if shift(low) != shift(high):
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if shift(middle) == shift(low) else (low, middle)
            found.append(high * p.SECOND)
    return found


def aggregate(function: str, distinct: bool, argument: Any, parameter: Any, window: list[Occurrence]) -> Any:
    """`window` is in the order of (end, start, arrival). Missing values are passed over."""
    if argument is None:
        return len(window)
    there = [(evaluate(argument, o.values, (o.start, o.end)), o.end) for o in window]
    there = [(value, end) for value, end in there if value is not None]
    values = [value for value, _ in there]
    if distinct:
        values = list({key(value): value for value in values}.values())
    if function == "count":
        return len(values)
    if not values:
        return None
    if function in ("min", "max"):
        return (min if function == "min" else max)(values, key=key)
    if function in ("first", "last"):
        return values[0 if function == "first" else -1]
    if function == "mode":
        most = Counter(key(value) for value in values)
        return min((value for value in values if most[key(value)] == max(most.values())), key=key)
    if isinstance(values[0], p.Ticks):
        total = sum(value.n for value in values)
        return p.Ticks("duration", total if function == "sum" else round(Fraction(total, len(values))))
    if function == "sum":
        return finite(sum(values) if all(type(value) is int for value in values) else math.fsum(values))
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    if function == "avg":
        return float(mean)
    if function in ("median", "percentile"):
        place = (len(exact) - 1) * Fraction(50 if function == "median" else parameter) / 100
        low, share = sorted(exact)[math.floor(place)], place - math.floor(place)
        return float(low + (sorted(exact)[math.ceil(place)] - low) * share)
    times = [Fraction(end, p.SECOND) for _, end in there]
    if function == "rate":
        return float((exact[-1] - exact[0]) / (times[-1] - times[0])) if times[-1] > times[0] else None
    if function == "slope":
        middle = sum(times) / len(times)
        squares = sum((t - middle) ** 2 for t in times)
        products = sum((t - middle) * (x - mean) for t, x in zip(times, exact))
        return float(products / squares) if squares else None
    if function == "ewma":
        weights = [2.0 ** -float((times[-1] - t) * p.SECOND / parameter) for t in times]
        return math.fsum(w * float(x) for w, x in zip(weights, exact)) / math.fsum(weights)
    assert function == "stddev"
    return math.sqrt(sum((x - mean) ** 2 for x in exact) / (len(exact) - 1)) if len(exact) > 1 else None
