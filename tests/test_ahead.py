"""A clock that is wrong: what live input refuses, what is kept in the journal, and what warns of a jump of time."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from typer.testing import CliRunner

from cep.app.durations import ahead_limits
from cep.app.pipeline import Interrupt, flow
from cep.command import app
from cep.connectors.ahead_limits import AHEAD, LIVE, AheadLimits
from cep.connectors.brokers.messages import Inbox, Messages
from cep.connectors.brokers.sources import Sources
from cep.connectors.clock_skew import DAY, place_of, without_ahead
from cep.connectors.dead_letters import DeadLetters
from cep.connectors.files import read, replay
from cep.connectors.inputs import inputs
from cep.connectors.journal import Journal
from cep.connectors.records.batch import Batch
from cep.core.errors import CepError
from cep.engine import Engine
from cep.runtime.report import Report
from cep.runtime.run_stats import RunStats
from cep.spark.driver.remarks import InputRemarks
from tests.serving import EIGHT, MINUTE
from tests.test_serve import PAIRS, Server

PLACE = "mqtt://h/readings"


def batch(*times: int, text: str = PAIRS) -> Batch:
    """Records at these times, as a broker brings them."""
    schemas = Engine.from_text(text).inputs
    (found,) = inputs([f"reading={PLACE}"], schemas, None)
    payloads = [json.dumps({"time": at / 1e6, "fridge": "milk", "temp": 4}).encode() for at in times]
    return Inbox(found, schemas).batch(Messages([PLACE] * len(times), range(1, len(times) + 1), payloads), 0)


def test_live_input_refuses_what_is_ahead_of_the_clock(tmp_path: Path) -> None:
    """Once: a replay of the journal asks no clock."""
    come = batch(EIGHT, EIGHT + AHEAD + 1, EIGHT + AHEAD, EIGHT + 400 * DAY)
    kept = without_ahead(come, AHEAD, EIGHT)
    assert kept.tables["reading"]["start"].to_list() == [EIGHT, EIGHT + AHEAD]
    assert [(one.code, one.file, one.line) for one in kept.dead] == [("ahead", PLACE, 2), ("ahead", PLACE, 4)]
    assert kept.dead[1].reason == (
        "2025-06-05T08:00:00Z is 400 d ahead of the clock (2024-05-01T08:00:00Z), more than 5 min: a clock is wrong"
    )
    assert json.loads(kept.dead[1].text or "")["temp"] == 4
    assert without_ahead(come, AHEAD, EIGHT + 400 * DAY) is come and without_ahead(come, None, EIGHT) is come
    schemas = Engine.from_text(PAIRS).inputs
    with closing(Journal(tmp_path, schemas)) as journal:
        journal.add(kept)
    with closing(Journal(tmp_path, schemas)) as journal:
        again, _ = journal.replayed()
        assert again.tables["reading"].equals(kept.tables["reading"]) and again.dead == kept.dead


def test_a_fluent_without_an_end_is_judged_by_its_beginning() -> None:
    ends = pl.Series([EIGHT, None, None, EIGHT + DAY], dtype=pl.Int64)
    table = pl.DataFrame({"start": [EIGHT, EIGHT, EIGHT + DAY, EIGHT], "end": ends, "@order": range(4)})
    come = batch(EIGHT, EIGHT, EIGHT, EIGHT)
    held = Batch({"open": table}, [], come.blocks)
    assert without_ahead(held, AHEAD, EIGHT).tables["open"]["@order"].to_list() == [0, 1]


@pytest.mark.parametrize("served", [False, True])
def test_a_pipe_is_live_at_a_server(served: bool, tmp_path: Path) -> None:
    """`cep run` takes it as it takes a file."""
    tomorrow = time.time_ns() // 1000 + DAY
    lines = [json.dumps({"time": at / 1e6, "fridge": "milk", "temp": 4}) + "\n" for at in (EIGHT, tomorrow)]
    (tmp_path / "some.jsonl").write_text("".join(lines))
    schemas = Engine.from_text(PAIRS).inputs

    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as out:
        out.write("".join(lines).encode())
    with os.fdopen(reading, "rb") as pipe:
        found = list(read(["reading=-"], schemas, stdin=pipe, sources=Sources(lasting=served)))
    assert [one.code for each in found for one in each.dead] == ["ahead"] * served
    file = [f"reading={tmp_path / 'some.jsonl'}"]
    assert not [one for each in read(file, schemas, sources=Sources(lasting=served)) for one in each.dead]


@pytest.mark.parametrize("given", [read, replay])
def test_the_option_judges_all_input(given: Any, tmp_path: Path) -> None:
    times = [EIGHT, time.time_ns() // 1000 + 20 * MINUTE, EIGHT + MINUTE]
    lines = [json.dumps({"time": at / 1e6, "fridge": "milk", "temp": 4}) + "\n" for at in times]
    (tmp_path / "some.jsonl").write_text("".join(lines))
    schemas = Engine.from_text(PAIRS).inputs

    def dead(limits: AheadLimits) -> list[tuple[str, int]]:
        file = [f"reading={tmp_path / 'some.jsonl'}"]
        return [(d.code, d.line) for one in given(file, schemas, sources=Sources(ahead=limits)) for d in one.dead]

    assert dead(ahead_limits("15min")) == [("ahead", 2)]
    assert dead(ahead_limits("1h")) == dead(ahead_limits("never")) == dead(LIVE) == []
    with pytest.raises(CepError, match="--ahead: `soon` is not a valid duration") as error:
        ahead_limits("soon")
    assert "`--ahead never` accepts every record" in (error.value.hint or "")


def test_a_run_refuses_what_is_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"time": at, "fridge": "milk", "temp": 4}) for at in ("2099-01-01", "2024-01-01")]
    Path("some.jsonl").write_text("\n".join(lines))
    Path("pairs.cep").write_text(PAIRS)
    run = ["run", "pairs.cep", "--input", "reading=some.jsonl", "--dead-letter", "dead.jsonl"]
    result = CliRunner().invoke(app, [*run, "--ahead", "1h", "--workers", "2"])
    (letter,) = map(json.loads, Path("dead.jsonl").read_text().splitlines())
    assert result.exit_code == 0 and (letter["code"], letter["line"]) == ("ahead", 1), result.output
    result = CliRunner().invoke(app, run)
    assert not Path("dead.jsonl").read_text() and "ahead of the clock" in result.stderr


def test_a_micro_batch_that_is_repeated_asks_no_clock(tmp_path: Path) -> None:
    """Its plan has the time when it was made."""
    pytest.importorskip("pyspark")
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from cep.spark.source.data_source import FileReader, SparkSourceOptions
    from tests.spark_runs import job

    moment = time.time_ns() // 1000
    lines = [json.dumps({"time": at / 1e6, "fridge": "milk", "temp": 4}) + "\n" for at in (moment, moment + DAY)]
    (tmp_path / "some.jsonl").write_text("".join(lines))
    inputs = (f"reading={tmp_path / 'some.jsonl'}",)

    def planned(limits: AheadLimits) -> tuple[FileReader, dict[str, Any], dict[str, Any]]:
        made = job(PAIRS, inputs, tmp_path, dead_letters=str(tmp_path), mark="dead", ahead=limits)
        reader = FileReader(SparkSourceOptions.of(made, closing=True))
        begin = reader.initialOffset()
        return reader, begin, reader.latestOffset(begin, ReadAllAvailable())

    reader, begin, end = planned(AheadLimits(files=AHEAD))
    assert moment <= end["clock"] <= time.time_ns() // 1000
    assert reader.latestOffset(end, ReadAllAvailable())["clock"] == end["clock"], "nothing has come"
    for clock, refused in ((end["clock"], 1), (moment + DAY, 0)):
        (item, *_) = reader.partitions(begin, end | {"clock": clock})
        list(reader.blocks(item, str(tmp_path / f"dead{refused}")))
        letters = [line for file in tmp_path.glob(f"dead{refused}*") for line in file.read_text().splitlines()]
        assert [json.loads(one)["code"] for one in letters] == ["ahead"] * refused
    assert "clock" not in planned(LIVE)[2], "no file is judged"


def warned(*batches: Batch, lateness: int = 0) -> list[str]:
    engine, stats = Engine.from_text(PAIRS, lateness=lateness), RunStats()
    flow(engine, iter(batches), stats, lambda batch, derived: None, DeadLetters(), Interrupt())
    return [text for text in stats.remarks if "clock" in text]


def test_files_warn_of_a_jump_and_of_what_is_ahead_of_the_clock() -> None:
    """A gap that makes nothing late is none."""
    assert not warned(batch(EIGHT), batch(EIGHT + 9 * DAY), batch(EIGHT + 10 * DAY))
    (jumped,) = warned(batch(EIGHT), batch(EIGHT + 9 * DAY), batch(EIGHT + MINUTE), batch(EIGHT + 2 * MINUTE))
    place = place_of(batch(EIGHT), EIGHT)
    assert place is not None and place.startswith(batch(EIGHT).blocks[0].file) and place_of(batch(EIGHT), 0) is None
    assert jumped.startswith(
        f"the times of the input have jumped by 9 d, to 2024-05-10T08:00:00Z ({place}), and records that came after"
    )
    ahead = time.time_ns() // 1000 + 3 * DAY
    (far,) = warned(batch(EIGHT), batch(ahead))
    assert f"({place}) is 3 d ahead of the clock" in far and "remove the record" in far
    assert not warned(batch(EIGHT), batch(ahead - 2 * DAY - MINUTE))


def test_spark_warns_at_once() -> None:
    remarks = InputRemarks(Engine.from_text(PAIRS).inputs)
    assert remarks.take([Report(read={"reading": 1}, latest=EIGHT)]) == []
    assert remarks.take([Report(read={"reading": 1}, latest=EIGHT + 9 * DAY, place="b.csv:7")]) == []
    late = Report(stage=1, late={"reading": 1})  # type: ignore[arg-type]
    (text,) = remarks.take([Report(read={"reading": 1}, latest=EIGHT), late])
    assert "jumped by 9 d, to 2024-05-10T08:00:00Z (b.csv:7)" in text and remarks.take([late]) == [], "once"


def test_spark_does_not_blame_one_clock_where_each_key_has_its_own() -> None:
    remarks = InputRemarks(Engine.from_text(PAIRS).inputs, by_key=True)
    assert remarks.take([Report(read={"reading": 1}, latest=EIGHT)]) == []
    assert remarks.take([Report(read={"reading": 1}, latest=EIGHT + 9 * DAY)]) == []
    late = Report(stage=1, late={"reading": 1})  # type: ignore[arg-type]
    assert remarks.take([Report(read={"reading": 1}, latest=EIGHT), late]) == []


def test_spark_warns_of_what_an_earlier_run_has_taken() -> None:
    """The watermark of the checkpoint is ahead of the clock: all that comes is late."""
    remarks = InputRemarks(Engine.from_text(PAIRS).inputs)
    ahead = time.time_ns() // 1000 + 3 * DAY
    step = Report(stage=1, late={"reading": 1}, watermark=ahead)
    (text,) = remarks.take([Report(read={"reading": 1}, latest=EIGHT), step])
    assert "3 d ahead of the clock" in text and "new --checkpoint" in text and remarks.take([step]) == []


def test_a_server_says_how_many(tmp_path: Path) -> None:
    """Records after one of the year 2099 are not late."""
    (tmp_path / "pairs.cep").write_text(PAIRS)
    server = Server(str(tmp_path / "pairs.cep"), "--input", "-", "--idle", "never")
    server.say(0, "milk", 4.0)
    assert server.process.stdin is not None
    server.process.stdin.write('{"time": "2099-01-01T00:00:00Z", "fridge": "milk", "temp": 9}\n')
    for minute in (1, 2, 3):
        server.say(minute, "milk", 4.0 + minute)
    assert len(server.rows(count=3)) == 3
    ready = httpx.get(server.url + "/ready")
    assert (ready.status_code, ready.json()) == (200, {"status": "ok", "ahead": 1})
    assert 'semcep_dead_letters_total{reason="ahead"} 1.0' in httpx.get(server.url + "/metrics").text
    server.process.kill()
    Server.running.remove(server.process)
