"""New rules of a migrated checkpoint start from the input files of before.

The old program derives up to where the new one takes over, from there on the new one, as if it had read all files.

`SEMCEP_PROGRAMS=200` runs so many of them on Spark itself; others are run without Java (`tests/local_spark.py`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from cep.compile import CompileOptions
from cep.connectors.arrow_bytes import unpack
from cep.core.compilation import Compilation
from cep.core.errors import CepError
from cep.engine import Engine
from cep.language.syntax.ast import EventRule
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program
from cep.spark import resuming
from cep.spark.driver.query import StopRequest, run_query
from cep.spark.job import Job, start
from cep.spark.micro_batch import MicroBatch
from cep.spark.program import ProgramOptions, ShippedProgram
from cep.spark.stage_task import StageTask
from cep.spark.state.batch_notes import BatchNotes
from cep.spark.state.migration import EarlierInput, StateLayout, migrated
from cep.spark.warming import warmed
from tests import spark_runs
from tests.cases_format import difference
from tests.local_spark import LocalSpark, install
from tests.long import seeds
from tests.spark_runs import _ticks, deliver, derived, job
from tests.test_spark import LATENESS
from tests.together import One, Together, generated

PROGRAMS = int(os.environ.get("SEMCEP_PROGRAMS", "12"))
EACH = 25  # programs of one run


def without(text: str, types: Any, random: Random) -> str:
    """The program without some of its rules, where it can do without them."""
    tree = parse(text)
    for _ in range(4):
        gone = [one for one in tree.statements if isinstance(one, EventRule) and random.random() < 0.5]
        left = print_program(replace(tree, statements=tuple(one for one in tree.statements if one not in gone)))
        try:
            if Engine.from_text(left, types=types).outputs:
                return left
        except CepError:  # what is left may use what is gone
            continue
    return text


def layout(programs: Together) -> StateLayout:
    engine = Engine.from_text(programs.text, types=programs.types)
    return StateLayout.of(engine, tuple(engine.outputs))


def changing(random: Random, number: int, resized: bool) -> tuple[Together, Together]:
    """So many random programs before some of their rules were added, and with them. `resized`: they can go to other
    buckets."""
    before: list[One] = []
    after: list[One] = []
    while len(after) < number:
        (new,) = generated(random, 1).ones
        old = replace(new, text=without(new.text, new.types, random))
        program = Engine.from_text(new.text, types=new.types)
        options = ProgramOptions(compiling=CompileOptions(types=new.types))
        if resized and any(resuming._unsplit(ShippedProgram.of(program, new.text, "p", options, 3))):
            continue
        both = Together([*before, old]), Together([*after, new])
        try:
            migrated(*map(layout, both))
        except CepError:  # what goes on would be elsewhere
            continue
        columns = [
            {name: [one.name for one in schema.attributes] for name, schema in engine.outputs.items()}
            for engine in (Engine.from_text(each.text, types=each.types) for each in both)
        ]
        if any(columns[0][name] != columns[1][name] for name in columns[0].keys() & columns[1].keys()):
            continue
        if len(after) + 1 == number and both[0].text == both[1].text:
            continue
        before, after = (list(each.ones) for each in both)
    return Together(before), Together(after)


def opened(wanted: Job, migrate: bool) -> Job:
    """The query as it goes on from its checkpoint, as the command has it."""
    program = wanted.program
    engine = Engine.from_text(program.text, types=program.options.compiling.types)
    with ExitStack() as locks:
        query = resuming.opened(engine, wanted, locks, migrate=migrate)[0]
    before = query.generation.start
    return query if before is None else replace(query, earlier=EarlierInput.of(engine, before))


class Killed(Exception):
    """Stands for `kill -9`: nothing that follows is done."""


@contextmanager
def killed(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, after: bool) -> Iterator[None]:
    """The block ends where something is called, or has been; in a query of Spark, that says so."""
    call: Callable[..., Any] = getattr(where, name)

    def dies(*arguments: Any, **options: Any) -> Any:
        if after:
            call(*arguments, **options)
        raise Killed

    with monkeypatch.context() as patch, pytest.raises((Killed, CepError)):
        patch.setattr(where, name, dies)
        yield


def run(spark: Any, wanted: Job) -> None:
    stop, folder = StopRequest(Path(wanted.checkpoint)), Path(wanted.checkpoint)
    count = lambda: len(list(folder.glob("**/commits/[0-9]*")))  # noqa: E731

    def begin() -> Any:
        warmed(spark, wanted)
        return start(spark, wanted)

    run_query(begin, stop, False, count, lambda *_, **more: None)


def check(spark: Any, random: Random, folder: Path, monkeypatch: pytest.MonkeyPatch, number: int, kills: bool) -> None:
    counts = random.choice((1, 3)), random.choice((1, 3, 8))
    old, new = changing(random, number, counts[0] != counts[1])
    schemas = Engine.from_text(new.text, types=new.types).inputs
    arriving = new.arriving(random, LATENESS)
    (given,) = deliver(folder / "pool", arriving, 4, random, schemas)
    pool, days = sorted(Path(given).iterdir()), folder / "days"
    days.mkdir()

    def wanted(text: str, buckets: int, closing: bool = False) -> Job:
        asked = job(text, [str(days)], folder, buckets, new.types, lateness=LATENESS, limit=1, closing=closing)
        return opened(asked, text == new.text)

    for path in pool[:2]:
        path.rename(days / path.name)
    run(spark, wanted(old.text, counts[0]))
    for path in pool[2:]:
        path.rename(days / path.name)
    if kills:
        for where, name, after in random.sample(
            [(MicroBatch, "run", False), (BatchNotes, "write", False), (BatchNotes, "write", True)], 2
        ):
            with killed(monkeypatch, where, name, after):
                run(spark, wanted(new.text, counts[1]))
    query = wanted(new.text, counts[1], closing=True)
    assert query.generation.start is not None
    reached = query.generation.start.time
    run(spark, query)
    expected = [event for event in old.derived(arriving) if event.end <= reached]
    expected += [event for event in new.derived(arriving) if event.end > reached]
    assert difference(expected, derived(query)) == "", (counts, reached)


@pytest.mark.parametrize("kills", [False, True])
@pytest.mark.parametrize("seed", seeds(24))
def test_new_rules_have_seen_all_files(seed: int, kills: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(f"warm {seed} {kills}")
    check(LocalSpark(), random, tmp_path, monkeypatch, random.choice((1, 3)), kills)


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("seed", range(-(-PROGRAMS // EACH)))
def test_new_rules_have_seen_all_files_on_spark(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(f"warm on Spark {seed}")
    check(spark_runs.spark(), random, tmp_path, monkeypatch, min(EACH, PROGRAMS), kills=True)


RULES = "event heat(room: string, temp: float).\nhot(R) <- heat(R, T) WHERE T > 90.\n"
FEW = RULES + "twice(R) <- heat(R, A) SEQ heat(R, B) WHERE A > 50, B > 50 WITHIN 10 s.\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    Path("days").mkdir()
    return tmp_path


def cep(rules: str, *arguments: str, output: str = "out") -> Result:
    Path("rules.cep").write_text(rules)
    options = ["--checkpoint", "state", "--buckets", "2", "--lateness", "1 s", "--output", output]
    options += ["--output-format", "jsonl", "--once", *arguments]
    if not any(each.startswith("-i") for each in arguments):
        options += ["-i", "days"]
    result = CliRunner().invoke(app, ["run", "rules.cep", "--on", "spark", *options], prog_name="cep")
    assert result.exit_code == 0, result.stderr
    return result


def day(name: str, *rows: tuple[Any, ...], type: str = "heat") -> None:
    keys = "time", "room", "temp"
    records = [{"type": type} | dict(zip(keys, row)) for row in rows]
    Path("days", name).write_text("".join(json.dumps(record) + "\n" for record in records))


def written(folder: str, type: str) -> list[tuple[float, float]]:
    lines = [line for file in sorted(Path(folder).glob("part-*")) for line in file.read_text().splitlines()]
    rows = [row for row in map(json.loads, lines) if row["type"] == type]
    return sorted((_ticks(row["start"]) / 1e6, _ticks(row["end"]) / 1e6) for row in rows)


def told(result: Result) -> str:
    return " ".join(result.stderr.split())


def test_only_the_horizon_of_new_rules_is_taken(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day("1.jsonl", *((second, "loft", 60.0) for second in range(100)))
    cep(RULES)
    taken: list[int] = []
    whole = StageTask.taken

    def counted(self: StageTask, engine: Any, bucket: int, version: int, rows: Any, watermark: int) -> Any:
        if self.warms:
            taken.extend(unpack(row.rows).height for row in rows if row.event == "heat")
        return whole(self, engine, bucket, version, rows, watermark)

    monkeypatch.setattr(StageTask, "taken", counted)
    day("2.jsonl", (101, "loft", 70.0), (200, "loft", 20.0))
    result = cep(FEW, "--migrate")
    assert (
        "new rules have seen the input files from 1970-01-01T00:01:27.999999Z until 1970-01-01T00:01:37.999999Z"
        in told(result)
    )
    assert sum(taken) == 12, "from 88 s on"
    assert [pair for pair in written("out", "twice") if pair[1] == 101.0] == [(float(t), 101.0) for t in range(91, 100)]
    assert not [pair for pair in written("out", "twice") if pair[1] < 98.0], "it takes over there"


def test_files_that_are_gone_are_told(here: Path) -> None:
    day("1.jsonl", (1, "loft", 60.0))
    day("2.jsonl", (2, "loft", 60.0), (9, "attic", 1.0))
    cep(RULES)
    Path("days", "1.jsonl").unlink()
    day("3.jsonl", (9.5, "loft", 70.0), (60, "attic", 1.0))
    said = told(cep(FEW, "--migrate"))
    assert (
        "warning: new rules have seen the input files from 1970-01-01T00:00:02Z until 1970-01-01T00:00:07.999999Z"
        in said
    )
    assert (
        "and may lack results: line 3: twice (until 1970-01-01T00:00:17.999999Z); 1 file cannot be read any more"
        in said
    )
    assert written("out", "twice") == [(2.0, 9.5)]


def test_input_that_only_the_new_program_reads(here: Path) -> None:
    """New events are taken from files that were read, from unread ones, and from rows that wait for the watermark."""
    day("1.jsonl", (1, "loft", 60.0), (9, "attic", 1.0))
    with Path("days", "1.jsonl").open("a") as file:
        file.writelines(f'{{"type": "smoke", "time": {time}, "room": "loft"}}\n' for time in (2, 8.5))
    Path("doors.jsonl").write_text("".join(f'{{"time": {time}, "room": "loft"}}\n' for time in (3, 70)))
    cep(RULES)
    more = RULES + "event smoke(room: string).\nevent door(room: string).\n"
    more += "seen(R) <- heat(R, _) SEQ smoke(R).\nopened(R) <- smoke(R) SEQ door(R).\n"
    day("2.jsonl", (100, "attic", 1.0))
    cep(more, "--migrate", "-i", "days", "-i", "door=doors.jsonl")
    assert written("out", "seen") == [(1.0, 8.5)]
    assert written("out", "opened") == [(2.0, 70.0), (8.5, 70.0)]


WARM = "fluent warm(room: string).\ninitiate warm(R) <- heat(R, T) WHERE T > 50.\n"
COOL = "terminate warm(R) <- heat(R, T) WHERE T < 20.\n"


def test_a_changed_fluent_is_cut_where_the_new_program_takes_over(here: Path) -> None:
    day("1.jsonl", (1, "loft", 60.0), (5, "loft", 10.0), (6, "loft", 60.0), (9, "attic", 1.0))
    before = RULES + WARM + COOL
    cep(before)
    after = before.replace("T < 20", "T < 5")
    day("2.jsonl", (30, "loft", 1.0), (60, "attic", 1.0))
    cep(after, "--migrate")
    cut = 7.999999
    assert written("out", "warm") == [(1.0, 5.0), (6.0, cut), (cut, 30.0)]
    day("3.jsonl", (61, "loft", 80.0), (90, "attic", 1.0))
    cep(after + "some(R) <- heat(R, _) SEQ heat(R, _) WITHIN 1 s.\n", "--migrate")
    day("4.jsonl", (100, "loft", 1.0), (190, "attic", 1.0))
    cep(after + "some(R) <- heat(R, _) SEQ heat(R, _) WITHIN 1 s.\n")
    all = [(1.0, 5.0), (6.0, cut), (cut, 30.0), (61.0, 100.0)]
    assert written("out", "warm") == all, "it is the same in the third program"


def test_fluents_by_their_changes_end_and_begin_where_the_new_program_takes_over(here: Path) -> None:
    day("1.jsonl", (1, "loft", 60.0), (2, "hall", 60.0), (4, "hall", 10.0), (6, "hall", 60.0), (9, "attic", 1.0))
    cep(RULES + WARM + COOL, "--changes")
    day("2.jsonl", (30, "loft", 1.0), (60, "attic", 1.0))
    cep(RULES + WARM.replace("50", "40") + COOL.replace("20", "5"), "--migrate", "--changes")
    lines = [line for file in sorted(Path("out").glob("part-*")) for line in file.read_text().splitlines()]
    rows = sorted((_ticks(row["time"]), row["@edge"], row["room"], row["bounds"]) for row in map(json.loads, lines))
    cut = 7_999_999
    both = [
        (cut, edge, room, "[" if edge == "begins" else ")") for edge in ("begins", "ends") for room in ("hall", "loft")
    ]
    before = [
        (1, "begins", "loft", "("),
        (2, "begins", "hall", "("),
        (4, "ends", "hall", "]"),
        (6, "begins", "hall", "("),
    ]
    expected = [*((time * 1_000_000, *rest) for time, *rest in before), *both, (30_000_000, "ends", "loft", "]")]
    assert rows == expected


def test_what_came_live_is_not_kept(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day("1.jsonl", (1, "loft", 60.0), (9, "attic", 1.0))
    cep(RULES)
    monkeypatch.setattr("cep.app.spark_query.reach", lambda _: None)
    day("2.jsonl", (10, "loft", 70.0), (60, "attic", 1.0))
    Path("rules.cep").write_text(FEW)
    options = ["--checkpoint", "state", "--lateness", "1 s", "--output", "out", "--output-format", "jsonl", "--once"]
    asked = ["run", "rules.cep", "--on", "spark", *options, "--migrate", "-i", "days", "-i", "mqtt://127.0.0.1:1/heat"]
    said = told(CliRunner().invoke(app, asked, prog_name="cep"))
    assert "new rules have not seen the input until 1970-01-01T00:00:07.999999Z, and may lack results" in said
    assert "; the records of mqtt://127.0.0.1:1/heat are not kept. A run with other folders derives" in said


@pytest.mark.parametrize("revise", [[], ["--revise", "30 s"]])
def test_counts_go_on_from_records_of_before(revise: list[str], here: Path) -> None:
    key = "KEY room, temp" if revise else ""
    rules = f"event heat(room: string, temp: float) {key}.\nhot(R) <- heat(R, T) WHERE T > 90.\n"
    more = rules + "many(N) <- heat(R, T) AGGREGATE N = count() OVER LAST 1 h.\n"
    day("1.jsonl", (1, "loft", 60.0), (2, "loft", 61.0), (50, "attic", 1.0))
    cep(rules, *revise)
    day("2.jsonl", (60, "loft", 70.0), (190, "attic", 1.0))
    cep(more, "--migrate", *revise)
    lines = [line for file in sorted(Path("out").glob("part-*")) for line in file.read_text().splitlines()]
    counted = [json.loads(line)["n"] for line in lines if '"many"' in line and '"withdraw"' not in line]
    assert counted == [3, 4], "of two records of before"
