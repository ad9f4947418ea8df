"""Facts and RTEC's lines read as columns give what each line by itself does."""

from __future__ import annotations

import random
from dataclasses import asdict

import numpy as np
import polars as pl
import pytest

from cep.connectors.formats.clause_columns import PlainLines
from cep.connectors.formats.clauses import ClauseReader
from cep.engine import Engine
from tests.long import seeds

FACTS = "Often(Z) :- Diamondminus[0,2]Signal(Z)\nFlag(X,Z) :- Monit(X,Z), Often(Z), Rain\n"
RTEC = """initiatedAt(rich(X)=true, T) :- happensAt(wins(X, N), T), N > 2.
terminatedAt(rich(X)=true, T) :- happensAt(loses(X), T), holdsAt(near(X, _)=true, T), holdsAt(level(X)=Y, T), Y > 1.5.
initiatedAt(on=true, T) :- happensAt(begins, T).
terminatedAt(on=true, T) :- happensAt(speed(V, S), T), S > 1.5.
collectIntervals(near(X, Y)=true).
collectIntervals(level(X)=Y).
"""


class OneByOne(ClauseReader):
    """Reads no line as one of columns."""

    def _plain(self, lines: pl.Series) -> PlainLines:
        return PlainLines({}, np.zeros(len(lines), np.bool_))


def number(rng: random.Random) -> str:
    made = str(rng.choice((0, 3, 12, 170, 99_999_999_999, 1_152_921_504_607, 10**30)))
    made = rng.choice(("", "", "", "", "-", "+", "0")) + made
    return made + rng.choice(("", "", "", ".5", ".25", ".000001", ".0000001", "/2", "/3", ".", "e3", " "))


def word(rng: random.Random) -> str:
    return rng.choice(("a", "b1", "ann", "Z", "7", "-3", "2.50", "-0.0", "1e400", "12345678901234567890", "\u00e9",
                       '"x, y"', '"', "", " a ", "a b", "\u00a0", "\x1c", "(", "x=y"))  # fmt: skip


def fact(rng: random.Random) -> str:
    name = rng.choice(("Signal", "Signal", "Monit", "Monit", "Rain", "Snow", "Often", "signal", "1Rain"))
    count = {"Monit": 2, "Rain": 0}.get(name, 1) + rng.choice((0, 0, 0, 0, 1, -1))
    some = [word(rng) if rng.random() < 0.3 else rng.choice("abc") for _ in range(max(count, 0))]
    arguments = f"({','.join(some)})" if some or rng.random() < 0.2 else ""
    when = number(rng)
    if rng.random() < 0.6:
        high = rng.choice(("inf", "oo", "-inf", "INF", *(number(rng) for _ in range(8))))
        when = f"{rng.choice('[(')}{when},{high}{rng.choice('])')}"
    line = f"{name}{arguments}@{when}"
    return rng.choice(
        (line,) * 8 + (line + ".", " " + line, line + "\r", line.replace("@", " @ "), "# " + line, "", "%x")
    )


def row(rng: random.Random) -> str:
    name = rng.choice(("wins", "wins", "loses", "begins", "speed", "near", "near", "level", "level", "lost", "win"))
    count = {"wins": 2, "loses": 1, "begins": 0, "speed": 2, "near": 3, "level": 2}.get(name, 1)
    some = [word(rng) if rng.random() < 0.3 else rng.choice(("a", "3", "true", "2.5")) for _ in range(count)]
    times = [number(rng)] + ([number(rng)] if name in ("near", "level") and rng.random() < 0.7 else [])
    fields = [name, number(rng), *times, *some]
    if rng.random() < 0.1:
        fields = fields[: rng.randint(0, len(fields))] + ["x"] * rng.randint(0, 2)
    line = rng.choice(("|",) * 9 + (" | ",)).join(fields)
    return rng.choice((line,) * 8 + (" " + line, line + "\r", line + " ", "# " + line, "", "% x"))


@pytest.mark.parametrize("seed", seeds(60))
@pytest.mark.parametrize("format", ["facts", "rtec"])
def test_columns_are_what_lines_are(format: str, seed: int) -> None:
    rng = random.Random(f"{format} {seed}")
    tick = rng.choice((1, 1000, 1_000_000, 60_000_000))
    text, dialect = (FACTS, "datalogmtl") if format == "facts" else (RTEC, "rtec")
    schemas = Engine.from_text(text, dialect=dialect, tick=tick).inputs
    made = fact if format == "facts" else row
    tidy = rng.random() < 0.5
    lines = [made(rng) for _ in range(rng.randint(0, 60))]
    if tidy:
        lines = [line for line in lines if line and line[0] not in " #%"]
    data = "\n".join(lines).encode() + rng.choice((b"\n", b""))
    if rng.random() < 0.1:
        data += b"wins|1|2|\xff|3\n"
    tables, dead, block = ClauseReader(schemas, format).read("f", data, 7, 3, 11)
    others, letters, alike = OneByOne(schemas, format).read("f", data, 7, 3, 11)
    assert list(tables) == list(others)
    for name, table in tables.items():
        assert table.equals(others[name]) and table.schema == others[name].schema, (table, others[name])
    assert [asdict(each) for each in dead] == [asdict(each) for each in letters]
    for key in ("first", "count", "line", "numbers", "starts", "position", "rows"):
        mine, other = getattr(block, key, None), getattr(alike, key, None)
        assert (mine is None) == (other is None) and np.array_equal(mine, other) if mine is not None else other is None
