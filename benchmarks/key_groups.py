"""`python -m benchmarks.key_groups`: the cost of a key group per round, and of a change of the number of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time

import numpy as np
import polars as pl

from cep.compile import compile
from cep.engine import Engine
from cep.plan.partition import partition
from cep.runtime.state_by_key import GROUPS, deal_groups, redeal

TEXT = """event a(id: int, x: int) TIME time.
event b(id: int, x: int) TIME time.
ab(I, X, Y) <- (a(I, X) SEQ b(I, Y)) WITHIN 1 h.
s(I, S) <- a(I, X) AGGREGATE S = sum(X) OVER LAST 1 h BY I.
"""
KEYS, ROWS, ROUNDS = 100_000, 200_000, 5


def table(number: int) -> pl.DataFrame:
    """Return the rows of `a` in a round."""
    order = np.arange(number * ROWS, (number + 1) * ROWS)
    return pl.DataFrame({"time": order * 1000, "id": order * 7919 % KEYS, "x": order % 100, "@order": order})


def measured(partitions: int) -> tuple[float, float, list[Engine]]:
    """Return the CPU seconds of a round for the distribution of its rows and for the steps of partitions, and the
    engines."""
    program = compile(TEXT)
    (stage,) = partition(program.plan)
    engines = [Engine(program, stage=1, lateness=None) for _ in range(partitions)]
    dealing: list[float] = []
    stepping: list[float] = []
    for number in range(ROUNDS + 1):
        rows = {"a": table(number)}
        began = process_time()
        dealt = deal_groups(stage, rows, program.plan.schemas, partitions)
        between = process_time()
        for engine, tables in zip(engines, dealt, strict=True):
            engine.push(tables)
            engine.advance((number + 1) * ROWS * 1000 - 1)
        dealing.append(between - began)
        stepping.append(process_time() - between)
    return min(dealing[1:]), min(stepping[1:]), engines


def lines() -> Iterator[str]:
    """Yield a table in CPU milliseconds per round of `ROWS` rows, then the cost of changing the number of
    partitions."""
    measured(1)  # kernels
    yield "| partitions | deal, ms | step, ms | more than one partition, ms a partition |"
    yield "|--:|--:|--:|--:|"
    program = compile(TEXT)
    (stage,) = partition(program.plan)
    before: list[Engine] = []
    one = 0.0
    for count in (1, 2, 8, 64):
        deal, step, engines = measured(count)
        one = one or step
        more = f"{(step - one) / (count - 1) * 1e3:.2f}" if count > 1 else ""
        yield f"| {count} | {deal * 1e3:.1f} | {step * 1e3:.1f} | {more} |"
        before = engines if count == 8 else before
    rows = {"a": table(0)}
    began = process_time()
    deal_groups(stage, rows, program.plan.schemas, GROUPS)
    took = process_time() - began
    yield f"\nto deal a round's rows to {GROUPS:,} groups: {took / GROUPS * 1e3:.3f} ms a group"
    little: list[Engine] = []
    for _ in range(2):  # the first loads kernels
        redeal(little, [Engine(program, stage=1, lateness=None) for _ in range(7)] if little else [])
        little = [Engine(program, stage=1, lateness=None) for _ in range(8)]
        for engine, tables in zip(little, deal_groups(stage, {"a": table(0)[:GROUPS]}, program.plan.schemas, 8)):
            engine.push(tables)
            engine.advance(GROUPS * 1000)
    for some in (little, before):
        after = [Engine(program, stage=1, lateness=None) for _ in range(7)]
        held = sum(engine.state_rows for engine in some)
        began = process_time()
        redeal(some, after)
        took = process_time() - began
        each = f"{took / GROUPS * 1e3:.3f} ms a group, {took / held * 1e6:.1f} us a row"
        yield f"from {len(some)} partitions to 7, {held:,} rows held: {each}"


if __name__ == "__main__":
    for line in lines():
        print(line, flush=True)
