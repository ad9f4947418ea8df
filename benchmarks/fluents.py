"""Fluents, from input columns to output columns, compared with Python loops: transitions, and formulas over a million
intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from benchmarks import streams
from benchmarks.baselines import Baseline, arrivals
from benchmarks.streams import Row, Rows, Stream
from benchmarks.workload import K, M, Size, Workload, usual

MILLISECOND = 1000

Spans = list[tuple[int, int]]
"""Intervals of one key as codes, sorted and disjoint. Code 2t is microsecond t, 2t + 1 the time between t and t + 1."""

SIMPLE = """\
event up(id: int, x: int) TIME t.
event down(id: int, y: int) TIME t.
fluent on(id: int).
initiate on(I) <- up(I, _).
terminate on(I) <- down(I, _).
"""


def simple_loop(events: Rows) -> list[Row]:
    """Return the intervals of each id. If a begin and an end are at the same instant, the end has precedence. An open
    interval has no end."""
    since: dict[int, int] = {}
    out: list[Row] = []
    ends = {(time, key) for _, time, key, _ in events["down"]}
    for name, time, key, _ in arrivals(events["down"], events["up"]):
        if name == "down":
            if key in since:
                start = since.pop(key)
                out.append(("on", start, time, key))
        elif key not in since and (time, key) not in ends:
            since[key] = time
    return [*out, *(("on", start, 0, key) for key, start in since.items())]


@dataclass(frozen=True, slots=True)
class Intervals(Stream):
    """Closed intervals of fluents, disjoint for each key, sorted by start."""

    def rows(self) -> Rows:
        return {name: [(name, *row) for row in table.iter_rows()] for name, table in self.tables.items()}


def intervals(names: str, count: int, keys: int) -> Intervals:
    """Return `count` intervals over all `names`.

    For each key, an interval begins about every `2 * keys` milliseconds. Its mean length is a quarter of this time.
    """
    random = np.random.default_rng(1)
    tables = {}
    for name in names.split():
        each = count // len(names.split())
        start = np.cumsum(random.integers(1, 4 * MILLISECOND, each))
        table = pl.DataFrame({"start": start, "id": random.integers(0, keys, each)})
        length = random.integers(0, keys * MILLISECOND, each)
        later = pl.col("start").shift(-1).over("id") - 1
        table = table.with_columns(end=pl.min_horizontal(pl.col("start") + length, later.fill_null(1 << 60)))
        tables[name] = table.filter(pl.col("end") >= pl.col("start")).select("start", "end", "id")
    return Intervals(tables)


def reach(keys: int) -> int:
    """Return the range of a formula in microseconds: half the mean length of an interval."""
    return keys * MILLISECOND // 4


def by_key(rows: Iterable[Row]) -> dict[int, Spans]:
    """Return the intervals of each key as codes."""
    out: dict[int, Spans] = defaultdict(list)
    for _, start, end, key in rows:
        out[key].append((2 * start, 2 * end))
    return out


def merged(spans: Iterable[tuple[int, int]]) -> Spans:
    """Merge sorted intervals into maximal ones."""
    out: Spans = []
    for start, end in spans:
        if out and start <= out[-1][1] + 1:
            if end > out[-1][1]:
                out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return out


def both(p: Spans, q: Spans) -> Spans:
    out: Spans = []
    i = j = 0
    while i < len(p) and j < len(q):
        start, end = max(p[i][0], q[j][0]), min(p[i][1], q[j][1])
        if start <= end:
            out.append((start, end))
        if p[i][1] < q[j][1]:
            i += 1
        else:
            j += 1
    return out


def but_not(p: Spans, q: Spans) -> Spans:
    out: Spans = []
    j = 0
    for start, end in p:
        while j < len(q) and q[j][1] < start:
            j += 1
        at = j
        while at < len(q) and q[at][0] <= end:
            if start < q[at][0]:
                out.append((start, q[at][0] - 1))
            start = q[at][1] + 1
            at += 1
        if start <= end:
            out.append((start, end))
    return out


def since(p: Spans, q: Spans, far: int) -> Spans:
    """Return the times at which q holds, and the later times up to which p has held since then, at most `far` later."""
    out: Spans = []
    i = 0
    for start, end in q:
        while i < len(p) and p[i][1] <= end:
            i += 1
        on = i < len(p) and p[i][0] <= end + 1
        out.append((start, min(p[i][1], end + far) if on else end))
    return merged(out)


def of_one(function: Callable[[Spans, int], Spans]) -> Callable[[int], Baseline]:
    """Return a function from the number of keys to the Python loop of a formula over one fluent. `function` evaluates
    the formula for one key."""

    def loop(keys: int) -> Baseline:
        far = 2 * reach(keys)

        def run(events: Rows) -> list[Row]:
            held = by_key(events["p"])
            return rows_of(events, ((key, function(spans, far)) for key, spans in held.items()))

        return run

    return loop


def of_two(function: Callable[[Spans, Spans, int], Spans]) -> Callable[[int], Baseline]:
    """Return a function from the number of keys to the Python loop of a formula over two fluents. `function` evaluates
    the formula for one key."""

    def loop(keys: int) -> Baseline:
        far = 2 * reach(keys)

        def run(events: Rows) -> list[Row]:
            left, right = by_key(events["p"]), by_key(events["q"])
            ids = dict.fromkeys((*left, *right))
            return rows_of(events, ((key, function(left.get(key, []), right.get(key, []), far)) for key in ids))

        return run

    return loop


def rows_of(events: Rows, found: Iterable[tuple[int, Spans]]) -> list[Row]:
    """Return the input, and the results as rows like those of the engine, but without bounds.

    An end between two microseconds becomes the next microsecond, like the open end of an interval.
    """
    out: list[Row] = [row for rows in events.values() for row in rows]
    out += [("h", start >> 1, (end + 1) >> 1, key) for key, spans in found for start, end in spans]
    return out


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula over `p` and `q`, in which DURATION stands for the formula's range, and the Python loop that evaluates
    the same formula."""

    name: str
    text: str
    rate: float
    loop: Callable[[int], Baseline]

    @property
    def inputs(self) -> str:
        return "p q" if "q(I)" in self.text else "p"

    def program(self, keys: int) -> str:
        declared = "".join(f"fluent {name}(id: int) START start END end.\n" for name in self.inputs.split())
        text = self.text.replace("DURATION", f"{reach(keys) // MILLISECOND} ms")
        return f"{declared}fluent h(id: int).\nh(I) WHILE {text}.\n"

    @property
    def workload(self) -> Workload:
        return Workload(
            f"fluent {self.name}",
            self.program,
            lambda count, keys: intervals(self.inputs, count, keys),
            self.loop,
            rate=self.rate,
            times=None,
            sizes=SIZES,
        )


SIZES: tuple[Size, ...] = ((20 * K, 100), (M, 100), (M, 100 * K))

FORMULAS = (
    Formula("AND", "p(I) AND q(I)", 5 * M, of_two(lambda p, q, far: both(p, q))),
    Formula("OR", "p(I) OR q(I)", 5 * M, of_two(lambda p, q, far: merged(sorted(p + q)))),
    Formula("AND NOT", "p(I) AND NOT q(I)", 5 * M, of_two(lambda p, q, far: but_not(p, q))),
    Formula("ONCE", "ONCE[0, DURATION] p(I)", 3 * M, of_one(lambda p, far: merged((a, b + far) for a, b in p))),
    Formula(
        "HISTORICALLY",
        "HISTORICALLY[0, DURATION] p(I)",
        3 * M,
        of_one(lambda p, far: [(a + far, b) for a, b in p if a + far <= b]),
    ),
    Formula("SINCE", "p(I) SINCE[0, DURATION] q(I)", 3 * M, of_two(since)),
    Formula("LASTING", "p(I) LASTING >= DURATION", 3 * M, of_one(lambda p, far: [s for s in p if s[1] - s[0] >= far])),
    Formula(
        "EVENTUALLY", "EVENTUALLY[0, DURATION] p(I)", 3 * M, of_one(lambda p, far: merged((a - far, b) for a, b in p))
    ),
)


def ups_and_downs(events: int, keys: int) -> Stream:
    """Return a thousand events per second with random ids, `up` and `down` equally often."""
    return streams.mixed({"up": "x", "down": "y"}, events, keys, seed=1)


listed: tuple[Workload, ...] = (
    Workload("fluent", lambda keys: SIMPLE, ups_and_downs, lambda keys: simple_loop, rate=5 * M, times=None),
    *(
        Workload(
            f"fluent, pushes of {size:,}",
            lambda keys: SIMPLE,
            ups_and_downs,
            times=None,
            flat=False,
            sizes=usual[1:],
            push=size,
        )
        for size in (K, 100 * K)
    ),
    *(each.workload for each in FORMULAS),
)
