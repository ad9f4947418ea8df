"""What is measured of fluents is right: the Python loops, the engine and time gone through point by point agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from benchmarks import fluents
from benchmarks.streams import Batch, Row
from benchmarks.workload import Workload
from cep.engine import Engine

SMALL = [
    pytest.param(workload, keys, id=f"{workload.name}-{keys}")
    for workload in fluents.listed
    if workload.loop
    for keys in (4, 20)
]


def looped(workload: Workload, keys: int, count: int = 400) -> list[Row]:
    assert workload.loop
    return sorted(workload.loop(keys)(workload.stream(count, keys).rows()))


def rows(batches: list[Batch]) -> Iterator[Row]:
    """An end that is not known is 0, as in the loops."""
    for batch in batches:
        for name, table in batch.items():
            yield from ((name, start, end or 0, key) for start, end, key in table["start", "end", "id"].iter_rows())


@pytest.mark.parametrize("workload, keys", SMALL)
@pytest.mark.parametrize("push", [None, 37])
def test_the_engine_derives_what_the_loop_does(workload: Workload, keys: int, push: int | None) -> None:
    stream = workload.stream(400, keys)
    engine = Engine.from_text(workload.program(keys))
    out = [engine.push(batch) for batch in (stream.batches(push) if push else [stream.tables])]
    out.append(engine.close())
    found = sorted(rows(out))
    assert found == looped(workload, keys)
    assert len({row for row in found if row[0] in ("on", "h")}) > 50, "too little is derived to tell"


P: fluents.Spans = [(4, 8), (12, 14), (18, 22), (30, 34)]
Q: fluents.Spans = [(0, 6), (8, 8), (16, 18), (20, 32), (36, 40)]
"""Closed intervals in codes: an even one is a microsecond, an odd one the time after it."""
FAR = 6


def points(spans: fluents.Spans) -> set[int]:
    return {code for start, end in spans for code in range(start, end + 1)}


def between(back: int, at: int) -> set[int]:
    """Strictly: of the time between two microseconds a part is left, unless it is the same."""
    return set(range(back + 1 - back % 2, at + at % 2)) if back < at else set()


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (fluents.both(P, Q), lambda p, q, at: at in p and at in q),
        (fluents.merged(sorted(P + Q)), lambda p, q, at: at in p or at in q),
        (fluents.but_not(P, Q), lambda p, q, at: at in p and at not in q),
        (
            fluents.since(P, Q, FAR),
            lambda p, q, at: any(back in q and between(back, at) <= p for back in range(at - FAR, at + 1)),
        ),
    ],
)
def test_the_loops_say_what_the_table_of_formulas_does(
    found: fluents.Spans, holds: Callable[[set[int], set[int], int], bool]
) -> None:
    p, q = points(P), points(Q)
    assert points(found) == {at for at in range(-10, 60) if holds(p, q, at)}
    assert all(one[1] + 1 < other[0] for one, other in pairwise(found))
