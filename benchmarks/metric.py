"""Temporal operators over intervals of many tuples, from columns to columns, compared with Python loops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import ONE_CORE
from benchmarks.table import Line, Target
from benchmarks.watch import Watch, peak_memory

ROOT = Path(__file__).parent.parent
M = 1_000_000
KEYS = (100, 100_000)
RATE = 3 * M
STEPS = 10
NAMES = ("ONCE", "HISTORICALLY", "SINCE", "LASTING")

Edge = tuple[int, int, int]
"""A beginning or end of an interval: its key, its code, and 1 for a beginning or 0 for an end."""
Sums = tuple[int, int]
"""The number of resulting intervals, and the sum of their ends."""


def lines(quick: bool, only: str) -> Iterator[Line]:
    """Yield the lines whose name contains `only`: intervals of all inputs per second."""
    for name in NAMES:
        if only not in name.lower():
            continue
        for keys in KEYS[:1] if quick else KEYS:
            intervals = M // 5 if quick else M
            ours, loop = (_in_process(side, name, intervals, keys) for side in ("ours", "loop"))
            targets = [Target("3M", ours["intervals"] / ours["seconds"] >= RATE)]
            if ours["sums"] != loop["sums"]:
                targets.append(Target("same", False))
            yield Line(
                f"{name}, intervals",
                ours["intervals"] / ours["seconds"],
                "intervals/s",
                events=ours["intervals"],
                keys=keys,
                loop=loop["intervals"] / loop["seconds"],
                peak=ours["peak"],
                derived=ours["sums"][0],
                targets=tuple(targets),
            )


def _in_process(side: str, name: str, intervals: int, keys: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.metric", side, name, str(intervals), str(keys)],
        env={**os.environ, **ONE_CORE, "PYTHONHASHSEED": "0"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def inputs(name: str, intervals: int, keys: int) -> list[Any]:
    """Return changes. Each key has intervals that last a quarter of the time to the next one on average."""
    from benchmarks.intervals import changes_of
    from cep.core.interval_sets import coalesce

    made = []
    for seed in range(2 if name == "SINCE" else 1):
        rng = np.random.default_rng(seed)
        start = 2 * rng.integers(0, 1000 * intervals, intervals)
        length = 2 * rng.integers(0, 500 * keys, intervals)
        made.append(changes_of(coalesce(rng.integers(0, keys, intervals), start, start + length)))
    return made


def least(keys: int) -> int:
    """Return the range of the operators: about half the time to the next interval."""
    return 500 * keys


def stepped(name: str, given: list[Any], keys: int) -> list[Any]:
    """Return the output of an operator that processes its input in STEPS steps."""
    from cep.core.interval_sets import INFINITE, reach
    from cep.operators.goals.fluents.changes import Changes
    from cep.operators.goals.fluents.temporal_evaluation import TemporalEvaluation

    metric = TemporalEvaluation(name, reach(0, least(keys)), least(keys) // 4)
    last = max(int(each.code.max()) for each in given)
    cuts = [*(last // STEPS * n for n in range(1, STEPS)), INFINITE]
    places = [[0, *np.searchsorted(each.code, cuts, side="right").tolist()] for each in given]
    return [
        metric.step([Changes(*(c[p[n] : p[n + 1]] for c in each)) for each, p in zip(given, places)], cut)[0]
        for n, cut in enumerate(cuts)
    ]


def sums(made: list[Any]) -> Sums:
    from benchmarks.intervals import intervals_of
    from cep.operators.goals.fluents.changes import Changes

    held = intervals_of(Changes(*(np.concatenate(columns) for columns in zip(*made, strict=True))))
    return len(held.key), int(held.start.sum() + held.end.sum())


def ours(name: str, intervals: int, keys: int) -> dict[str, Any]:
    """Measure our operator on columns."""
    stepped(name, inputs(name, 2000, keys), keys)
    given = inputs(name, intervals, keys)
    watch = Watch()
    while watch.wants_more():
        with watch:
            made = stepped(name, given, keys)
    return {"seconds": watch.median, "intervals": count(given), "peak": peak_memory(), "sums": sums(made)}


def count(given: list[Any]) -> int:
    return sum(int(each.begins.sum()) for each in given)


def loop(name: str, intervals: int, keys: int) -> dict[str, Any]:
    """Measure the loop on the same input as tuples, sorted by time."""
    given = inputs(name, intervals, keys)
    rows = as_rows(given)
    watch = Watch()
    while watch.wants_more():
        with watch:
            made = looped(name, rows, keys)
    return {"seconds": watch.median, "intervals": count(given), "sums": sums_of(made)}


def as_rows(given: list[Any]) -> list[list[Edge]]:
    return [list(zip(*(column.tolist() for column in each), strict=True)) for each in given]


def sums_of(made: list[Edge]) -> Sums:
    return len(made), sum(row[1] + row[2] for row in made)


def looped(name: str, rows: list[list[Edge]], keys: int) -> list[Edge]:
    """Return the loop's result as (key, first code, last code)."""
    run: Callable[..., list[Edge]] = {"ONCE": once, "HISTORICALLY": box, "SINCE": since, "LASTING": lasting}[name]
    return run(*rows, 2 * (least(keys) // 4 if name == "LASTING" else least(keys)))


def once(edges: list[Edge], reach: int) -> list[Edge]:
    held: dict[int, list[int]] = {}
    out: list[Edge] = []
    for key, code, begins in edges:
        now = held.get(key)
        if not begins:
            held[key][1] = code - 1 + reach
        elif now is None or now[1] + 1 < code:
            if now is not None:
                out.append((key, *now))  # type: ignore[arg-type]
            held[key] = [code, code]
    return [*out, *((key, *now) for key, now in held.items())]  # type: ignore[list-item]


def box(edges: list[Edge], reach: int) -> list[Edge]:
    begun: dict[int, int] = {}
    out: list[Edge] = []
    for key, code, begins in edges:
        if begins:
            begun[key] = code + reach
        elif begun[key] < code:
            out.append((key, begun[key], code - 1))
    return out


def lasting(edges: list[Edge], least: int) -> list[Edge]:
    begun: dict[int, int] = {}
    out: list[Edge] = []
    for key, code, begins in edges:
        if begins:
            begun[key] = code
        elif code - 1 - begun[key] >= least:
            out.append((key, begun[key], code - 1))
    return out


def since(lefts: list[Edge], rights: list[Edge], reach: int) -> list[Edge]:
    """Return the intervals of SINCE. At equal codes, beginnings of the right side and ends of the left come first."""
    held: dict[int, list[int]] = {}
    left: set[int] = set()
    right: set[int] = set()
    out: list[Edge] = []
    both = [(code, begins, key, 0, begins) for key, code, begins in lefts]
    both += [(code, 1 - begins, key, 1, begins) for key, code, begins in rights]
    for code, _, key, side, begins in sorted(both):
        now = held.get(key)
        if side == 0:
            if begins:
                left.add(key)
            else:
                left.discard(key)
                if now is not None and key not in right:
                    now[1] = min(now[1], code - 1)
        elif begins:
            right.add(key)
            if now is None or now[1] + 1 < code:
                if now is not None:
                    out.append((key, *now))  # type: ignore[arg-type]
                held[key] = [code, code]
        else:
            right.discard(key)
            if now is not None:
                now[1] = code - 1 + (reach if key in left else 0)
    return [*out, *((key, *now) for key, now in held.items())]  # type: ignore[list-item]


if __name__ == "__main__":
    side, name, intervals, keys = sys.argv[1:]
    print(json.dumps({"ours": ours, "loop": loop}[side](name, int(intervals), int(keys))))
