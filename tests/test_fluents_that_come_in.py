"""A fluent of which only records come in is given out, and the same wherever a program runs."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import cep
from cep import Event
from cep.command import app
from cep.engine import Engine, holds

SECOND = 1_000_000
PROGRAM = """event x(a: string) TIME time.
fluent near(a: string, b: string) START s END e.
fluent far(a: string) START s END e.
fluent both(a: string).
both(A) WHILE near(A, _).
hit(A) <- x(A) WHERE both(A).
"""
EVENTS = [
    Event("near", ("u", "v"), SECOND, 3 * SECOND),
    Event("near", ("u", "v"), 2 * SECOND, 5 * SECOND),
    Event("far", ("u",), SECOND, 2 * SECOND),
    Event("x", ("u",), 4 * SECOND, 4 * SECOND),
]
RECORDS = [
    {"type": "near", "a": "u", "b": "v", "s": 1, "e": 3},
    {"type": "near", "a": "u", "b": "v", "s": 2, "e": 5},
    {"type": "far", "a": "u", "s": 1, "e": 2},
    {"type": "x", "a": "u", "time": 4},
]
FOUND = [("both", 1, 5), ("far", 1, 2), ("hit", 4, 4), ("near", 1, 5)]


def inner_tables() -> dict[str, pl.DataFrame]:
    near = {"start": [1, 2], "end": [3, 5], "a": ["u", "u"], "b": ["v", "v"]}
    found = {"near": near, "far": {"start": [1], "end": [2], "a": ["u"]}, "x": {"time": [4], "a": ["u"]}}
    return {name: pl.DataFrame(each).with_columns(pl.col(pl.Int64) * SECOND) for name, each in found.items()}


def of_tables(*given: dict[str, pl.DataFrame]) -> list[tuple[str, int, int]]:
    rows = [
        (name, *row) for each in given for name, table in each.items() for row in table.select("start", "end").rows()
    ]
    return sorted((name, start // SECOND, end // SECOND) for name, start, end in rows)


@pytest.mark.parametrize("shape", ["tables", "events"])
@pytest.mark.parametrize("explain", [False, True])
def test_an_engine_gives_it(shape: str, explain: bool) -> None:
    engine = Engine.from_text(PROGRAM, explain=explain)
    assert of_tables(engine.push(inner_tables() if shape == "tables" else EVENTS), engine.close()) == FOUND
    assert sorted(engine.outputs) == ["both", "far", "hit", "near"]
    assert {(each.type, each.end) for each in holds(PROGRAM, EVENTS)} == {
        (name, end * SECOND) for name, _, end in FOUND if name != "hit"
    }


@pytest.mark.parametrize("shape", ["records", "events"])
@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.filterwarnings("ignore:workers")
def test_so_does_python(shape: str, workers: int | None) -> None:
    engine = cep.Engine.from_text(PROGRAM, workers=workers)
    data = RECORDS if shape == "records" else EVENTS
    found = [engine.push(data), engine.finish()]
    engine.stop()
    assert all(not each.dead.height for each in found)
    counts = {name: sum(each.counts[name] for each in found) for name in found[0].counts}
    assert counts == {"both": 1, "far": 1, "hit": 1, "near": 1} == cep.detect(PROGRAM, data).counts


@pytest.mark.parametrize("options", [[], ["--workers", "2"], ["--explain"], ["--revise", "1h"], ["--lateness", "1h"]])
def test_so_does_the_command(tmp_path: Path, options: list[str]) -> None:
    rules, records = tmp_path / "p.cep", tmp_path / "r.jsonl"
    rules.write_text(PROGRAM)
    records.write_text("".join(json.dumps(each) + "\n" for each in RECORDS))
    result = CliRunner().invoke(app, ["run", str(rules), "--input", str(records), *options])
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted((line["type"], line["start"], line["end"]) for line in lines) == FOUND
    if "--explain" in options:
        because = {line["type"]: line["because"] for line in lines}
        assert because["far"] == [{"type": "far", "start": 1, "end": 2, "a": "u", "bounds": "[]"}]


def test_values_by_their_places(tmp_path: Path) -> None:
    """`args` holds what the declaration has: the end and the bounds have names."""
    records = [{"type": each["type"], "args": [each[key] for key in ("a", "b") if key in each]} for each in RECORDS]
    times = [{key: each[key] for key in ("s", "e", "time") if key in each} for each in RECORDS]
    wrong = [
        {"type": "near", "s": 6, "args": ["u"]},
        {"type": "near", "s": 6, "a": "u", "args": ["u", "v"]},
        {"type": "near", "s": 6, "e": "soon", "args": ["u", "v"]},
        {"type": "near", "s": 6, "e": "soon", "a": "u", "b": "v"},
    ]
    rules, file, dead = tmp_path / "p.cep", tmp_path / "r.jsonl", tmp_path / "dead.jsonl"
    rules.write_text(PROGRAM)
    file.write_text("".join(json.dumps(each) + "\n" for each in [*map(dict.__or__, records, times), *wrong]))
    for more in ([], ["--revise", "1h"]):
        result = CliRunner().invoke(
            app, ["run", str(rules), "--input", str(file), "--dead-letter", str(dead), "--workers", "1", *more]
        )
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        assert sorted((line["type"], line["start"], line["end"]) for line in lines) == FOUND, result.output
        assert [json.loads(line)["reason"] for line in dead.read_text().splitlines()] == [
            "`args` holds 1 values, but near has 2 attributes",
            "`args` and `a` both give values",
            *["e: `soon` is not an ISO 8601 time"] * 2,
        ]


def test_columns_and_workers_tell_the_names_of_the_author(tmp_path: Path) -> None:
    table = {"s": [1, 2], "e": ["soon", "4"], "a": ["u", "u"], "b": ["v", "v"]}
    dead = cep.Engine.from_text(PROGRAM).push({"near": pl.DataFrame(table)}).dead
    assert dead["reason"][0] == "e: `soon` is not an ISO 8601 time"
    rules, file = tmp_path / "p.cep", tmp_path / "r.jsonl"
    rules.write_text(PROGRAM)
    file.write_text("".join(json.dumps(each) + "\n" for each in RECORDS))
    result = CliRunner().invoke(app, ["run", str(rules), "--input", str(file), "--workers", "2"])
    assert result.stderr.startswith("warning: --workers: the program runs in one process"), result.stderr
    assert "records of `far` may close earlier ones\n" in result.stderr


FACTS = "Signal(s1)@1\nSignal(s2)@[3,5)\nOften(s3)@[1,2]\n"


def test_facts_of_a_dialect_in_workers(tmp_path: Path) -> None:
    rules, facts = tmp_path / "p.dmtl", tmp_path / "x.facts"
    rules.write_text("Often(Z) :- Diamondminus[0,2]Signal(Z)\n")
    facts.write_text(FACTS)
    results = [
        CliRunner().invoke(app, ["run", str(rules), "--input", str(facts), *more])
        for more in ([], ["--workers", "2"], ["--workers", "2", "--explain"])
    ]
    lines = [
        [{k: v for k, v in json.loads(line).items() if k != "because"} for line in each.stdout.splitlines()]
        for each in results
    ]
    assert lines[0] == lines[1] == lines[2]
    assert sorted(line["type"] for line in lines[0]) == ["Often", "Often", "Often", "Signal", "Signal"]
