"""The changelog of a job that revises, as files, and its net result as plain tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cep.core.errors import CepError
from cep.core.schema import CHANGE, Attribute, Schema

pytest.importorskip("pyspark")

from cep.spark.disk import OUTGOING
from cep.spark.sink.changelog import changelog_schemas
from cep.spark.sink.compaction import compact
from cep.spark.sink.file_sink import FileSinkOptions, FileWriter
from cep.spark.sink.forwarding import forwarding
from cep.spark.sink.reader import SinkReader
from cep.spark.state.checkpoint import SECOND, CheckpointInfo, difference
from cep.spark.state.migration import StateLayout
from tests.brokers import Cluster

HOT = Schema("hot", (Attribute("s", "string"), Attribute("t", "float")), True, False)
ODD = Schema("odd", (Attribute("s", "int"), Attribute("when", "time")), True, False)
SCHEMAS = {"hot": HOT, "odd": ODD}
Rows = Mapping[str, list[tuple[object, ...]]]


def written(folder: Path, batches: list[Rows], format: str, events: list[str], **more: Any) -> FileSinkOptions:
    """Micro-batches of rows (start, end, arguments, change), each of which is committed twice."""
    schemas = {event: SCHEMAS[event] for event in events}
    options = FileSinkOptions(str(folder), format, schemas, frozenset(), meanings=dict.fromkeys(events, "m"), **more)
    for number, every in enumerate(batches):
        batch = {event: rows for event, rows in every.items() if event in events}
        for _ in range(2):
            writer = FileWriter(options)
            writer.commit(
                writer.write([(event, table(event, rows)) for event, rows in batch.items()], 0, number), number
            )
    return options


def table(event: str, rows: list[tuple[object, ...]]) -> pl.DataFrame:
    names = ["start", "end", *(each.name for each in SCHEMAS[event].attributes), CHANGE]
    return pl.DataFrame(rows, schema=names, orient="row").cast({CHANGE: pl.Int8})


BATCHES: list[Rows] = [
    {"hot": [(1, 2, "a", 31.5, 1), (2, 3, None, 32.0, 1)], "odd": [(1, 1, 7, 1_000_000, 1)]},
    {"hot": [(1, 2, "a", 31.5, -1), (1, 2, "a", 30.5, 1)]},
    {"odd": [(1, 1, 7, 1_000_000, -1)], "hot": [(1, 2, "a", 31.5, 1), (1, 2, "a", 30.5, -1)]},
]


@pytest.mark.parametrize("events", [["hot"], ["hot", "odd"]])
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_the_net_result_is_a_plain_table(events: list[str], format: str, tmp_path: Path) -> None:
    folder, net = tmp_path / "out", tmp_path / "net"
    options = written(folder, BATCHES, format, events)
    compact(folder, format, options.schemas, net)
    assert sorted(file.name for file in net.iterdir()) == [f"{event}.{format}" for event in events]
    if format == "jsonl":
        rows = [json.loads(line) for line in (net / "hot.jsonl").read_text().splitlines()]
        assert [list(row.values())[3:] for row in rows] == [["a", 31.5], [None, 32.0]]
        lines = [json.loads(line) for file in folder.glob("part-*") for line in file.read_text().splitlines()]
        found = sorted((row["@version"], row[CHANGE]) for row in lines if row["type"] == "hot" and row["t"] == 31.5)
        assert found == [(1, "add"), (2, "withdraw"), (5, "add")]
        assert len({row["@id"] for row in lines if row["type"] == "hot" and row["t"] == 31.5}) == 1
    else:
        made = pl.read_parquet(net / "hot.parquet")
        assert made.columns == ["start", "end", "s", "t"]
        assert made.select("s", "t").rows() == [("a", 31.5), (None, 32.0)]
        if len(events) > 1:
            assert pl.read_parquet(net / "odd.parquet").schema["when"] == pl.Datetime("us", "UTC")
            assert pl.read_parquet(net / "odd.parquet").height == 0


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_who_follows_a_job_does_not_take_a_changelog_for_events(format: str, tmp_path: Path) -> None:
    options = written(tmp_path, BATCHES, format, ["hot"])
    with pytest.raises(CepError, match="this job may withdraw rows, which is not supported here yet"):
        list(SinkReader(str(tmp_path), options.schemas).new())


def test_a_file_of_the_changelog_that_is_missing_is_told(tmp_path: Path) -> None:
    options = written(tmp_path / "out", BATCHES, "parquet", ["hot"])
    next((tmp_path / "out").glob("part-*")).unlink()
    with pytest.raises(CepError, match="is missing: it is a part of the changelog"):
        compact(tmp_path / "out", "parquet", options.schemas, tmp_path / "net")


def test_messages_say_what_is_withdrawn_before_what_is_added(tmp_path: Path) -> None:
    cluster = Cluster("derived")
    options = written(tmp_path / OUTGOING, BATCHES, "jsonl", ["hot"], passing=True)
    place, schemas = f"kafka://{cluster.servers}/derived", changelog_schemas(options.schemas)
    with forwarding(tmp_path, "job", place, schemas, print):
        pass
    found = cluster.received("derived", 6)
    rows = [json.loads(payload) for _, _, payload in found]
    assert sorted(((row["t"], row[CHANGE], row["@version"]) for row in rows), key=lambda row: (row[2], row[0])) == [
        (31.5, "add", 1),
        (32.0, "add", 1),
        (31.5, "withdraw", 2),
        (30.5, "add", 3),
        (30.5, "withdraw", 4),
        (31.5, "add", 5),
    ]
    assert [key for _, key, _ in found] == [row["@id"].encode() for row in rows], "what withdraws a row follows it"
    for one in {row["@id"] for row in rows}:
        own = [row["@version"] for row in rows if row["@id"] == one]
        assert own == sorted(own), "each key has its own order"
    assert len({id for id, _, _ in found}) == 6
    assert not list((tmp_path / OUTGOING).glob("part-*"))


def test_a_checkpoint_that_revises_otherwise_is_told_apart() -> None:
    layout = StateLayout({}, [], {}, {})
    before = CheckpointInfo("p", "text", None, {}, None, 2, "out", "jsonl", ["hot"], layout)
    now = replace(before, revise=6 * 3600 * SECOND, final=True)
    assert now != before
    assert difference(before, now) == "no --revise before, --revise 21600s now\nno `--final` before, `--final` now"
