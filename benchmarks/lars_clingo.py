"""Ticker's programs B in clingo alone, which starts from scratch at each tick: the baseline for the engine."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

SECOND = 1_000_000
_RULES = """\
need(I, N) :- item(I), node(N), req(I, N, T), T >= now - n.
avail(I, N) :- item(I), node(N), cache(I, N, T), T >= now - n.
get(I, N, M) :- source(I, N, M), not nGet(I, N, M).
nGet(I, N, M) :- node(M), get(I, N, K), M != K.
nGet(I, N, M) :- source(I, N, M), source(I, N, K), M != K, qual(M, L), qual(K, H), L < H.
source(I, N, M) :- need(I, N), not avail(I, N), avail(I, M), reach(N, M).
reach(N, M) :- conn(N, M).
reach(N, M) :- reach(N, K), conn(K, M), K != M, N != M.
off(M) :- down(M, T), T >= now - n.
conn(N, M) :- edge(N, M), not off(M).
told(N, L) :- quality(N, L, T), T >= now - n.
qual(N, L) :- node(N), lev(L), lev(K), K < L, told(N, L), not told(N, K).
#show need/2. #show avail/2. #show get/3. #show nGet/3. #show source/3. #show reach/2. #show conn/2. #show qual/2.
"""


def costs(tables: Mapping[str, pl.DataFrame], facts: Sequence[str], size: int, ticks: int) -> list[float]:
    """Return the CPU milliseconds of each tick: ground and solve with the window's atoms as facts, find the changes."""
    import clingo

    rows = [
        (at // SECOND, clingo.Function(name, [*map(clingo.Number, values), clingo.Number(at // SECOND)]))
        for name, table in tables.items()
        for at, *values in table.rows()
    ]
    rows.sort(key=lambda row: row[0])
    text = _RULES + "\n".join(facts)
    window: deque[tuple[int, clingo.Symbol]] = deque()
    last: frozenset[clingo.Symbol] = frozenset()
    taken = changed = 0
    spent = []
    began = time.process_time()
    for tick in range(ticks):
        while taken < len(rows) and rows[taken][0] == tick:
            window.append(rows[taken])
            taken += 1
        while window and window[0][0] < tick - size:
            window.popleft()
        control = clingo.Control(["-c", f"now={tick}", "-c", f"n={size}", "--warn=none"])
        control.add("base", [], text)
        with control.backend() as backend:
            for _, atom in window:
                backend.add_rule([backend.add_atom(atom)])
        control.ground([("base", [])])
        found: list[frozenset[clingo.Symbol]] = []
        control.solve(on_model=lambda model, found=found: found.append(frozenset(model.symbols(shown=True))))
        changed += len(found[-1] ^ last)
        last = found[-1]
        since, began = began, time.process_time()
        spent.append(1000 * (began - since))
    return spent
