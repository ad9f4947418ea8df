"""Fluents that come in as records with intervals: against points and gaps counted one by one, and from files."""

from __future__ import annotations

import json
import random
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.engine import Engine, holds
from cep.events import Event, Held
from cep.runtime.decode import events_of
from cep.runtime.maximal_intervals import held_of
from tests.long import seeds

PROGRAM = """event ping(a: string) TIME time.
fluent near(a: string, b: string) START s END e.
meet(A, B) <- ping(A) WHERE near(A, B).
some(A) <- ping(A) WHERE near(A, _).
alone(A) <- ping(A) WHERE not near(A, _).
contact(A, B) <- near(A, B).
arrive(A, B) <- BEGIN OF near(A, B).
leave(A, B) <- END OF near(A, B).
"""
LAST = 45
Piece = tuple[str, str, int, "int | None", str]


def points(piece: Piece) -> set[int]:
    """2t is the time t, 2t + 1 the gap after it."""
    _, _, start, end, bounds = piece
    last = 2 * LAST if end is None else 2 * end - (bounds[1] == ")")
    return set(range(2 * start + (bounds[0] == "("), last + 1))


def runs(held: set[int]) -> list[tuple[int, int]]:
    made = []
    for code in sorted(held):
        if code - 1 not in held:
            made.append([code, code])
        made[-1][1] = code
    return [(first, last) for first, last in made]


def expected(pieces: list[Piece], pings: list[tuple[str, int]]) -> tuple[list[Held], list[Event]]:
    held: dict[tuple[str, str], set[int]] = {}
    for piece in pieces:
        held.setdefault(piece[:2], set()).update(points(piece))
    intervals, events = [], []
    for key, codes in held.items():
        for first, last in runs(codes):
            start, opening = first // 2, "[("[first % 2]
            events.append(Event("arrive", key, start, start))
            if last == 2 * LAST:
                intervals.append(Held("near", key, start, None, opening + ")"))
                continue
            end = (last + 1) // 2
            intervals.append(Held("near", key, start, end, opening + "])"[last % 2]))
            events += [Event("contact", key, start, end), Event("leave", key, end, end)]
    for a, time in pings:
        there = sorted(key for key, codes in held.items() if key[0] == a and 2 * time in codes)
        events += [Event("meet", key, time, time) for key in there]
        events.append(Event("some" if there else "alone", (a,), time, time))
    order = sorted(intervals, key=lambda h: (h.type, h.args, h.start))
    return order, sorted(events, key=lambda e: (e.end, e.start, e.type, e.args))


def random_pieces(rng: random.Random) -> list[Piece]:
    made: list[Piece] = []
    span = rng.choice((8, 20, LAST - 8))
    for _ in range(rng.randint(0, 25)):
        start = rng.randint(0, span)
        end = None if rng.random() < 0.1 else start + rng.choice((0, 1, 1, 2, 3, 7))
        bounds = "[]" if end == start else rng.choice(("[]", "[]", "[)", "(]", "()"))
        made.append((rng.choice("pq"), rng.choice("xyz"), start, end, bounds[0] + ")" if end is None else bounds))
    # a piece that is reported twice is closed by what has its start, so starts of a tuple are distinguished
    return list({piece[:3]: piece for piece in made}.values())


@pytest.mark.parametrize("seed", seeds(80))
def test_records_against_points_and_gaps(seed: int) -> None:
    rng = random.Random(seed)
    pieces = random_pieces(rng)
    pings = [(rng.choice("pq"), rng.randint(0, LAST - 1)) for _ in range(rng.randint(0, 20))]
    pings += rng.choices(pings, k=len(pings) // 5)
    pushed: list[tuple[int, str, dict]] = [(time, "ping", {"a": a, "time": time}) for a, time in pings]
    for a, b, start, end, bounds in pieces:
        row = {"a": a, "b": b, "start": start, "end": end, "bounds": bounds}
        if end is not None and end > start and rng.random() < 0.4:  # open at first, closed when it ends
            pushed.append((start, "near", row | {"end": None, "bounds": bounds[0] + rng.choice(")]")}))
            pushed.append((end, "near", row))
        else:
            pushed.append((start, "near", row))
    pushed.sort(key=lambda each: each[0])
    intervals, events = expected(pieces, pings)
    engine = Engine.from_text(PROGRAM, lateness=0)
    tables: list[dict[str, pl.DataFrame]] = []
    while pushed:
        count = rng.choice((1, 2, 5, 60))
        batch: dict[str, list[dict]] = {}
        for place, (_, name, row) in enumerate(pushed[:count]):
            batch.setdefault(name, []).append(row | {"@order": engine.position + place})
        pushed = pushed[count:]
        schema = {"start": pl.Int64, "end": pl.Int64}
        tables.append(engine.push({n: pl.DataFrame(r, schema_overrides=schema) for n, r in batch.items()}))
        assert not engine.take_dead()
        if rng.random() < 0.3:
            engine = Engine.from_text(PROGRAM, lateness=0).restore(engine.snapshot())
        if rng.random() < 0.2:
            engine.forget()
    tables.append(engine.close())
    found = [held for each in tables for held in held_of({"near": each["near"]} if "near" in each else {},
             engine.outputs, None, None)]  # fmt: skip
    assert sorted(found, key=lambda h: (h.type, h.args, h.start)) == intervals
    made = [event for each in tables for event in events_of(each, engine.outputs)]
    assert sorted(made, key=lambda e: (e.end, e.start, e.type, e.args)) == events
    closed = [Event("near", p[:2], p[2], p[3]) for p in pieces if p[3] is not None and p[4] == "[]"]
    only = [(*e.args, e.start, e.end, "[]") for e in closed]
    assert holds(PROGRAM, closed) == expected(only, [])[0]


def test_a_record_that_is_wrong_is_a_dead_letter() -> None:
    engine = Engine.from_text(PROGRAM, lateness=0)
    rows = [
        ("a", "x", 1, None, None),
        ("a", "y", 5, 4, "[]"),
        ("a", "y", 5, 5, "(]"),
        ("a", "y", 5, 6, "]["),
        ("a", None, 5, 6, None),
        ("b", "z", 9, 10, "[)"),
        ("a", "x", 1, 4, None),  # the open one ends before the watermark
        ("a", "z", 3, 20, None),  # nothing open begins there
        ("a", "x", 1, 20, "[)"),
    ]
    table = pl.DataFrame(rows, schema=["a", "b", "start", "end", "bounds"], orient="row")
    engine.push({"near": table[:6]})
    made = [engine.push({"near": table[6:]})]
    assert [(dead.type, dead.row, dead.code) for dead in engine.take_dead()] == [
        ("near", 1, "interval"), ("near", 2, "interval"), ("near", 3, "bounds"), ("near", 4, "missing"),
        ("near", 0, "late"), ("near", 1, "late"),
    ]  # fmt: skip
    made.append(engine.close())
    found = pl.concat(each["near"] for each in made).select("start", "end", "a", "b", "bounds").rows()
    assert found == [(9, 10, "b", "z", "[)"), (1, 20, "a", "x", "[)")]


def test_records_of_files(tmp_path: Path) -> None:
    """JSON Lines, CSV and Parquet, with columns and a range of the declaration; a value is reported beside others."""
    program = """fluent zone(a: string FROM who) = room: int IN 1..9 START since END till FORMAT "%d.%m.%Y".
moved(A, R) <- BEGIN OF zone(A) = R.
"""
    (tmp_path / "p.cep").write_text(program)
    csv = "who,room,since,till,bounds\nann,1,01.01.2026,03.01.2026,[)\nann,2,02.01.2026,,\nbob,12,02.01.2026,,\n"
    (tmp_path / "zone.csv").write_text(csv)
    pl.read_csv(tmp_path / "zone.csv").write_parquet(tmp_path / "zone.parquet")
    names = csv.splitlines()[0].split(",")
    rows = [dict(zip(names, line.split(","))) for line in csv.splitlines()[1:]]
    lines = [{"type": "zone"} | {k: int(v) if k == "room" else v or None for k, v in row.items()} for row in rows]
    (tmp_path / "zone.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    outputs = set()
    for name in ("zone=zone.csv", "zone=zone.parquet", "zone.jsonl"):
        event, equals, file = name.rpartition("=")
        result = CliRunner().invoke(app, ["run", str(tmp_path / "p.cep"), "-i", f"{event}{equals}{tmp_path / file}"])
        assert result.exit_code == 0 and "1 dead letter (1 out of range)" in result.stderr, result.output
        outputs.add(result.stdout)
    (output,) = outputs
    assert [json.loads(line) for line in output.splitlines()] == [
        {"type": "moved", "start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:00:00Z", "a": "ann", "r": 1},
        {"type": "moved", "start": "2026-01-02T00:00:00Z", "end": "2026-01-02T00:00:00Z", "a": "ann", "r": 2},
        {"type": "zone", "start": "2026-01-01T00:00:00Z", "end": "2026-01-03T00:00:00Z", "a": "ann", "room": 1,
         "bounds": "[)"},
        {"type": "zone", "start": "2026-01-02T00:00:00Z", "end": None, "a": "ann", "room": 2, "bounds": "[)"},
    ]  # fmt: skip


def test_columns_need_no_bounds_and_formulas_may_ask_records(tmp_path: Path) -> None:
    (tmp_path / "p.cep").write_text(
        "fluent near(a: string) START s END e.\nfluent lately(a: string).\nlately(A) WHILE ONCE[0, 1 s] near(A).\n"
    )
    (tmp_path / "near.csv").write_text("s,e,a\n1,3,p\n4,5,p\n8,,p\n2,,q\n")
    pl.read_csv(tmp_path / "near.csv").write_parquet(tmp_path / "near.parquet")
    for name in ("near.csv", "near.parquet"):
        result = CliRunner().invoke(
            app, ["run", str(tmp_path / "p.cep"), "-i", f"near={tmp_path / name}", "--only", "lately"]
        )
        assert result.exit_code == 0, result.output
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        assert [(row["a"], row["start"], row["end"], row["bounds"]) for row in rows] == [
            ("p", 1, 6, "[]"), ("q", 2, None, "[)"), ("p", 8, None, "[)")
        ]  # fmt: skip


def test_what_any_value_satisfies_is_asked_of_all_that_holds() -> None:
    """Of a fluent made by rules, too: that one of several ends does not end the others."""
    program = """event a(k: string, v: int) TIME time.
event z(k: string, v: int) TIME time.
event ask(k: string) TIME time.
fluent f(k: string, v: int).
initiate f(K, V) <- a(K, V).
terminate f(K, V) <- z(K, V).
yes(K, N) <- (ask(K) WHERE f(K, _)) AGGREGATE N = count() OVER LAST 1 h BY K.
no(K) <- ask(K) WHERE not f(K, _).
"""
    events = [
        Event("a", ("k", 1), 1, 1), Event("a", ("k", 2), 2, 2), Event("ask", ("k",), 3, 3),
        Event("z", ("k", 2), 4, 4), Event("ask", ("k",), 5, 5), Event("z", ("k", 1), 6, 6), Event("ask", ("k",), 7, 7),
    ]  # fmt: skip
    engine = Engine.from_text(program)
    engine.receive(events)
    found = engine.close()
    assert found["no"]["end"].to_list() == [7]
    assert found["yes"]["n"].to_list() == [1, 2]
