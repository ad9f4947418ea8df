"""A program in which every kind of operator holds state, and its stream."""

from __future__ import annotations

from typing import Any

import polars as pl

from cep.engine import Engine
from cep.events import Event
from tests.program_maker import FORMS

SECOND = 1_000_000

PROGRAM = """
event a(k: string, v: int). event b(k: string, v: float). event c(k: string). event s(k: string, n: int).
both(K, X, Y) <- NOT(c(K)).[a(K, X), b(K, Y)] WITHIN 20 s.
after(K, X, Y) <- a(K, X) SEQ b(K, Y) WITHIN 9 s.
pair(K, X) <- a(K, X) AND c(K) WITHIN 9 s.
alone(K, V) <- a(K, V) UNLESS b(K, _) WITHIN 5 s.
most(K, M, N) <- b(K, V) AGGREGATE M = max(V), N = count() OVER LAST 9 s BY K.
three(K, S, D) <- a(K, V) AGGREGATE S = sum(V), D = count(distinct V) OVER LAST 3 BY K.
many(K, D) <- a(K, V) AGGREGATE D = count(distinct V) OVER LAST 70 BY K.
x(K, N) <- s(K, N).
x(K, N + V) <- x(K, N) SEQ a(K, V) WHERE N < 400 WITHIN 15 s.
y(K) <- c(K).
y(K) <- y(K) UNLESS b(K, _) WITHIN 6 s.
either(K, V) <- a(K, V) OR s(K, V).
same(X, Y, Z) <- d(X, Y) SEQ d(Y, Z).
late(K) <- 1970-01-01T00:01:00Z SEQ c(K).
""" + "".join(
    form.format(h=f"form{i}", e="a", f="s") + "\n" for i, form in enumerate(FORMS) if form.startswith("{h}(K,")
)


def stream(first: int, last: int) -> list[Event]:
    """One event a second, of all types in turn."""
    made = []
    for i in range(first, last):
        key, time = f"k{i * i % 5}", i * SECOND
        args: dict[str, tuple[Any, ...]] = {
            "a": (key, i % 11),
            "b": (key, i / 4),
            "c": (key,),
            "s": (key, i),
            "d": (i % 4 or "none", (i + 9) % 4 or "none"),
        }
        name = "abacsdaab"[i % 9]
        made.append(Event(name, args[name], time, time))
    return made


def given(*outputs: dict[str, pl.DataFrame]) -> list[tuple[Any, ...]]:
    return [(name, *row) for output in outputs for name, table in output.items() for row in table.iter_rows()]


def begun(**options: Any) -> Engine:
    types = {"d": ("any", "any")}
    return Engine.from_text(PROGRAM, lateness=3 * SECOND, types=types, **options)
