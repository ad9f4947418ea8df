"""A fluent that a migration changes or removes ends where the new program takes over, once, over kills."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from cep.core.compilation import Compilation
from cep.engine import Engine
from cep.events import Event
from cep.spark.disk import CHECKPOINT
from cep.spark.micro_batch import MicroBatch
from cep.spark.sink.file_sink import FileWriter
from cep.spark.state.batch_notes import BatchNotes
from cep.spark.state.checkpoint import CheckpointInfo
from tests.live_programs import BEGINNING, END, Reading, RevisedRules, Row, Rules, expected_of
from tests.live_programs import Result as Derived
from tests.local_spark import install
from tests.long import seeds
from tests.serving import EIGHT
from tests.spark_runs import _ticks

CUTS = [(MicroBatch, "run", False), (MicroBatch, "run", True), (BatchNotes, "write", False)]
CUTS += [(BatchNotes, "write", True), (FileWriter, "commit", False), (FileWriter, "commit", True)]


class Killed(Exception):
    """Stands for `kill -9`: nothing that follows is done."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    Path("days").mkdir()
    return tmp_path


def cep(rules: str, *arguments: str, output: str = "out", fails: bool = False) -> Result:
    Path("rules.cep").write_text(rules)
    options = ["--checkpoint", "state", "--lateness", "0 s", "--output", output, *arguments]
    if "--output-format" not in arguments:
        options += ["--output-format", "jsonl"]
    result = CliRunner().invoke(app, ["run", "rules.cep", "--on", "spark", *options], prog_name="cep")
    assert (result.exit_code != 0) == fails, result.output + result.stderr
    return result


def took_over() -> int:
    """The time at which the program of the checkpoint took over."""
    start = CheckpointInfo.read(Path("state", CHECKPOINT)).generation.start
    return BEGINNING if start is None else start.time


def results(text: str, readings: list[Reading]) -> list[Derived]:
    """The results of one program over all readings, up to the end of the input."""
    engine = Engine.from_text(text)
    found: list[Derived] = []
    events = [Event("reading", (fridge, temp), EIGHT + at, EIGHT + at) for at, fridge, temp in readings]
    for tables in (engine.push(events), engine.close()):
        for name, table in tables.items():
            names = sorted(each.name for each in engine.outputs[name].attributes)
            for row in table.iter_rows(named=True):
                found.append((name, tuple(row[each] for each in names), row["start"], _end(row["end"])))
    return found


def _end(end: int | None) -> int:
    return END if end is None else end


def written() -> Iterator[dict[str, Any]]:
    for path in sorted(path for folder in Path().glob("out*") for path in folder.glob("part-*")):
        yield from map(json.loads, path.read_text().splitlines())


def intervals(records: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The records with the intervals of fluents from their beginnings and ends."""
    changes: list[dict[str, Any]] = []
    for record in records:
        changes.append(record) if "@edge" in record else (yield record)
    begun: dict[tuple[Any, ...], Any] = {}
    for one in sorted(changes, key=lambda one: (_ticks(one["time"]), one["@edge"] == "begins")):
        edge, time, _ = one.pop("@edge"), one.pop("time"), one.pop("bounds")
        key = tuple(sorted(one.items()))
        if edge == "begins":
            assert key not in begun, "it has ended"
            begun[key] = time
        else:
            yield one | {"start": begun.pop(key), "end": time}
    for key, time in begun.items():
        yield dict(key) | {"start": time, "end": None}


def net(records: Iterator[dict[str, Any]]) -> Counter[Row]:
    """The rows of files or of a changelog."""
    found: Counter[Row] = Counter()
    for record in records:
        names = sorted(record.keys() - {"type", "start", "end", "bounds", "@id", "@change", "@version"})
        end = END if record["end"] is None else _ticks(record["end"])
        row = (record["type"], *(record[name] for name in names), _ticks(record["start"]), end)
        found[row] += -1 if record.get("@change") == "withdraw" else 1
    return +found


def check(random: Random, options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    versions = RevisedRules.edits(random, 2)
    readings: list[Reading] = []
    at, begin, output, taken = 0, BEGINNING, "out", list[tuple[Rules, int]]()
    for number, rules in enumerate(versions):
        for file in range(random.randrange(1, 3)):
            some: list[Reading] = []
            for _ in range(random.randrange(1, 25)):
                at += random.choice((1, 500, 1000, 3000)) * 1000
                some.append((at, random.choice("ab"), float(random.randrange(10))))
            lines = [json.dumps({"time": (EIGHT + at) / 1e6, "fridge": f, "temp": t}) for at, f, t in some]
            Path("days", f"{number}-{file}.jsonl").write_text("".join(f"{line}\n" for line in lines))
            readings += some
        output = random.choice((output, f"out{number}"))
        buckets = ["--buckets", str(random.choice((1, 3)) if "--revise" not in options else 3)]
        asked = [*options, *buckets, *(["--migrate"] if number else []), "-i", "reading=days"]
        final = [] if number == len(versions) - 1 else ["--once"]
        for where, name, after in random.sample(CUTS, 2) if number else ():
            with monkeypatch.context() as patch:
                patch.setattr(where, name, dies(getattr(where, name), after))
                cep(rules.text, *asked, "--once", output=output, fails=True)
        cep(rules.text, *asked, *final, output=output)
        begin = took_over() if number else begin
        taken.append((rules, begin))
    whole = {rules: results(rules.text, readings) for rules in versions}
    expected = expected_of(taken, whole)
    found = net(intervals(written()))
    assert set(found) == expected, taken
    assert max(found.values()) == 1


def dies(call: Callable[..., Any], after: bool) -> Callable[..., Any]:
    def replaced(*arguments: Any, **options: Any) -> Any:
        if after:
            call(*arguments, **options)
        raise Killed

    return replaced


OPTIONS = [[], ["--changes"], ["--revise", "5 s"], ["--revise", "5 s", "--final"]]


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "changes", "revise", "final"])
@pytest.mark.parametrize("seed", seeds(24))
def test_each_instant_is_of_one_program(
    seed: int, options: list[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(Random(f"former fluents {seed} {options}"), options, monkeypatch)


RULES = """event heat(room: string, temp: float).
hot(R) <- heat(R, T) WHERE T > 90.
"""
WARM = """fluent warm(room: string) = why: string.
initiate warm(R) = "hot" <- heat(R, T) WHERE T > 50.
terminate warm(R) = _ <- heat(R, T) WHERE T < 20.
"""


def heat(name: str, *rows: tuple[int, str, float]) -> None:
    records = [{"type": "heat", "time": time, "room": room, "temp": temp} for time, room, temp in rows]
    Path("days", name).write_text("".join(json.dumps(record) + "\n" for record in records))


def ends(folder: str) -> list[tuple[str, float, float]]:
    found = pl.read_parquet(f"{folder}/**/*.parquet", hive_partitioning=True, missing_columns="insert")
    rows = found.filter(pl.col("type") == "warm").sort("room", "start")
    return [(room, *map(datetime.timestamp, times)) for room, *times in rows.select("room", "start", "end").rows()]


@pytest.mark.parametrize("output", ["out", "other"])
def test_a_fluent_that_is_gone_ends_in_the_folder_that_has_it(output: str, here: Path) -> None:
    parquet = ["--output-format", "parquet", "-i", "days", "--once"]
    heat("1.jsonl", (1, "loft", 60.0), (2, "hall", 60.0), (4, "hall", 10.0), (9, "attic", 60.0))
    cep(RULES + WARM + "cold(R) <- heat(R, T) WHERE T < 0.\n", *parquet)
    cep(RULES + "cold(R) <- heat(R, T) WHERE T < 0.\n", "--migrate", *parquet, output=output)
    cut = 8.999999
    assert took_over() == 8_999_999
    assert ends("out") == [("hall", 2.0, 4.0), ("loft", 1.0, cut)]
    heat("2.jsonl", (30, "loft", 1.0), (60, "attic", 95.0))
    cep(RULES + "cold(R) <- heat(R, T) WHERE T < 0.\n", *parquet, output=output)
    assert ends("out") == [("hall", 2.0, 4.0), ("loft", 1.0, cut)]


def test_a_fluent_of_other_attributes_keeps_those_that_it_had(here: Path) -> None:
    heat("1.jsonl", (1, "loft", 60.0), (9, "attic", 1.0))
    cep(RULES + WARM, "-i", "days", "--once")
    other = "fluent warm(place: string).\ninitiate warm(R) <- heat(R, T) WHERE T > 50.\n"
    cep(RULES + other, "--migrate", "-i", "days")
    told = [{name: one[name] for name in one.keys() - {"start"}} for one in written() if one["type"] == "warm"]
    assert {"type": "warm", "end": 8.999999, "room": "loft", "why": "hot", "bounds": "()"} in told
    assert {"type": "warm", "end": None, "place": "loft", "bounds": "[)"} in told
    assert len(told) == 2


def test_other_facts_are_told(here: Path) -> None:
    Path("place.csv").write_text("room\nloft\n")
    heat("1.jsonl", (1, "loft", 60.0), (9, "attic", 1.0))
    known = "fact place(room: string).\n" + RULES + WARM.replace("T > 50", "T > 50, place(R)")
    cep(known, "-i", "days", "--once", "--facts", "place=place.csv")
    Path("place.csv").write_text("room\nloft\nhall\n")
    said = cep(known, "-i", "days", "--once", "--facts", "place=place.csv", "--migrate").stderr
    why = "cannot be written: the former program had other facts, knowledge or options"
    assert f"warning: `warm`: the intervals that hold at 1970-01-01T00:00:08.999999Z {why}" in " ".join(said.split())
    assert not list(written())
