"""The folder of a job with fluents, read again by a server: the intervals and alerts that one process gives."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from cep.connectors.alerts.listener import AlertListener
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.service import Relay, Round, Service
from cep.connectors.writing.layout import ParquetLayout
from cep.connectors.writing.writers import json_lines
from cep.core.errors import CepError
from cep.core.fluents import EDGES
from cep.core.identity import ID
from cep.core.schema import Schema
from cep.engine import Engine
from cep.events import Event
from cep.runtime.run_stats import RunStats
from cep.spark.sink.commit_log import CommitLog, OutputFile
from cep.spark.sink.reader import SinkReader

PROGRAM = """event reading(station: string, temp: float) TIME time.
fluent warm(station: string).
fluent level(station: string) = height: float.
fluent mild(station: string).
fluent long(station: string).
fluent wet(station: string, by: string?) START s END e.
initially warm(grz).
initiate warm(S) <- reading(S, T) WHERE T > 20.
terminate warm(S) <- reading(S, T) WHERE T <= 20.
initiate level(S) = T <- reading(S, T).
mild(S) WHILE ONCE[0, 3 s] warm(S) AND NOT wet(S, _).
long(S) WHILE mild(S) LASTING >= 5 s.
up(S, A, B) <- (reading(S, A) SEQ reading(S, B)) WITHIN 4 s WHERE B > A.
"""
ALERTS = """ALERT heat ON warm(S) SEVERITY "Minor" TITLE "{S} is warm" FOR 5 s.
ALERT fine ON mild(S) WHERE S != vie SEVERITY "Minor" TITLE "{S} is mild" FOR 5 s.
ALERT high ON level(S) = H WHERE H > 20 SEVERITY "Minor" TITLE "{S} is at {H}" FOR 5 s KEYED BY S.
ALERT rain ON wet(S, _) SEVERITY "Minor" TITLE "{S} is wet" FOR 5 s KEYED BY S.
ALERT dull ON mild(S) SEVERITY "Minor" TITLE "some are mild" FOR 5 s KEYED BY S.
ALERT lasting ON warm(S) SEVERITY "Minor" TITLE "{S} stays warm" AFTER 2 s KEEP 3 s ESCALATE "Severe" AFTER 4 s.
ALERT rise ON up(S, A, B) SEVERITY "Minor" TITLE "{S} rises to {B}" FOR 5 s KEYED BY S.
ALERT rising ON up(S, A, B) SEVERITY "Minor" TITLE "{S} rises to {B}" FOR 5 s KEYED BY S AFTER 2 s.
ALERT muted ON level(S) = H WHERE H > 20 SEVERITY "Minor" TITLE "{S}" KEYED BY S INHIBITED BY mild(S).
ALERT dry ON level(S) = H WHERE H > 20 SEVERITY "Minor" TITLE "{S}" KEYED BY S INHIBITED BY warm(S).
ALERT damped ON up(S, A, B) SEVERITY "Minor" TITLE "{S}" FOR 5 s KEYED BY S INHIBITED BY heat(s: S).
"""
SECOND = 1_000_000


class Job:
    """Writes micro-batches into a folder, as Spark's tasks do."""

    def __init__(self, folder: Path, schemas: Mapping[str, Schema], format: str) -> None:
        self.folder, self.schemas, self.format, self.number = folder, schemas, format, 0
        folder.mkdir()

    def batch(self, tables: Mapping[str, pl.DataFrame]) -> None:
        log, layout, files = CommitLog(self.folder), ParquetLayout(self.schemas), []
        for task, (event, table) in enumerate(tables.items()):
            if not table.height:
                continue
            parquet = self.format == "parquet"
            folder = f"type={event}/" if parquet and not layout.single else ""
            name = f"{folder}part-{task:05}-x{self.number}.{self.format}"
            at = log.coming(name)
            at.parent.mkdir(parents=True, exist_ok=True)
            if parquet:
                pq.write_table(layout.table(event, table), at)
            else:
                at.write_bytes(json_lines({event: table}, self.schemas, ("iso", "seconds")[self.number % 2], False))
            files.append(OutputFile.of(at, self.folder / name, {event: table.height}))
        log.add(self.number, files)
        self.number += 1


def pushes(seed: int) -> list[list[Event]]:
    """Events and records in the order of their times, cut anywhere; each is after all of those before it."""
    rng = random.Random(seed)
    found: list[list[Event]] = [[]]
    for time in range(1, 90):
        for station in rng.sample(["vie", "grz", "lnz"], rng.randrange(3)):
            found[-1].append(Event("reading", (station, rng.choice((10.0, 25.0, 30.0))), time * SECOND, time * SECOND))
        if rng.random() < 0.2:
            end = time + rng.randrange(1, 9)
            found[-1].append(
                Event("wet", (rng.choice(["vie", "grz"]), rng.choice([None, "x"])), time * SECOND, end * SECOND)
            )
        if rng.random() < 0.3:
            found.append([])
    return [each for each in found if each]


def edges_of(engine: Engine) -> dict[str, Schema]:
    taken = (schema for name, schema in engine.plan.schemas.items() if name in engine.plan.inputs)
    return {each.fluent.name: each for each in taken if each.fluent is not None and each.fluent.part == EDGES}


def intervals(rounds: list[Round]) -> dict[str, list[tuple[object, ...]]]:
    """What was given of each event and fluent, with its round."""
    found: dict[str, list[tuple[object, ...]]] = {}
    for one in rounds:
        for name, table in one.derived.items():
            columns = [column for column in table.columns if column != ID]
            rows = table.select(*sorted(columns), ID).rows()
            found.setdefault(name, []).extend((one.number, *row) for row in rows)
    return {name: sorted(rows, key=str) for name, rows in sorted(found.items())}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_what_begins_and_ends_is_served_as_one_process_serves_it(tmp_path: Path, format: str, seed: int) -> None:
    text = PROGRAM + ALERTS
    here = Service(Engine.from_text(text, alerts=True, begins=True), text, "p", RunStats())
    job_engine = Engine.from_text(PROGRAM, changes=True)
    whole = Engine.from_text(text, alerts=True, begins=True)
    alert_engine = Engine.from_text(text, alerts=True, lateness=None, stage=0)
    there = Relay(whole, text, "p", RunStats(), alert_engine)
    rounds: tuple[list[Round], list[Round]] = ([], [])
    with closing(Outbox(None)) as mine, closing(Outbox(None)) as other:
        for service, outbox, each in ((here, mine, rounds[0]), (there, other, rounds[1])):
            service.listen(AlertListener(service.engine, outbox))
            service.listen(each.append)
        job = Job(tmp_path / "out", job_engine.outputs, format)
        folder = SinkReader(str(tmp_path / "out"), whole.outputs, edges_of(alert_engine))
        for each in pushes(seed):
            watermark = each[-1].start - 1
            here.engine.advance_only()
            here.engine.receive(each)
            here.take(None, here.engine.advance(watermark))
            job_engine.advance_only()
            job_engine.receive(each)
            job.batch(job_engine.advance(watermark))
            before = len(rounds[1])
            for batch in folder.new():
                assert not batch.dead
                alert_engine.receive(batch.tables)
                assert not alert_engine.take_dead()
                reached = alert_engine.watermark if batch.watermark is None else batch.watermark
                there.take(batch, alert_engine.advance(reached))
            if len(rounds[1]) == before:  # nothing was written, so there is no round
                there.take(None, {})
        changes = [[entry.change for entry in outbox.between(0, outbox.last)] for outbox in (mine, other)]
    expected = intervals(rounds[0])
    assert set(expected) == {"warm", "level", "mild", "long", "wet", "up"}
    assert intervals(rounds[1]) == expected
    assert any(row[3] is None for row in expected["warm"])
    for name in ("heat", "fine", "high", "rain", "dull", "rise", "lasting", "rising", "muted", "dry", "damped"):
        own = [[(c.time, c.state, c.title, c.inhibited) for c in each if c.name == name] for each in changes]
        assert own[1] and own[1] == own[0][: len(own[1])], name
    for name in ("muted", "dry"):  # `warm(grz)` and what follows from it hold initially
        assert next(c for c in changes[1] if c.name == name and c.key["station"] == "grz").inhibited


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_intervals_are_served_when_they_are_complete(tmp_path: Path, format: str) -> None:
    engine = Engine.from_text(PROGRAM)
    job = Job(tmp_path / "out", engine.outputs, format)
    given: dict[str, list[tuple[object, ...]]] = {}
    for each in pushes(3):
        made = engine.push(each)
        job.batch(made)
        for name, table in made.items():
            given.setdefault(name, []).extend(table.rows())
    made = engine.close()
    job.batch(made)
    for name, table in made.items():
        given.setdefault(name, []).extend(table.rows())
    folder, found = SinkReader(str(tmp_path / "out"), engine.outputs), {}
    for batch in folder.new():
        assert not batch.dead
        for name, table in (batch.tables | batch.held).items():
            found.setdefault(name, []).extend(table.drop("@order", strict=False).rows())
    assert {name: sorted(rows, key=str) for name, rows in found.items()} == {
        name: sorted(rows, key=str) for name, rows in given.items() if rows
    }
    assert any(row[0] is None for row in found["warm"]) and any(row[1] is None for row in found["warm"])
    alert_engine = Engine.from_text(PROGRAM + ALERTS, alerts=True, lateness=None, stage=0)
    with pytest.raises(CepError, match="it has only complete intervals of `level`, and no beginnings") as refused:
        list(SinkReader(str(tmp_path / "out"), engine.outputs, edges_of(alert_engine)).new())
    assert "run the job with `--changes`" in str(refused.value)


def test_what_holds_initially_may_be_known_later(tmp_path: Path) -> None:
    """A bucket of the job may begin later than others; what it says inhibits from then on."""
    text = PROGRAM + ALERTS
    job_engine = Engine.from_text(PROGRAM, changes=True)
    whole = Engine.from_text(text, alerts=True, begins=True)
    alert_engine = Engine.from_text(text, alerts=True, lateness=None, stage=0)
    service = Relay(whole, text, "p", RunStats(), alert_engine)
    job, later = Job(tmp_path / "out", job_engine.outputs, "jsonl"), dict[str, pl.DataFrame]()
    folder = SinkReader(str(tmp_path / "out"), whole.outputs, edges_of(alert_engine))
    with closing(Outbox(None)) as outbox:
        service.listen(AlertListener(service.engine, outbox))
        for second in range(1, 12):
            event = Event("reading", ("grz", 30.0 if second % 2 else 25.0), second * SECOND, second * SECOND)
            made = job_engine.push([event])
            if "warm" in made:
                assert made["warm"]["time"].to_list() == [None] and not later
                later["warm"] = made.pop("warm")
            job.batch({**made, **later} if second == 6 else made)
            for batch in folder.new():
                alert_engine.receive(batch.tables)
                assert not batch.dead and not alert_engine.take_dead()
                reached = alert_engine.watermark if batch.watermark is None else batch.watermark
                service.take(batch, alert_engine.advance(reached))
        found = [each.change for each in outbox.after(0, 1_000) if each.change.name == "dry"]
    loud = [each.time // SECOND for each in found if not each.inhibited]
    hidden = [each.time // SECOND for each in found if each.inhibited]
    assert loud == [1, 2, 3, 4] and hidden == [4, 5, 6, 7, 8, 9, 10]
