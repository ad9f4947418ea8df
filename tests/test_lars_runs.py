"""LARS programs run: cut anywhere and stopped anywhere, what they give is what the whole gives."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import polars as pl
import pytest
from typer.testing import CliRunner

from benchmarks.lars import PROGRAMS, run
from cep.command import app
from cep.engine import Engine
from cep.language.dialects.lars.components import components
from tests.lars_maker import Maker, program_text
from tests.long import seeds

TICK = 1_000_000
DECLARED = "event a(x: {0}). event b(x: {0}, y: {0}). event c(). event d(x: {0}).\n"
WIDTHS = {"a": 1, "b": 2, "c": 0, "d": 1}


def case(rng: Random) -> tuple[str, list[tuple[int, str, tuple]]]:
    """A program without cycles through negation and its input, of which some is in the midst of ticks."""
    while True:
        maker = Maker(rng)
        program = maker.program()
        if not any(each.cyclic for each in components(program)):
            break
    known = set(WIDTHS) | program.derived | {r.head.predicate for r in program.rules if r.is_fact}
    asked = {each.atom.predicate for rule in program.rules for each in rule.body if hasattr(each, "atom")}
    lacking = [(name, width) for name, width in (("f", 1), ("g", 2)) if name in asked - known]
    facts = "".join(f"event {name}({', '.join(f'x{i}: {{0}}' for i in range(width))}).\n" for name, width in lacking)
    kind = {int: "int", float: "float", str: "string"}[type(maker.values[0])]
    stream = [
        (tick * TICK + rng.randrange(TICK), name, values)
        for tick, atoms in maker.stream(rng.randint(3, 10))
        for name, values in atoms
    ]
    return (DECLARED + facts).format(kind) + program_text(program), sorted(stream, key=lambda each: each[0])


def tables(engine: Engine, rows: list[tuple[int, str, tuple]]) -> dict[str, pl.DataFrame]:
    made = {}
    for name in {name for _, name, _ in rows} & engine.inputs.keys():
        own = [(time, place, *values) for place, (time, other, values) in enumerate(rows) if other == name]
        attributes = engine.inputs[name].attributes
        columns = {"time": [row[0] for row in own], "@order": [row[1] for row in own]}
        columns |= {each.name: [row[2 + at] for row in own] for at, each in enumerate(attributes)}
        made[name] = pl.DataFrame(columns)
    return made


def given(found: list[dict[str, pl.DataFrame]]) -> list[tuple]:
    """All changes, those of a time in an order of their own."""
    rows = [(name, *row) for each in found for name, table in each.items() for row in table.iter_rows()]
    return sorted(rows, key=str)


@pytest.mark.parametrize("seed", seeds(60))
def test_cuts_and_stops_make_no_difference(seed: int) -> None:
    rng = Random(f"lars {seed}")
    program, rows = case(rng)
    whole = Engine.from_text(program, dialect="lars", changes=True, lateness=None)
    whole.receive(tables(whole, rows))
    expected = given([whole.close()])
    engine = Engine.from_text(program, dialect="lars", changes=True, lateness=None)
    found, rest = [], rows
    while rest:
        count = rng.randint(1, 4)
        while count < len(rest) and rest[count][0] == rest[count - 1][0]:
            count += 1
        batch, rest = rest[:count], rest[count:]
        engine.receive(tables(engine, batch))
        found.append(engine.advance(batch[-1][0]))
        if rng.random() < 0.3:
            found.append(engine.advance(batch[-1][0] + rng.randrange(3 * TICK) if not rest else batch[-1][0]))
        if rng.random() < 0.4:
            again = Engine.from_text(program, dialect="lars", changes=True, lateness=None)
            engine = again.restore(engine.snapshot())
        if rng.random() < 0.3:
            engine.forget()
    found.append(engine.close())
    assert given(found) == expected, program


LEVELS = """\
event alpha(v: int).
high at T :- alpha(V) at T in [2], 18 <= V.
done :- alpha(V) in [1 #], V > 18.
random :- not done.
:- alpha(0).
"""
RECORDS = "".join(
    json.dumps({"type": "alpha", "time": time, "v": value}) + "\n" for time, value in ((1, 18), (2.5, 20), (4, 0))
)
WRITTEN = {
    (): [
        ("random", "begins", 1), ("high", "begins", 1), ("high at", "begins", 1), ("high at", "begins", 2),
        ("done", "begins", 2), ("random", "ends", 2), ("high", "ends", 3), ("high at", "ends", 4), ("done", "ends", 4),
        ("high at", "ends", 4), ("answer streams", "begins", 4), ("answer streams", "ends", 5), ("random", "begins", 5),
    ],
    ("--output-mode", "new"): [
        ("random", None, 1), ("high", None, 1), ("high at", None, 1), ("high at", None, 2), ("done", None, 2),
        ("answer streams", None, 4),
    ],
    ("--output-mode", "all", "--output-every", "3s"): [
        ("high at", None, 3), ("high at", None, 3), ("done", None, 3),
    ],
    ("--output-mode", "all", "--output-every", "signal"): [
        ("random", None, 1), ("high", None, 1), ("high at", None, 1), ("high at", None, 2), ("high at", None, 2),
        ("high", None, 2), ("done", None, 2), ("answer streams", None, 4),
    ],
}  # fmt: skip


@pytest.mark.parametrize("options", list(WRITTEN), ids=" ".join)
def test_what_is_written(options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("levels.lars").write_text(LEVELS)
    Path("alpha.jsonl").write_text(RECORDS)
    result = CliRunner().invoke(app, ["run", "levels.lars", "--input", "alpha.jsonl", "-o", "out.jsonl", *options])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    found = [(row["type"], row.get("@edge"), row.get("time", row.get("end"))) for row in rows]
    assert sorted(found, key=str) == sorted(WRITTEN[options], key=str)


def test_rows_of_ticks_are_counted_beside_what_is_derived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kept.lars").write_text("event a(x: int).\nb(X) :- a(X) in [5].\n")
    Path("a.jsonl").write_text("".join(f'{{"type": "a", "time": {tick}, "x": 1}}\n' for tick in range(6)))
    result = CliRunner().invoke(app, ["run", "kept.lars", "--input", "a.jsonl", "--output-mode", "all"])
    assert result.exit_code == 0, result.output
    written = len(result.stdout.splitlines())
    assert f"derived events, {written} rows written: b {written}" in result.stderr, result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--output-mode", "some"), "`some` is not a mode"),
        (("--output-every", "5s"), "--output-every needs answers at ticks"),
        (("--output-mode", "all", "--output-every", "1500ms"), "is not a number of ticks"),
        (("--output-mode", "new", "--from", "2"), "--from and --until clip only intervals"),
    ],
)
def test_modes_refused(options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("levels.lars").write_text(LEVELS)
    Path("alpha.jsonl").write_text(RECORDS)
    result = CliRunner().invoke(app, ["run", "levels.lars", "--input", "alpha.jsonl", *options])
    assert result.exit_code == 2
    assert message in result.output


def test_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("levels.lars").write_text(LEVELS)
    Path("alpha.jsonl").write_text(RECORDS)
    asked = ["explain", "levels.lars", "done", "--at", "3", "-i", "alpha.jsonl"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert "done over [2, 4)" in result.output
    assert "alpha(20) at 2.5" in result.output
    why_not = CliRunner().invoke(app, [*asked[:2], "--not", "random", "--at", "3", "-i", "alpha.jsonl"])
    assert "it holds over [2, 4)" in why_not.output


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_benchmarks_run(name: str) -> None:
    assert run(name, 3, 5, 12)["derived"]
