"""`cep run --on spark` as its users meet it: files in, files out, dead letters, runs that go on, and refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from cep.core.compilation import Compilation
from cep.core.errors import CepError
from cep.engine import Engine
from cep.spark.source.data_source import new_files
from tests import spark_runs

needs_java = pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
pytestmark = pytest.mark.xdist_group("spark")

PROGRAM = """\
event heat(room: string, temp: float in -50..500 FROM celsius) TIME at.
event smoke(room: string, level: int?).
event fire(room: string, temp: float).

fire(R, T) <- (smoke(R, _) SEQ heat(R, T) WHERE T > 50) WITHIN 1 min.
"""
SMOKE = [
    {"time": 1, "room": "attic", "level": 3},
    {"time": 2, "room": "cellar"},
    {"time": 70, "room": "attic", "level": 1},
]
HEAT = "at,room,celsius\n4,attic,80.5\n5,cellar,90\n6,cellar,9000\nnever,attic,20\n75,attic,60\n"


@pytest.fixture
def session() -> None:
    """The session that runs use."""
    spark_runs.spark()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    Path("fire.cep").write_text(PROGRAM)
    Path("smoke.jsonl").write_text("".join(json.dumps(record) + "\n" for record in SMOKE))
    Path("heat.csv").write_text(HEAT)


def run(*arguments: str, rules: str = "fire.cep", dead: str | None = "dead") -> Result:
    places = ["--output", "out", "--checkpoint", "state", "--buckets", "2"]
    places += [] if dead is None else ["--dead-letter", dead]
    return CliRunner().invoke(app, ["run", rules, "--on", "spark", *places, *arguments], prog_name="cep")


FILES = ["--input", "smoke=smoke.jsonl", "--input", "heat=heat.csv"]


def lines(folder: str) -> list[Any]:
    found = [line for file in sorted(Path(folder).glob("[!._]*")) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in found]


@pytest.mark.long
@needs_java
def test_files_of_several_formats_with_dead_letters(session: None) -> None:
    here = f"file://{Path.cwd()}"
    places = ["--output", f"{here}/out", "--checkpoint", f"{here}/state"]
    result = run(*FILES, "--output-format", "jsonl", "--strict", *places, dead=f"{here}/dead")
    assert (result.exit_code, result.stderr) == (
        1,
        "8 records, 2 dead letters (1 out of range, 1 with a wrong time), 3 derived events: fire 3\n",
    )
    assert sorted((fire["room"], fire["temp"], fire["end"]) for fire in lines("out")) == [
        ("attic", 60.0, 75),
        ("attic", 80.5, 4),
        ("cellar", 90.0, 5),
    ]
    dead = [(letter["code"], Path(letter["file"]).name, letter["line"]) for letter in lines("dead")]
    assert sorted(dead) == [("range", "heat.csv", 4), ("time", "heat.csv", 5)]


@pytest.mark.long
@needs_java
def test_a_run_goes_on_where_the_one_before_it_ended(session: None) -> None:
    options = ["--lateness", "5 s", "--input", "days"]
    Path("days").mkdir()

    def day(name: str, *rows: tuple[str, int, str, float | None]) -> None:
        types = [{"type": type, "time" if type == "smoke" else "at": at, "room": room} for type, at, room, _ in rows]
        records = [record | ({} if row[3] is None else {"celsius": row[3]}) for record, row in zip(types, rows)]
        Path("days", name).write_text("".join(json.dumps(record) + "\n" for record in records))

    day("1.jsonl", ("smoke", 10, "attic", None), ("heat", 20, "cellar", 60.0))
    assert run(*options, "--once").exit_code == 0
    assert not pl.read_parquet("out/part-*.parquet").height
    day("2.jsonl", ("heat", 21, "attic", 70.0), ("heat", 12, "attic", 90.0), ("heat", 80, "attic", 75.0))
    result = run(*options, "--once")
    assert result.stderr == "3 records, 1 dead letter (1 late), 1 derived event: fire 1\n"
    assert lines("dead") == [
        {
            "reason": "is late by 3 s: the watermark has passed it",
            "code": "late",
            "file": str(Path("days/2.jsonl").absolute()),
            "line": 2,
            "record": {"type": "heat", "at": 12, "room": "attic", "celsius": 90.0},
        }
    ]
    day("3.jsonl", ("smoke", 79, "attic", None))
    assert run(*options).stderr == "1 record, 1 derived event: fire 1\n", "what this run did"
    table = pl.read_parquet("out/part-*.parquet")
    assert sorted(table.select("room", "temp").rows()) == [("attic", 70.0), ("attic", 75.0)]
    messages = run(*options).stderr.splitlines()
    assert (
        messages[0].endswith("has ended: there is nothing new to read")
        and messages[1] == "no records, no derived events"
    )
    day("4.jsonl", ("smoke", 90, "attic", None))
    for refused in (run(*options), run("--lateness", "5 s", "--input", "smoke=rate://10")):
        assert refused.exit_code == 2
        assert refused.stderr.startswith(f"--checkpoint: the input of {Path('state').absolute()} has ended")
    Path("fire.cep").write_text(PROGRAM.replace("50)", "55)"))
    refused = run(*options)
    assert refused.exit_code == 2
    assert "-fire(R, T) <- (smoke(R, _) SEQ heat(R, T) WHERE T > 50) WITHIN 1 min.\n" in refused.stderr
    assert "+fire(R, T) <- (smoke(R, _) SEQ heat(R, T) WHERE T > 55) WITHIN 1 min.\n" in refused.stderr


@pytest.mark.long
@needs_java
def test_damage_is_told_by_name_and_what_is_mended_goes_on(session: None) -> None:
    """Status 2 where it is seen before the query begins, 3 where a worker sees it."""
    options = ["--lateness", "5 s", "--input", "days", "--once", "--output-format", "jsonl"]
    Path("days").mkdir()
    for name, room, at in (("1", "attic", 10), ("2", "cellar", 70)):
        smoke = [{"type": "smoke", "time": time, "room": room} for time in (at, at + 40)]
        records = [*smoke, {"type": "heat", "at": at + 5, "room": room, "celsius": 70.0}]
        text = "".join(json.dumps(record) + "\n" for record in records)
        Path("days" if name == "1" else ".", f"{name}.jsonl").write_text(text)
    assert run(*options).exit_code == 0
    Path("2.jsonl").rename("days/2.jsonl")
    entry = next(path for path in Path("out/_spark_metadata").glob("[0-9]*") if path.stat().st_size > 100)
    last = max(Path("state/spark/offsets").glob("[0-9]*"))
    states = [max(Path("state/buckets").glob(f"1-{bucket:04}-*"), default=None) for bucket in (0, 1)]
    for files, status in (
        ([Path("state/semcep.json")], 2),
        ([Path("state/files.jsonl")], 2),
        ([entry], 2),
        ([last], 2),
        ([path for path in states if path is not None], 3),
    ):
        whole = {path: path.read_bytes() for path in files}
        for path, data in whole.items():
            path.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])
        result = run(*options)
        assert result.exit_code == status, (files, result.stderr)
        assert re.search(rf"{'|'.join(path.name for path in files)} is damaged", result.stderr), result.stderr
        assert "Traceback" not in result.stderr
        for path, data in whole.items():
            path.write_bytes(data)
    gone = next(path for path in Path("out").glob("part-*") if path.stat().st_size)
    gone.rename("elsewhere")
    result = run(*options)
    told = result.stderr.replace("\n", "")
    assert result.exit_code == 0 and re.search(f"1 written file is missing: {gone.absolute()}", told)
    assert len(lines("out")) + len(Path("elsewhere").read_text().splitlines()) == 2


@pytest.mark.long
@needs_java
def test_knowledge_and_its_changes(session: None) -> None:
    Path("rooms.ttl").write_text("@prefix : <urn:> . :attic :name 'attic' ; :floor 3 . :cellar :name 'cellar' .")
    Path("more.trig").write_text(
        "@prefix : <urn:> . @prefix prov: <http://www.w3.org/ns/prov#> . @prefix xsd: "
        "<http://www.w3.org/2001/XMLSchema#> . :change prov:generatedAtTime '1970-01-01T00:00:05Z'^^xsd:dateTime . "
        ":change { :cellar :floor 0 } "
    )
    Path("floors.cep").write_text(
        "PREFIX : <urn:> event heat(room: string, temp: float FROM celsius) TIME at.\n"
        "hot(N, F) <- heat(N, T) WHERE T > 50, { ?R :name ?N ; :floor ?F }.\n"
    )
    knowledge = ["--knowledge", "rooms.ttl", "--knowledge-updates", "more.trig"]
    files = ["--input", "heat=heat.csv", "--output-format", "jsonl"]
    result = run(*files, *knowledge, "--strict", rules="floors.cep", dead=None)
    messages = "5 records, 1 dead letter (1 with a wrong time), 4 derived events: hot 4\n"
    assert (result.exit_code, result.stderr) == (1, messages)
    assert sorted((hot["n"], hot["f"], hot["end"]) for hot in lines("out")) == [
        ("attic", 3, 4),
        ("attic", 3, 75),
        ("cellar", 0, 5),
        ("cellar", 0, 6),
    ]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--once", *FILES], "--once needs a --lateness"),
        (["--explain", *FILES], "--explain does not work on Spark"),
        (["--input", "-"], "--input -: Spark cannot read standard input"),
        (["--files", "2", *FILES], "--files needs a --lateness"),
        (["--every", "5s", *FILES], "--every needs --follow"),
        (["--idle", "5s", *FILES], "--idle needs live input, so it needs --follow"),
        (["--knowledge-updates", "-", *FILES], "--knowledge-updates: there is no --knowledge to change"),
        (["--output-format", "csv", *FILES], "--output-format: Spark does not write csv"),
        (["--conf", "memory=2g", *FILES], "--conf: expected `name=value`, found `memory=2g`"),
        (["--compact", "net", *FILES], "--compact needs --revise"),
        (["--revise", "1h", "--final", "--compact", "net", *FILES], "--compact needs --revise"),
        (
            ["--revise", "1h", "--compact", "net", "--output", "kafka://one/hot", *FILES],
            "--compact: messages that were sent to a broker cannot be removed",
        ),
        (["--final", *FILES], "--final needs --revise"),
        ([], "there is no --input"),
    ],
)
def test_what_spark_cannot_do_or_has_to_be_told(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, message)


def test_no_files_yet_are_no_mistake_of_those_that_wait() -> None:
    schemas = Engine.from_text(PROGRAM).inputs
    Path("days").mkdir()
    waits = ("no-files",)
    assert new_files(schemas, ["days", "nights/*.jsonl"], None, waits) == []
    for specs, absent in ((["days"], ()), (["day"], waits)):
        with pytest.raises(CepError, match=r"no file in this directory|no such file"):
            new_files(schemas, specs, None, absent)
    Path("days/1.csv").write_text(HEAT)
    with pytest.raises(CepError, match="a file of format csv holds one event type"):
        new_files(schemas, ["days"], None, ("no-file", "no-files"))


def test_options_of_spark_alone() -> None:
    result = CliRunner().invoke(app, ["run", "fire.cep", *FILES, "--checkpoint", "state"], prog_name="cep")
    assert result.exit_code == 2
    assert "--checkpoint needs Spark" in result.stderr
