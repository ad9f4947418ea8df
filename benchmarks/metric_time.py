"""Programs of DatalogMTL: facts per second, and the number of stored intervals as the facts become more dense.

MeTeoR-Str processes 0.8 thousand facts per second of ShortStop, 0.8 thousand of the recursive LUBM and 3.6 thousand of
the non-recursive one. The university programs here resemble LUBM, but are not the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl

from benchmarks.applications import FOLDER, SECOND, named, renamed
from benchmarks.streams import Batch, Stream, point_table
from benchmarks.table import Line, Target
from benchmarks.watch import Watch, peak_memory

FACTS, PUSH = 500_000, 50_000
EVERY = (1_000_000, 100_000, 10_000)
HELD = """\
event p(id: int) TIME t.
fluent kept(id: int).
kept(I) WHILE HISTORICALLY[0, 2 s] ONCE[0, 2 s] p(I).
"""
KEPT_KEYS, KEPT_SECONDS = 100, 30


def facts(name: str, start: Any, end: Any, **columns: Any) -> Batch:
    """Return a table of closed intervals of a fluent, sorted by start."""
    return {name: point_table(start, columns).with_columns(end=pl.Series(end))}


def stops(count: int) -> Stream:
    """Return a stream of a thousand vehicles. Each second, each of them stands, moves, or is not on the map."""
    random = np.random.default_rng(1)
    time, who = np.divmod(np.arange(count), 1000)
    kind = random.choice(3, count, p=(0.4, 0.5, 0.1))
    tables: Batch = {}
    for number, name in enumerate(("SpeedZero", "SpeedNonZero", "NotOnMap")):
        own = time[kind == number] * SECOND
        tables |= facts(name, own, own, who=named("v", who[kind == number]))
    return Stream(tables)


def teaching(random: np.random.Generator, count: int) -> Batch:
    start = np.sort(random.integers(0, count // 100 + 1, count)) * SECOND
    return facts(
        "Teaches", start, start + random.integers(0, 3, count) * SECOND,
        who=named("x", random.integers(0, 1000, count)), what=named("c", random.integers(0, 5000, count)),
    )  # fmt: skip


def working(random: np.random.Generator, name: str, count: int, span: int) -> Batch:
    start = np.sort(random.integers(0, span, count)) * SECOND
    return facts(
        name, start, start + random.integers(1, 60, count) * SECOND,
        who=named("x", random.integers(0, 1000, count)), where=named("d", random.integers(0, 100, count)),
    )  # fmt: skip


def university(count: int) -> Stream:
    random = np.random.default_rng(1)
    teaches, span = teaching(random, count * 8 // 10), count // 100 + 1
    works = {name: table for each in ("Lecturer", "Professor") for name, table in working(
        random, each, count // 10, span).items()}  # fmt: skip
    return Stream({**teaches, **works})


def university_recursive(count: int) -> Stream:
    """Return the input of the recursive program. Departments form a tree with three children each, at all times."""
    random = np.random.default_rng(1)
    part = np.arange(1, 100)
    tree = facts(
        "PartOf", np.zeros(99, np.int64), np.full(99, (count // 100 + 60) * SECOND),
        part=named("d", part), whole=named("d", part // 3),
    )  # fmt: skip
    return Stream({**tree, **teaching(random, count // 2), **working(random, "Works", count // 2, count // 100 + 1)})


PROGRAMS: dict[str, tuple[Callable[[int], Stream], int, int]] = {
    "short_stop": (stops, FACTS, 1_000_000),
    "university": (university, FACTS, 360_000),
    "university_recursive": (university_recursive, FACTS // 50, 80_000),
}
"""The programs. Each is mapped to the function that creates its facts, their number, and the target rate per second."""


def engine_of(name: str) -> Any:
    from cep.engine import Engine

    return Engine.from_text((FOLDER / f"{name}.dmtl").read_text(), f"{name}.dmtl", dialect="datalogmtl")


def run(name: str, count: int) -> Line:
    """Measure facts per second of CPU time, pushed in batches."""
    made, _, least = PROGRAMS[name]
    warm = engine_of(name)
    warm.push(renamed(warm, made(2000).tables))
    warm.close()
    stream = made(count)
    watch, out = Watch(), []
    while watch.wants_more():
        engine = engine_of(name)
        batches = [renamed(engine, batch) for batch in stream.batches(PUSH)]
        with watch:
            out = [engine.push(batch) for batch in batches]
            out.append(engine.close())
    rate = count / watch.median
    derived = sum(table.height for batch in out for table in batch.values())
    target = Target(f"{least / 1e6:.2g}M", rate >= least)
    assert derived, f"nothing is derived of {count} facts"
    return Line(f"DatalogMTL {name}", rate, "facts/s", count, peak=peak_memory(), derived=derived, targets=(target,))


def kept(every: int) -> tuple[int, int]:
    """Return the rows and bytes of state after P has occurred every `every` microseconds for each of KEPT_KEYS keys."""
    from cep.engine import Engine

    times = np.repeat(np.arange(0, KEPT_SECONDS * SECOND, every), KEPT_KEYS)
    ids = np.tile(np.arange(KEPT_KEYS), len(times) // KEPT_KEYS)
    engine = Engine.from_text(HELD)
    for batch in Stream({"p": point_table(times, {"id": ids})}).batches(1000):
        engine.push(batch)
    return engine.state_rows, engine.state_bytes


def lines(quick: bool, only: str) -> Iterator[Line]:
    """Yield the lines whose name contains `only`."""
    for name, (_, count, _) in PROGRAMS.items():
        if only in f"DatalogMTL {name}":
            print(f"DatalogMTL {name}", file=sys.stderr)
            yield run(name, count // 10 if quick else count)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metric_time", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the facts")
    parser.add_argument("--only", metavar="NAME", default="", help="programs whose name holds this")
    options = parser.parse_args()
    from benchmarks.table import markdown

    print(markdown(list(lines(options.quick, options.only))))
    print(f"\n{HELD}\np of each of {KEPT_KEYS} keys every .. s for {KEPT_SECONDS} s: rows of state, bytes")
    for every in EVERY:
        print(f"{every / SECOND:g}: {', '.join(map(str, kept(every)))}")


if __name__ == "__main__":
    main()
