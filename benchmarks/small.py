"""`python -m benchmarks.small`: small pushes and many rules in CPU microseconds, compared with a plain Python loop.
With `--curve`, print the cost of an event by the number of types or rules.

The loop has a deque for each pair of a rule and a room, and tries each rule of an event's type, like typical
hand-written code.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from time import process_time
from typing import TYPE_CHECKING

from benchmarks.measure import ONE_CORE
from benchmarks.report import ROOT, parser, publish

if TYPE_CHECKING:
    import polars as pl

Reading = tuple[str, int, float, int]
"""Type, room, temperature, microseconds."""
Rule = tuple[str, float, float, int | None]
"""A rule: the type, the upper bound of the first temperature (unused if the rule reads one event), the lower bound of
the second temperature, and the room (None if the rule applies to all rooms)."""
WITHIN, ROOMS, LARGE = 10_000_000, 100, 50_000


@dataclass(frozen=True, slots=True)
class Case:
    """A case. `push`: the events per push. `each`: True to report the time per event, False per push. `to_reach`: the
    target in microseconds."""

    name: str
    rules: Sequence[Rule]
    push: int
    pushes: int
    each: bool
    to_reach: float
    first: bool = True
    """True if the rules join two events, False if each rule compares one event with a temperature."""

    @property
    def text(self) -> str:
        types = dict.fromkeys(type for type, _, _, _ in self.rules)
        lines = [f"event {type}(room: int, temp: float) TIME time.\n" for type in types]
        for number, (type, low, high, room) in enumerate(self.rules):
            where = "R" if room is None else room
            if self.first:
                body = f"({type}(R, A) SEQ {type}(R, B) WHERE A < {low}, B > {high}) WITHIN 10 s"
                lines.append(f"rise{number}(R, A, B) <- {body}.\n")
            else:
                lines.append(f"hot{number}(T) <- {type}({where}, T) WHERE T > {high}.\n")
        return "".join(lines)

    def readings(self) -> list[Reading]:
        random, types = Random(1), sorted({type for type, _, _, _ in self.rules})
        rooms = max([ROOMS, *(1 + room for _, _, _, room in self.rules if room is not None)])
        return [
            (random.choice(types), random.randrange(rooms), 100 * random.random(), 100_000 * number)
            for number in range(self.push * (self.pushes + 1))
        ]


def _rises(count: int, type: Callable[[int], str]) -> list[Rule]:
    return [(type(number), 1 + number / count, 98 + number / count, None) for number in range(count)]


def _hot(count: int, equal: bool) -> list[Rule]:
    return [("reading", 0, 50 if equal else 99 + number / count, number if equal else None) for number in range(count)]


def one(number: int) -> str:
    """Return the event type that all rules of a case use."""
    return "reading"


CASES = (
    Case("one event pushed, one rule", _rises(1, one), 1, 2_000, False, 40),
    Case("one event pushed, 100 rules", _rises(100, one), 1, 300, False, 400),
    Case("a hundred events pushed, one rule", _rises(1, one), 100, 200, False, 150),
    Case("per event, 50,000 events of one type in one push", _rises(1, one), LARGE, 3, True, 0.2),
    Case("per event, 50,000 events of 1,000 types in one push", _rises(1_000, "reading{}".format), LARGE, 3, True, 0.2),
    Case("per event of 50,000, 1,000 rules `value > constant`", _hot(1_000, False), LARGE, 3, True, 3, False),
    Case("per event of 50,000, 1,000 rules `value = constant`", _hot(1_000, True), LARGE, 3, True, 3, False),
    Case("per event of 50,000, 1,000 SEQ rules with two constants", _rises(1_000, one), LARGE, 3, True, 3),
    Case("one event pushed, 1,000 rules", _hot(1_000, False), 1, 300, False, 400, False),
)


CURVE = tuple(
    Case(f"{count:,} {word}{'s' * (count > 1)}", _rises(count, type), push, pushes, True, 0)
    for word, type in (("type", "reading{}".format), ("rule", one))
    for count in (1, 10, 100, 1_000)
    for push, pushes in ((1, 200), (100, 50), (LARGE, 3), (1_000_000, 1))
)
"""Cases for the cost of an event by the number of types or rules and the size of a push. Each type has one rule."""


def pushes(case: Case) -> list[list[Reading]]:
    """Return the readings of each push."""
    readings = case.readings()
    return [readings[start : start + case.push] for start in range(0, len(readings), case.push)]


def engine(case: Case) -> tuple[list[float], int]:
    """Return the seconds of each push except the first, and the number of derived events."""
    from cep.engine import Engine
    from cep.events import Event

    made = Engine.from_text(case.text)
    batches: list[dict[str, pl.DataFrame] | list[Event]] = []
    for each in pushes(case):
        if case.each:
            batches.append(_tables(each))
        else:
            batches.append([Event(type, (room, value), time, time) for type, room, value, time in each])
    seconds, derived = [], 0
    for batch in batches:
        began = process_time()
        tables = made.push(batch)
        seconds.append(process_time() - began)
        derived += sum(table.height for table in tables.values())
    return seconds[1:], derived + sum(table.height for table in made.close().values())


def _tables(readings: Sequence[Reading]) -> dict[str, pl.DataFrame]:
    import polars as pl

    columns = {"type": pl.String, "room": pl.Int64, "temp": pl.Float64, "time": pl.Int64}
    whole = pl.DataFrame(readings, columns, orient="row")
    return {str(name): table.drop("type") for (name,), table in whole.partition_by("type", as_dict=True).items()}


def loop(case: Case) -> tuple[list[float], int]:
    """Run a case in a Python loop. Return the seconds of each push except the first, and the number of derived
    events."""
    rules: defaultdict[str, list[tuple[float, float, int | None, defaultdict[int, deque[int]]]]] = defaultdict(list)
    for type, low, high, room in case.rules:
        rules[type].append((low, high, room, defaultdict(deque)))
    seconds, derived = [], 0
    for batch in pushes(case):
        began = process_time()
        for type, place, value, time in batch:
            for low, high, room, waiting in rules[type]:
                if not case.first:
                    derived += value > high and (room is None or room == place)
                    continue
                if value > high and place in waiting:
                    starts = waiting[place]
                    while starts and starts[0] < time - WITHIN:
                        starts.popleft()
                    derived += len(starts)
                if value < low:
                    waiting[place].append(time)
        seconds.append(process_time() - began)
    return seconds[1:], derived


def measure(number: int) -> None:
    """Measure one case and print its cells of the table or of the curve. This runs in the child process."""
    case = (*CASES, *CURVE)[number]
    ours, derived = engine(case)
    unit = 1e6 / (case.push if case.each else 1)
    mine = sorted(ours)[len(ours) // 2] * unit
    if number >= len(CASES):
        print(f"{mine:,.2f}")
        return
    theirs, same = loop(case)
    assert derived == same, f"{derived:,} events are derived, and {same:,} by the loop"
    late, other = sorted(ours)[99 * len(ours) // 100] * unit, sorted(theirs)[len(theirs) // 2] * unit
    aim = f"{case.to_reach:g}" if case.to_reach else ""
    print(f"{case.name} | {mine:,.2f} | {late:,.2f} | {other:,.2f} | {aim}")


def cells(number: int) -> str:
    """Measure a case in a separate process with one thread per library. Return its cells of the table."""
    command = [sys.executable, "-m", "benchmarks.small", "--case", str(number)]
    ran = subprocess.run(
        command, env={**os.environ, **ONE_CORE}, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return ran.stdout.strip()


def table(only: str) -> Iterator[str]:
    """Yield the table of cases."""
    yield "| | median | 99th percentile | a Python loop | aim |"
    yield "| --- | --: | --: | --: | --: |"
    for number, case in enumerate(CASES):
        if only in case.name:
            yield f"| {cells(number)} |"


def curve(only: str) -> Iterator[str]:
    """Yield the table of curves: a row for each number of types or rules, a column for each size of a push."""
    sizes = list(dict.fromkeys(case.push for case in CURVE))
    yield f"| | {' | '.join(f'pushes of {size:,}' for size in sizes)} |"
    yield f"| --- |{' --: |' * len(sizes)}"
    for first in range(0, len(CURVE), len(sizes)):
        if only in (name := CURVE[first].name):
            yield f"| {name} | {' | '.join(cells(len(CASES) + first + at) for at in range(len(sizes)))} |"


def main() -> None:
    options = parser("benchmarks.small", __doc__)
    options.add_argument("--only", default="", help="cases whose name holds this")
    options.add_argument("--case", type=int, help=argparse.SUPPRESS)
    options.add_argument("--curve", action="store_true", help="the cost of an event with 1 to 1,000 types or rules")
    asked = options.parse_args()
    if asked.case is not None:
        measure(asked.case)
    elif asked.curve:
        for line in curve(asked.only):
            print(line, flush=True)
    else:
        publish("small pushes", "python -m benchmarks.small", table(asked.only), asked.write)


if __name__ == "__main__":
    main()
