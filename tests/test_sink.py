"""The folder that a job on Spark writes, read again by a server: laid out here as Spark lays it out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from cep.connectors.alerts.listener import AlertListener
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.service import Relay, Round, Service
from cep.connectors.writing.writers import json_lines, typed
from cep.core.errors import CepError
from cep.core.identity import ID
from cep.core.schema import Schema
from cep.engine import Engine
from cep.runtime.run_stats import RunStats
from cep.spark.disk import SINK_LOG
from cep.spark.sink.reader import SinkReader
from tests.sink_log import enter

PROGRAM = """
event reading(room: string, level: int, gas: string?, at: time, span: duration) TIME time.
event pair(first: int, second: int, level: string?).
event high(room: string, level: float, span: duration, at: time, gas: string?).
pair(A, B, G) <- (reading(R, A, G, _, _) SEQ reading(R, B, _, _, _)) WITHIN 10 s.
high(R, L * 1.1, P, T, G) <- reading(R, L, G, T, P) WHERE L > 5.
ALERT tall ON high(room: R, level: L) WHERE L > 7 SEVERITY "Severe" TITLE "{R}: {L}" FOR 5 s KEYED BY R.
ALERT raw ON reading(room: R) SEVERITY "Minor" TITLE "{R}" FOR 5 s KEYED BY R.
"""
SECOND = 1_000_000


class Sink:
    """Writes micro-batches."""

    def __init__(self, path: Path, schemas: Mapping[str, Schema], format: str) -> None:
        self.path, self.schemas, self.format = path, schemas, format
        self.number = 0
        self.entries: list[str] = []
        path.mkdir(parents=True)

    def batch(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """A micro-batch of two tasks; each tenth is compacted, and what came before it goes."""
        made: list[Path] = []
        for task in range(2):
            parts = {event: table[task::2] for event, table in tables.items() if table[task::2].height}
            stem = f"part-{task:05}-{self.number:08x}-0000-4000-8000-000000000000-c000"
            if self.format == "jsonl" and parts:
                place = self.path / f"{stem}.txt"
                place.write_bytes(json_lines(parts, self.schemas, "iso", False))
                made.append(place)
            for event, part in parts.items() if self.format == "parquet" else ():
                place = self.path / f"type={event}" / f"{stem}.snappy.parquet"
                place.parent.mkdir(exist_ok=True)
                clash = {"level": f"{event}_level"}  # of two types
                typed(part, self.schemas[event]).rename(clash).write_parquet(place)
                made.append(place)
        new = [json.dumps({"path": f"file:///elsewhere{place}", "size": 1, "batch": self.number}) for place in made]
        self.entries += new
        compact = self.number % 10 == 9
        lines = self.entries if compact else new
        enter(self.path, f"{self.number}.compact" if compact else str(self.number), lines)
        if compact:
            for number in range(self.number):
                (self.path / SINK_LOG / str(number)).unlink(missing_ok=True)
        self.number += 1


def readings(first: int, count: int) -> pl.DataFrame:
    number = pl.int_range(first, first + count, eager=True)
    return pl.DataFrame(
        {
            "start": number // 2 * SECOND,
            "end": number // 2 * SECOND,
            "room": "r" + (number % 3).cast(pl.String),
            "level": number * 7 % 10,
            "gas": pl.Series([None if n % 4 else f'a "{n}"' for n in number], dtype=pl.String),
            "at": number * 1_234_567,
            "span": number * 1_000_003 + 1,
        }
    )


def rows_of(rounds: list[Round]) -> dict[str, list[tuple[object, ...]]]:
    found: dict[str, list[tuple[object, ...]]] = {}
    for one in rounds:
        for name, table in one.derived.items():
            found.setdefault(name, []).extend(table.select("end", ID).rows())
    return {name: sorted(rows) for name, rows in sorted(found.items())}


@pytest.mark.long
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_what_a_job_wrote_is_what_one_process_derives(tmp_path: Path, format: str) -> None:
    whole = Engine.from_text(PROGRAM, alerts=True)
    here, elsewhere = Service(whole, PROGRAM, "p", RunStats()), Engine.from_text(PROGRAM, alerts=True)
    alert_engine = Engine.from_text(PROGRAM, alerts=True, lateness=None, stage=0)
    there = Relay(elsewhere, PROGRAM, "p", RunStats(), alert_engine)
    rounds: tuple[list[Round], list[Round]] = ([], [])
    with closing(Outbox(None)) as mine, closing(Outbox(None)) as other:
        for service, outbox, each in ((here, mine, rounds[0]), (there, other, rounds[1])):
            service.listen(AlertListener(service.engine, outbox))
            service.listen(each.append)
        sink = Sink(tmp_path / "out", whole.outputs, format)
        folder, read = SinkReader(str(tmp_path / "out"), whole.outputs), 0
        for number in range(25):
            made = whole.push({"reading": readings(number * 8, 8)})
            here.take(None, made)
            sink.batch({name: made[name] for name in whole.outputs if name in made})
            if number in (3, 19, 21):  # now and then; in between some of the log is compacted
                read += _take(folder, alert_engine, there)
        made = whole.close()
        here.take(None, made)
        sink.batch({name: made[name] for name in whole.outputs if name in made})
        (tmp_path / "out" / "part-00000-left-by-a-killed-run.txt").write_text("{")
        read += _take(folder, alert_engine, there)
        assert list(folder.new()) == []
        changes = [[entry.change for entry in outbox.between(0, outbox.last)] for outbox in (mine, other)]
    assert read > 20 and rows_of(rounds[1]) == rows_of(rounds[0])
    assert sum(map(len, rows_of(rounds[0]).values())) > 200
    tall = [change for change in changes[0] if change.name == "tall"]
    assert any(change.state == "resolved" for change in tall)
    last = tall[-1].time
    assert [c for c in changes[1] if c.time < last] == [c for c in tall if c.time < last]
    assert (
        elsewhere.watermark
        == alert_engine.watermark
        == max(end for table in rows_of(rounds[0]).values() for end, _ in table)
    )


def _take(folder: SinkReader, alert_engine: Engine, service: Relay) -> int:
    count = 0
    for batch in folder.new():
        assert not batch.dead and batch.watermark is not None
        alert_engine.receive(batch.tables)
        assert not alert_engine.take_dead()
        service.take(batch, alert_engine.advance(batch.watermark))
        count += 1
    return count


def test_folders_that_are_none(tmp_path: Path) -> None:
    schemas = Engine.from_text(PROGRAM).outputs
    with pytest.raises(CepError, match="does not exist"):
        SinkReader(str(tmp_path / "none"), schemas)
    (tmp_path / "part-0.parquet").write_text("")
    with pytest.raises(CepError, match="the folder has no log of output files, `_spark_metadata`"):
        SinkReader(str(tmp_path), schemas)
    sink = Sink(tmp_path / "other", {**schemas, "fire": schemas["pair"]}, "parquet")
    sink.batch({"fire": pl.DataFrame({"start": [1], "end": [1], "first": [1], "second": [2], "level": ["x"]})})
    with pytest.raises(CepError, match="no rule derives fire"):
        list(SinkReader(str(tmp_path / "other"), schemas).new())
    enter(sink.path, "1", ['{"path":"file:///part-00000-gone-c000.txt","batch":1}'])
    with pytest.raises(CepError, match="no such file"):
        folder = SinkReader(str(tmp_path / "other"), schemas)
        folder._last = 0
        list(folder.new())
