"""`migrate=True`: a query over DataFrames goes on with other rules, as `cep run --on spark --migrate` does."""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from cep.core.compilation import Compilation
from cep.core.errors import CepError
from cep.events import Event
from cep.spark import Events, Rules, spark_files
from cep.spark.micro_batch import MicroBatch
from cep.spark.sink.file_sink import FileWriter
from cep.spark.state.batch_notes import BatchNotes
from cep.spark.state.checkpoint import CheckpointInfo, claim, output_changes
from tests import spark_runs
from tests.cases_format import difference
from tests.live_programs import BEGINNING, END, Reading, RevisedRules, Row
from tests.local_spark import install
from tests.program_maker import SECOND
from tests.serving import EIGHT
from tests.test_spark_former_fluents import Killed, cep, dies, intervals, net, took_over, written
from tests.test_spark_frames import (
    INSTANT,
    LAST,
    ROWS,
    ZONES,
    _ticks,
    before_the_last,
    collected,
    found_columns,
    instant,
    one_process,
    settings,
    tables,
)
from tests.test_spark_migration import begin, kept

pytestmark = [
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("spark"),
]

CUTS: list[tuple[Any, str]] = [
    (spark_files, "carry"), (CheckpointInfo, "write"), (MicroBatch, "run"), (BatchNotes, "write"),
    (FileWriter, "commit"),
]  # fmt: skip
"""Functions that write in a run that migrates. A run is killed before or after a call."""

Log = dict[int, Counter[Row]]
"""The rows of each micro-batch, as a function receives them."""


def write_rows(number: int, readings: Sequence[Reading]) -> None:
    """Write a file that a DataFrame reads, and one that `cep run` reads."""
    Path("frames").mkdir(exist_ok=True)
    Path("days").mkdir(exist_ok=True)
    times, fridges, temps = zip(*readings)
    columns = {"time": pa.array([instant(EIGHT + at) for at in times], INSTANT), "fridge": fridges, "temp": temps}
    file = Path("frames", f"{number}.parquet")
    pq.write_table(pa.table({**columns, "number": pa.array([at // 1000 for at in times], pa.int64())}), file)
    os.utime(file, (1_000 + number, 1_000 + number))
    lines = [json.dumps({"time": (EIGHT + at) / 1e6, "fridge": f, "temp": t}) for at, f, t in readings]
    Path("days", f"{number}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def rows_of(events: Events) -> Counter[Row]:
    """The rows that a function receives, as `net` returns those of files."""
    found: Counter[Row] = Counter()
    for event, frame in events.items():
        for row in frame.toArrow().to_pylist():
            names = sorted(row.keys() - {"start", "end", "bounds", "@id", "@change", "@version"})
            end = END if row["end"] is None else _ticks(row["end"])
            key = (event, *(row[name] for name in names if row[name] is not None), _ticks(row["start"]), end)
            found[key] += -1 if row.get("@change") == "withdraw" else 1
    return found


def run(text: str, log: Log | None, output: str = "out", **options: Any) -> None:
    """Process all rows that are there, and end. `log`: the log that a function writes, or None to write files."""
    names = ("buckets", "revise", "final")
    over = {name: options.pop(name) for name in names if name in options}

    def take(events: Events, batch: int) -> None:
        assert log is not None
        rows = rows_of(events)
        assert log.setdefault(batch, rows) == rows, "a micro-batch is given with other rows"

    with settings(zone=ZONES[0], partitions="3", aqe="true") as spark:
        frame = spark.readStream.schema("time timestamp, fridge string, temp double, number long")
        frame = frame.option("maxFilesPerTrigger", 1).parquet(str(Path("frames").absolute()))
        stream = Rules.from_text(text).over({"reading": frame}, order={"reading": "number"}, **over)
        options |= {"checkpoint": Path("state").absolute(), "available_now": True}
        if log is None:
            query = stream.start(output=Path(output).absolute(), format="jsonl", **options)
        else:
            query = stream.each(take, **options)
        query.awaitTermination()


def some_readings(random: Random, at: int) -> list[Reading]:
    found: list[Reading] = []
    for _ in range(random.randrange(5, 25)):
        at += random.choice((1, 500, 1000, 3000)) * 1000
        found.append((at, random.choice("ab"), float(random.randrange(10))))
    return found


def check(random: Random, given: bool, options: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that follow each other over DataFrames derive what they derive in `cep run`, whose new rules find no
    earlier files either.

    `given`: True if a function receives the rows.
    """
    versions, log = RevisedRules.edits(random, 2), Log() if given else None
    at, output = 0, "out"
    flags = ["--revise", options["revise"]] if "revise" in options else []
    flags += ["--final"] if "final" in options else []
    for number, rules in enumerate(versions):
        readings = some_readings(random, at)
        at = readings[-1][0]
        output = output if given else random.choice((output, f"out{number}"))
        buckets = 3 if flags else random.choice((1, 3))
        for place in ("frames", "cep"):
            (folder / place).mkdir(exist_ok=True)
            monkeypatch.chdir(folder / place)
            write_rows(number, readings)
        Path("days", f"{number - 1}.jsonl").unlink(missing_ok=True)
        with monkeypatch.context() as patch:
            install(patch)
            migrate = ["--migrate"] if number else []
            cep(rules.text, *flags, *migrate, "--buckets", str(buckets), "-i", "reading=days", "--once", output=output)
            begin = took_over() if number else BEGINNING
        monkeypatch.chdir(folder / "frames")
        asked = {**options, "buckets": buckets, "migrate": number > 0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for where, name in random.sample(CUTS, 1) if number else ():
                with monkeypatch.context() as patch:
                    patch.setattr(where, name, dies(getattr(where, name), random.random() < 0.5))
                    with pytest.raises((Killed, StreamingQueryException)):
                        run(rules.text, log, output, **asked)
            run(rules.text, log, output, **asked)
        assert (took_over() if number else BEGINNING) == begin
        found = +sum(log.values(), Counter[Row]()) if log is not None else net(intervals(written()))
        monkeypatch.chdir(folder / "cep")
        expected = net(intervals(written()))
        assert found == expected, (number, versions, found - expected, expected - found)
    assert log is None or sorted(log) == list(range(len(log)))


@pytest.mark.long
@pytest.mark.parametrize("given", [False, True], ids=["start", "each"])
@pytest.mark.parametrize("options", [{}, {"revise": "5 s"}], ids=["plain", "revise"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("SEMCEP_PROGRAMS", "20")) // 10))
def test_programs_follow_each_other(
    seed: int, options: dict[str, Any], given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the middle of each migration, in other numbers of buckets, with fluents that end."""
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    check(Random(f"frames migrate {seed} {given} {options}"), given, options, tmp_path, monkeypatch)


def test_a_run_that_migrates_writes_up_to_its_watermark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the last micro-batch has the number of one of the former program that moved the watermark."""
    install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    rules = "event reading(fridge: string, temp: float) TIME time.\nhot(F) <- reading(F, T) WHERE T > 5.\n"
    for number in range(4):
        write_rows(number, [(number * 10_000_000 + at * 1_000_000, "a", 9.0) for at in range(3)])
        more = "".join(f"cold{n}(F) <- reading(F, T) WHERE T < {n}.\n" for n in range(number))
        cep(rules + more, *["--migrate"][:number], "-i", "reading=days", "--once", "--files", "1")
        ends = [row[-1] for row in net(written()).elements() if row[0] == "hot"]
        assert len(ends) == 3 * number + 2, "the last one waits for a later record"


PLAIN = """event reading(fridge: string, temp: float) TIME time.
pair(F, A, B) <- reading(F, A) SEQ reading(F, B) WITHIN 20 s POLICY recent.
"""
FLUENT = """fluent warm(fridge: string) = why: string.
initiate warm(F) = "hot" <- reading(F, T) WHERE T > 5.
terminate warm(F) = _ <- reading(F, T) WHERE T < 2.
"""
HIGH = "high(F) <- reading(F, T) WHERE T > 6.\nseen(F) <- reading(F, _) SEQ reading(F, _) WITHIN 3 s.\n"


def test_a_function_receives_the_last_micro_batch_of_the_former_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It raised in it. Then the last intervals of a fluent that is gone come with the first one of the new rules."""
    monkeypatch.chdir(tmp_path)
    calls: list[tuple[int, Counter[Row], list[str]]] = []

    def go(text: str, fails: bool = False, **options: Any) -> None:
        def take(events: Events, batch: int) -> None:
            calls.append((batch, rows_of(events), sorted(events)))
            if fails and len(calls) == 2:
                raise ValueError("no room")

        with settings(zone=ZONES[0]) as spark:
            frame = spark.readStream.schema("time timestamp, fridge string, temp double, number long")
            frame = frame.parquet(str(tmp_path / "frames"))
            stream = Rules.from_text(text).over({"reading": frame}, order={"reading": "number"}, buckets=2)
            stream.each(take, checkpoint=tmp_path / "state", available_now=True, **options).awaitTermination()

    write_rows(0, [(1_000_000, "a", 9.0), (2_000_000, "b", 4.0), (4_000_000, "a", 3.0), (9_000_000, "b", 4.0)])
    with pytest.raises(StreamingQueryException, match="no room"):
        go(PLAIN + FLUENT, fails=True)
    with pytest.raises(CepError, match=r"belongs to another program(.|\n)*or add `migrate=True`"):
        go(PLAIN + HIGH)
    until = "until 2024-05-01T08:00:"
    with pytest.warns(
        UserWarning, match=f"new rules have not seen the input {until}(.|\n)*line 4: seen(.|\n)*`reading`"
    ):
        go(PLAIN + HIGH, migrate=True)
    write_rows(1, [(11_000_000, "a", 8.0), (12_000_000, "a", 1.0), (99_000_000, "a", 1.0)])
    go(PLAIN + HIGH)
    batches = [batch for batch, *_ in calls]
    assert batches == [0, 1, 1, *range(2, len(calls) - 1)]
    assert calls[1][1] == calls[2][1] and calls[1][1], "the same rows"
    assert calls[1][2] == ["pair", "warm"] and calls[2][2] == ["high", "pair", "seen", "warm"]
    assert calls[3][1] == {("warm", "a", "hot", EIGHT + 1_000_000, EIGHT + 8_999_999): 1}
    assert calls[-1][2] == ["high", "pair", "seen"]
    found = sum((rows for _, rows, _ in [calls[0], *calls[2:]]), Counter[Row]())
    assert sum(found[row] for row in found if row[0] == "pair") == 4 and found.total() == 4 + 1 + 1 + 1


def test_what_cannot_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other DataFrames, whose positions Spark does not have, and a declaration with other attributes."""
    before = kept(PLAIN, tmp_path, frames=["reading"])
    claim(tmp_path / "state", before)
    begin(tmp_path / "state")
    for frames in (["reading", "door"], ["door"], []):
        with pytest.raises(CepError) as refused:
            claim(tmp_path / "state", kept(PLAIN + HIGH, tmp_path, frames=frames), True)
        listed = ", ".join(frames) or "none"
        assert f"Spark continues only with the same DataFrames: reading before, {listed} now" in str(refused.value)
        assert "migrate" not in str(refused.value)
    with pytest.raises(CepError, match="`reading` has other attributes: string, float before, string, int now"):
        claim(tmp_path / "state", kept(PLAIN.replace("float", "int"), tmp_path, frames=["reading"]), True)
    each = replace(before, output=str(tmp_path / "state" / "outgoing"), format="parquet")
    assert output_changes(each, replace(each, only=["pair", "high"]), tmp_path / "state" / "outgoing") == []
    (reason,) = output_changes(each, replace(each, revise=9), tmp_path / "state" / "outgoing")
    assert reason.endswith("only final rows before, a changelog now: start anew with another checkpoint")


def test_a_fluent_with_another_type_needs_another_name(tmp_path: Path) -> None:
    """A function receives the last intervals of the former fluent with the first ones of the new fluent."""
    other = FLUENT.replace("why: string", "why: float").replace('= "hot"', "= T")
    whole = other.replace("why: float", "why: int").replace("= T", "= 1")
    given: dict[str, Any] = {
        "frames": ["reading"],
        "format": "parquet",
        "output": str(tmp_path / "state" / "outgoing"),
    }
    claim(tmp_path / "state", kept(PLAIN + FLUENT, tmp_path, **given))
    begin(tmp_path / "state")
    with pytest.raises(CepError) as refused:
        claim(tmp_path / "state", kept(PLAIN + other, tmp_path, **given), True)
    assert refused.value.message.endswith(
        "attribute `why` of the fluent `warm`: string before, double now: give the new fluent another name"
    )
    numbers = kept(PLAIN + whole, tmp_path, **given), kept(PLAIN + other, tmp_path, **given)
    assert output_changes(*numbers, tmp_path / "state" / "outgoing") == []
    files = [replace(info, output=str(tmp_path / "out")) for info in numbers]
    (reason,) = output_changes(*files, tmp_path / "state" / "outgoing")
    assert reason.startswith("--output: column `why`: int64 before, double now: use another folder")


BOTH = """event reading(station: string, wind: float).
event door(station: string).
gust(S, V, W) <- (reading(S, V) SEQ reading(S, W)) WITHIN 3 s WHERE W > V + 2.
after(S, W) <- door(S) SEQ reading(S, W) WITHIN 4 s.
"""


@pytest.mark.long
def test_two_dataframes_go_on(tmp_path: Path) -> None:
    """The rules that go on derive what one process does. A run with other sources fails, and the next one goes on."""
    arriving = [*ROWS, *(Event("door", (letter,), n * SECOND, n * SECOND) for n in range(0, 60, 7) for letter in "ab")]
    arriving = [*sorted(arriving, key=lambda event: (event.end, event.type)), Event("door", ("a",), LAST, LAST)]
    expected = before_the_last(one_process(BOTH, arriving, tmp_path))
    schemas = Rules.from_text(BOTH).inputs
    added = BOTH + "open(S) <- door(S).\n"
    begins: list[tuple[str, int, dict[str, Any]]] = [(BOTH, 2, {}), (added, 2, {"migrate": True}), (added, 3, {})]
    with settings(zone=ZONES[1], partitions="3") as spark:
        for number, (text, buckets, options) in enumerate(begins):
            first, last = (len(arriving) * part // len(begins) for part in (number, number + 1))
            given = {}
            for name, rows in tables(schemas, arriving[first:last], first).items():
                (tmp_path / "rows" / name).mkdir(parents=True, exist_ok=True)
                pq.write_table(rows, tmp_path / "rows" / name / f"{number}.parquet")
                kinds = spark.createDataFrame(rows.slice(0, 0)).schema
                given[name] = spark.readStream.schema(kinds).parquet(str(tmp_path / "rows" / name))
            stream = Rules.from_text(text).over(given, order=dict.fromkeys(schemas, "number"), buckets=buckets)
            places: dict[str, Any] = {
                "output": tmp_path / "out",
                "checkpoint": tmp_path / "state",
                "available_now": True,
            }
            if number == 2:
                other = {**given, "door": given["door"].union(given["door"].where("number < 0"))}
                wrong = Rules.from_text(text).over(other, order=dict.fromkeys(schemas, "number"), buckets=buckets)
                with pytest.raises(StreamingQueryException, match="sources in the checkpoint offsets"):
                    wrong.start(**places).awaitTermination()
            stream.start(**places, **options).awaitTermination()
        rules, written_rows = Rules.from_text(BOTH), spark.read.parquet(str(tmp_path / "out"))
        parts = {name: written_rows.where(f"type = '{name}'") for name in rules.outputs}
        derived = {name: rows.select(found_columns(rules, name)) for name, rows in parts.items()}
        found = collected(derived, rules.outputs)
    assert difference(expected, before_the_last(found)) == ""
