"""Applications of the kind that RTEC is made for, on synthetic streams.

The event descriptions in `applications/` exist in RTEC's language and in ours. Both must derive the same. The benchmark
measures both, from input columns to output columns. RTEC itself processes 38 to 160 thousand such rows per second, and
5 to 17 thousand rows of a fleet with wide windows. `contacts`, a cycle of fluents across keys, is not one of RTEC's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.measure import ONE_CORE
from benchmarks.streams import Batch, Stream, point_table
from benchmarks.table import Line, Target
from benchmarks.watch import Watch, peak_memory

FOLDER = Path(__file__).with_name("applications")
DIALECTS = {"rtec": ".prolog", "own": ".cep"}
ROWS, KEYS, PUSH = 500_000, 1000, 50_000
SECOND = 1_000_000
A_SECOND = 100
"""Rows per second of event time."""
AT_LEAST = 20 * 160_000
AT_LEAST_OF = {"fleet": 20 * 17_000, "contacts": 20_000}
"""The target rates of some applications.

In `contacts`, each row has its own instant, at which events of one person depend on events of others.
"""

Columns = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class Draws:
    """A source of random attributes for events at the times `seconds`."""

    seconds: np.ndarray[Any, Any]
    random: np.random.Generator
    keys: int

    def key(self, letter: str, count: int | None = None) -> np.ndarray[Any, Any]:
        """Return random names such as `v17`."""
        return named(letter, self.random.integers(0, count or self.keys, len(self.seconds)))

    def of(self, *words: str) -> np.ndarray[Any, Any]:
        return np.array(words, object)[self.random.integers(0, len(words), len(self.seconds))]

    def number(self, low: float, high: float) -> np.ndarray[Any, Any]:
        return np.round(self.random.uniform(low, high, len(self.seconds)), 1)


def named(letter: str, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.array([f"{letter}{number}" for number in numbers.tolist()], object)


Kinds = dict[str, tuple[int, Callable[[Draws], Columns]]]
"""The events of an application. Each is mapped to its relative frequency, and to a function that draws the event's
attributes in the order of the event description."""


def columns(**given: np.ndarray[Any, Any]) -> Columns:
    return given


def motion(draws: Draws) -> np.ndarray[Any, Any]:
    """Return random names of motions. Each minute has its own motions, as many as there are keys."""
    return named("m", draws.seconds // 60 * draws.keys + draws.random.integers(0, draws.keys, len(draws.seconds)))


def deal(draws: Draws) -> tuple[np.ndarray[Any, Any], ...]:
    """Return random merchants, each with a consumer and goods."""
    number = draws.random.integers(0, draws.keys, len(draws.seconds))
    return named("s", number % 20), named("c", number), named("g", number % 10)


def pair(draws: Draws, letter: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return random pairs of things that meet."""
    number = draws.random.integers(0, draws.keys, len(draws.seconds))
    return named(letter, number), named(letter, (number + 1 + number % 2) % draws.keys)


def by_agent(draws: Draws) -> Columns:
    return columns(agent=draws.key("a", 50), motion=motion(draws))


def of_deal(*order: int) -> Callable[[Draws], Columns]:
    def made(draws: Draws) -> Columns:
        parts = deal(draws)
        return {str(at): parts[at] for at in order}

    return made


def one(letter: str, *words: str) -> Callable[[Draws], Columns]:
    """Return a function that draws the attributes of an event: a thing and, if there are `words`, one of them."""
    return lambda draws: {"what": draws.key(letter), **({"word": draws.of(*words)} if words else {})}


def two(letter: str, low: float = 0, high: float = 0) -> Callable[[Draws], Columns]:
    def made(draws: Draws) -> Columns:
        left, right = pair(draws, letter)
        return {"left": left, "right": right, **({"number": draws.number(low, high)} if high else {})}

    return made


def stop(draws: Draws) -> Columns:
    return columns(bus=draws.key("b"), stop=draws.key("s", 100), how=draws.of("late", "early", "in_time"))


def area(draws: Draws) -> Columns:
    return columns(vessel=draws.key("v"), area=draws.key("r", 40))


def velocity(draws: Draws) -> Columns:
    return columns(
        vessel=draws.key("v"), speed=draws.number(0, 18), course=draws.number(0, 90), heading=draws.number(0, 90)
    )


@dataclass(frozen=True, slots=True)
class Application:
    """An event description, its events, and its facts for a number of keys.

    `together`: pairs (event, other), in which `event` only occurs at instants of `other`. `a_second`: rows per second
    of event time.
    """

    name: str
    kinds: Kinds
    facts: Callable[[int], dict[str, list[tuple[str | float, ...]]]] = lambda keys: {}
    together: tuple[tuple[str, str], ...] = ()
    a_second: float = A_SECOND

    def program(self, dialect: str) -> Path:
        return FOLDER / f"{self.name}{DIALECTS[dialect]}"

    def stream(self, rows: int, keys: int) -> Stream:
        """Return events in order of time. Their attributes are called `@n` by position."""
        random = np.random.default_rng(1)
        seconds = np.sort(random.integers(0, max(1, int(rows / self.a_second)), rows))
        weights = np.array([weight for weight, _ in self.kinds.values()], float)
        kind = random.choice(len(weights), rows, p=weights / weights.sum())
        tables: Batch = {}
        for number, (name, (_, made)) in enumerate(self.kinds.items()):
            own = seconds[kind == number]
            tables[name] = point_table(own * SECOND, made(Draws(own, random, keys)))
        for name, of in self.together:
            tables[name] = tables[of][::4].select("start", "end", pl.nth(2))
        return Stream(tables)

    def tables(self, keys: int) -> dict[str, pl.DataFrame]:
        """Return the facts as tables."""
        return {
            name: pl.DataFrame(rows, schema=[f"c{at}" for at in range(len(rows[0]))], orient="row")
            for name, rows in self.facts(keys).items()
        }


AREAS = ("near_ports", "near_coast", "fishing", "anchorage")
VESSELS = ("cargo", "fishing", "tug")

applications = {
    each.name: each
    for each in (
        Application(
            "voting",
            {
                "propose": (2, by_agent),
                "second": (2, by_agent),
                "vote": (10, lambda draws: {**by_agent(draws), "vote": draws.of("aye", "nay")}),
                "close_ballot": (2, lambda draws: columns(agent=draws.key("a", 10), motion=motion(draws))),
                "declare": (
                    2,
                    lambda draws: columns(
                        agent=draws.key("a", 10), motion=motion(draws), result=draws.of("carried", "not_carried")
                    ),
                ),
            },
            lambda keys: {"chair": [(f"a{number}",) for number in range(8)]},
        ),
        Application(
            "netbill",
            {
                "present_quote": (3, lambda draws: {**of_deal(0, 1, 2)(draws), "price": draws.number(9, 40)}),
                "accept_quote": (3, of_deal(1, 0, 2)),
                "send_goods": (2, of_deal(0, 1, 2)),
                "send_payment": (2, of_deal(1, 0, 2)),
            },
            lambda keys: {"price": [(f"g{number}", 9.0 + number / 10) for number in range(10)]},
        ),
        Application(
            "transport",
            {
                "stop_enter": (3, stop),
                "stop_leave": (3, stop),
                "temperature_change": (2, one("b", "very_warm", "warm", "normal", "cold")),
                "noise_change": (2, one("b", "high", "normal", "low")),
                "density_change": (2, one("b", "high", "normal", "low")),
                "turn_start": (2, one("b", "very_sharp", "sharp")),
                "turn_end": (2, one("b")),
                "brake_start": (2, one("b", "very_abrupt", "abrupt")),
                "brake_end": (2, one("b")),
            },
        ),
        Application(
            "surveillance",
            {
                "seen": (6, one("p", "walking", "running", "active", "inactive", "abrupt")),
                "gone": (1, one("p")),
                "distance": (6, two("p", 0, 50)),
            },
        ),
        Application(
            "maritime",
            {
                "velocity": (20, velocity),
                "enters_area": (3, area),
                "leaves_area": (3, area),
                "close_start": (1, two("v")),
                "close_end": (1, two("v")),
                **{
                    name: (1, one("v"))
                    for name in (
                        "gap_start", "gap_end", "stop_start", "stop_end", "slow_motion_start", "slow_motion_end",
                        "change_in_speed_start", "change_in_speed_end", "change_in_heading",
                    )
                },
            },
            lambda keys: {
                "area_type": [(f"r{number}", AREAS[number % 4]) for number in range(40)],
                "vessel_type": [(f"v{number}", VESSELS[number % 3]) for number in range(keys)],
            },
        ),
        Application(
            "fleet",
            {
                "speed": (10, lambda draws: columns(van=draws.key("f"), speed=draws.number(0, 130))),
                "fuel_level": (4, lambda draws: columns(van=draws.key("f"), level=draws.number(0, 80))),
                "ice_on_road": (1, one("f")),
                "no_ice_on_road": (1, one("f")),
                "abrupt": (4, one("f", "acceleration", "braking", "cornering")),
            },
            lambda keys: {
                "threshold": [
                    row
                    for number in range(keys)
                    for row in ((f"f{number}", "speed", 90.0), (f"f{number}", "fuel", 80.0))
                ]
            },
            together=(("close_to_gas", "fuel_level"),),
        ),
        Application(
            "contacts",
            {
                "meet": (20, lambda draws: columns(one=draws.key("p"), other=draws.key("p"))),
                "infect": (1, one("p")),
                "cure": (2, one("p")),
            },
            a_second=1,
        ),
    )
}  # fmt: skip


def engine_of(application: Application, dialect: str, keys: int) -> Any:
    from cep.engine import Engine

    path = application.program(dialect)
    options = {"dialect": "rtec"} if dialect == "rtec" else {}
    return Engine.from_text(path.read_text(), path.name, facts=application.tables(keys), **options)


def renamed(engine: Any, batch: Batch) -> Batch:
    """Rename the columns to the program's names. Raise KeyError if the program does not read an event."""
    out = {}
    for name, table in batch.items():
        every = (attribute.name for attribute in engine.inputs[name].attributes)
        names = (each for each in every if not each.startswith("@"))
        out[name] = table.rename(dict(zip(table.columns[2:], names, strict=True)))
    return out


def outcome(batches: list[Batch]) -> set[tuple[Any, ...]]:
    """Return the derived occurrences: type, start, end, bounds, arguments and value. The value `true` is left out."""
    rows: set[tuple[Any, ...]] = set()
    for batch in batches:
        for name, table in batch.items():
            arguments = [column for column in table.columns if column not in ("start", "end", "bounds")]
            for start, end, bounds, *values in table.select("start", "end", "bounds", *arguments).iter_rows():
                rows.add((name, start, end, bounds, *(value for value in values if value != "true")))
    return rows


def run(application: Application, dialect: str, rows: int, keys: int) -> dict[str, Any]:
    """Measure one dialect of an application."""
    stream = application.stream(rows, keys)
    for few in (application.stream(2000, keys),):
        engine = engine_of(application, dialect, keys)
        engine.push(renamed(engine, few.tables))
        engine.close()
    watch = Watch()
    out: list[Batch] = []
    while watch.wants_more():
        engine = engine_of(application, dialect, keys)
        batches = [renamed(engine, batch) for batch in stream.batches(PUSH)]
        out.clear()
        with watch:
            out += [engine.push(batch) for batch in batches]
            out.append(engine.close())
    derived = sum(table.height for batch in out for table in batch.values())
    count = sum(table.height for table in stream.tables.values())
    found = outcome(out)
    return {
        "seconds": watch.median, "rows": count, "derived": derived, "peak": peak_memory(), "sum": fingerprint(found)
    }  # fmt: skip


def fingerprint(found: set[tuple[Any, ...]]) -> str:
    """Return a hash of the derived occurrences, so that the results of two dialects can be compared."""
    import hashlib

    return hashlib.sha256("\n".join(sorted(map(repr, found))).encode()).hexdigest()


def lines(quick: bool, only: str) -> Iterator[Line]:
    """Yield the lines whose name contains `only`: rows per second for both dialects of each application."""
    for application in applications.values():
        if only not in f"application {application.name}":
            continue
        rows = ROWS // 10 if quick else ROWS
        sides = {dialect: _in_process(application.name, dialect, rows) for dialect in DIALECTS}
        same = Target("same", sides["rtec"]["sum"] == sides["own"]["sum"])
        least = AT_LEAST_OF.get(application.name, AT_LEAST)
        for dialect, found in sides.items():
            rate = found["rows"] / found["seconds"]
            yield Line(
                f"application {application.name}, {DIALECTS[dialect]}",
                rate,
                "rows/s",
                events=found["rows"],
                keys=KEYS,
                peak=found["peak"],
                derived=found["derived"],
                targets=(Target(f"{least / 1e6:.2g}M", rate >= least), same),
            )


def _in_process(name: str, dialect: str, rows: int) -> dict[str, Any]:
    print(f"application {name}, {DIALECTS[dialect]}", file=sys.stderr)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.applications", "--one", json.dumps([name, dialect, rows])],
        env={**os.environ, **ONE_CORE, "PYTHONHASHSEED": "0"},
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.applications", description=__doc__)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--only", metavar="NAME", default="", help="applications whose name holds this")
    options = parser.parse_args()
    if options.one:
        name, dialect, rows = json.loads(options.one)
        print(json.dumps(run(applications[name], dialect, rows, KEYS)))
        return
    from benchmarks.table import markdown

    print(markdown(list(lines(options.quick, options.only))))


if __name__ == "__main__":
    main()
