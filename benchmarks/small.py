"""`python -m benchmarks.small`: small pushes and many rules in CPU microseconds, compared with a plain Python loop.
With `--curve`, the cost of an event by the number of types or rules.

The loop has a deque per rule and room, and tries each rule of an event's type, like typical hand-written code.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import process_time
from typing import TYPE_CHECKING

from benchmarks.measure import ONE_CORE

if TYPE_CHECKING:
    import polars as pl

Reading = tuple[str, int, float, int]
"""Type, room, temperature, microseconds."""
Rule = tuple[str, float, float, int | None]
"""Type, upper bound of the first temperature (if there is one), lower bound of the second, and the room if it is
fixed."""
WITHIN, ROOMS, LARGE = 10_000_000, 100, 50_000


@dataclass(frozen=True, slots=True)
class Case:
    """A case. `push`: events per push. `each`: report the time per event rather than per push. `to_reach`: the target
    in microseconds."""

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
    Case("an event of one type", _rises(1, one), LARGE, 3, True, 0.2),
    Case("an event of one of 1,000 types", _rises(1_000, "reading{}".format), LARGE, 3, True, 0.2),
    Case("1,000 rules, above a constant", _hot(1_000, False), LARGE, 3, True, 3, False),
    Case("1,000 rules, equal to a constant", _hot(1_000, True), LARGE, 3, True, 3, False),
    Case("1,000 rules, two constants and SEQ", _rises(1_000, one), LARGE, 3, True, 3),
    Case("one event pushed, 1,000 rules", _hot(1_000, False), 1, 300, False, 400, False),
)


CURVE = tuple(
    Case(f"{count:,} {word}", _rises(count, type), push, pushes, True, 0)
    for word, type in (("types", "reading{}".format), ("rules", one))
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
    """Measure one case and print a line, or a cell of the curve. This runs in the child process."""
    if number >= len(CASES):
        case = CURVE[number - len(CASES)]
        seconds, _ = engine(case)
        print(f"{sorted(seconds)[len(seconds) // 2] * 1e6 / case.push:>12,.2f}", end="", flush=True)
        return
    case = CASES[number]
    (ours, derived), (theirs, same) = engine(case), loop(case)
    assert derived == same, f"{derived:,} events are derived, and {same:,} by the loop"
    unit = 1e6 / (case.push if case.each else 1)
    mine, other = (sorted(seconds)[len(seconds) // 2] * unit for seconds in (ours, theirs))
    late = sorted(ours)[99 * len(ours) // 100] * unit
    reached = "" if mine <= case.to_reach else f"   above {case.to_reach:g}"
    print(f"{case.name:36} {mine:>10,.2f} {late:>10,.2f} {other:>12,.2f}{reached}", flush=True)


def main() -> None:
    """Measure each case in a process with one thread per library."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.small", description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--curve", action="store_true", help="the cost of an event with 1 to 1,000 types or rules")
    given = parser.parse_args()
    if given.case is not None:
        measure(given.case)
        return
    if given.curve:
        sizes = "".join(f"{push:>12,}" for push in dict.fromkeys(case.push for case in CURVE))
        print(f"{'microseconds per event, push of':32}{sizes}", end="")
    else:
        print(f"{'microseconds':36} {'median':>10} {'99 of 100':>10} {'Python loop':>12}", flush=True)
    for number, case in enumerate((*CASES, *CURVE)):
        if given.curve == (number >= len(CASES)) and given.only in case.name:
            if given.curve and case.push == CURVE[0].push:
                print(f"\n{case.name:32}", end="", flush=True)
            command = [sys.executable, "-m", "benchmarks.small", "--case", str(number)]
            subprocess.run(command, env={**os.environ, **ONE_CORE}, cwd=Path(__file__).parent.parent, check=True)


if __name__ == "__main__":
    main()
