"""Files that workers read chunk by chunk give the batches, numbers and dead letters of files that one process reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import polars as pl
import pytest

from cep.compile import CompileOptions, compiled
from cep.connectors.files import read, replay
from cep.connectors.records.batch import Batch
from cep.core.errors import CepError
from cep.runtime.options import EngineOptions
from cep.workers.chunk_readers import WorkerChunks
from cep.workers.messages import ChunkFound, ReadChunk
from cep.workers.packing import Tables
from cep.workers.partitioned_engine import PartitionedEngine
from tests.local_workers import LocalWorkers
from tests.long import seeds

PROGRAM = """event a(name: string, v: int, note: string?) TIME time.
event b(name: string, f: float) TIME time.
x(N) <- a(N, _, _) SEQ a(N, _, _).
y(N) <- b(N, _) SEQ b(N, _).
"""


@pytest.fixture(scope="module")
def engine() -> PartitionedEngine:
    made = PartitionedEngine(compiled(PROGRAM, "<program>", CompileOptions()), EngineOptions(), LocalWorkers(2))
    made.readers.least, made.readers.cheap = 1, True
    return made


def csv_text(random: Random) -> str:
    rows = ["time,name,v,note"]
    for second in range(random.randrange(40)):
        name = random.choice(("n1", "n2", '"quoted, n"', '"with ""quotes"""', '"over\nlines"', "größe"))
        row = f"{second - random.randrange(3)},{name},{random.choice((1, 22, 'x', ''))},{random.choice(('', 'note'))}"
        rows.append(random.choice((row,) * 9 + ("", "1,2", row + ",", f"{second},'open\",3,", "x" * 200)))
        if random.random() < 0.01:
            rows.append('5,"never closed,3,')
    return "\n".join(rows) + random.choice(("\n", "", "\r\n"))


def json_text(random: Random) -> str:
    rows = []
    for second in range(random.randrange(40)):
        record = {"type": "a", "time": second, "name": random.choice(("n1", "größe")), "v": random.randrange(9)}
        if random.random() < 0.3:
            record = {"type": "b", "time": second, "name": "n1", "f": random.choice((0.5, 1, "x"))}
        row = json.dumps(record)
        rows.append(random.choice((row,) * 9 + ("", "{", row[:-1], '{"type": "c"}', '{"a": "' + "x" * 200 + '"}')))
    return "\n".join(rows) + random.choice(("\n", ""))


@pytest.mark.parametrize("seed", seeds(96))
def test_workers_read_what_one_process_reads(seed: int, engine: PartitionedEngine, tmp_path: Path) -> None:
    random = Random(seed)
    kind = random.choice(("csv", "jsonl"))
    for number in range(2):
        text = (csv_text if kind == "csv" else json_text)(random)
        mark = "\ufeff" if random.random() < 0.2 else ""
        Path(tmp_path, f"{number}.{kind}").write_bytes(
            (mark + text).encode().replace(b"gr", random.choice((b"gr", b"\xff")))
        )
    bound = "a=" if kind == "csv" else ""
    specs = [f"{bound}{tmp_path}/{number}.{kind}" for number in range(2)]
    chunk = random.choice((60, 150, 400, 1000))
    reading = random.choice((read, replay))
    alone, apart = (
        list(_told(reading(specs, engine.inputs, chunk=chunk, rows=7, readers=readers)))
        for readers in (None, engine.readers)
    )
    assert alone == apart
    processes = engine.readers.processes
    assert processes.hear(wait=False) is None
    assert not processes._chunks and not processes._dropped


def test_readers_of_files_that_were_read_are_forgotten(
    engine: PartitionedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of files that are read at the same time, and the last one's, are all that workers have."""
    held: dict[WorkerChunks, int] = {}
    read_one = WorkerChunks.read

    def noted(self: WorkerChunks, asked: ReadChunk) -> tuple[ChunkFound, Tables]:
        found = read_one(self, asked)
        held[self] = max(held.get(self, 0), len(self._readers))
        return found

    monkeypatch.setattr(WorkerChunks, "read", noted)
    for number in range(20):
        rows = "".join(f"{number * 100 + second},n,1,\n" for second in range(50))
        (tmp_path / f"{number:02}.csv").write_text("time,name,v,note\n" + rows)
    batches = read(
        [f"a={tmp_path}/{number:02}.csv" for number in range(20)], engine.inputs, chunk=100, readers=engine.readers
    )
    assert sum(batch.tables["a"].height for batch in batches if batch.tables) == 1_000
    assert not engine.readers._sources and len(held) == 2 and max(held.values()) <= 3


def _told(batches: Iterator[Batch]) -> Iterator[object]:
    """All that is in batches; last the error that ends them."""
    try:
        for batch in batches:
            tables = {name: (table.columns, table.dtypes, table.rows()) for name, table in batch.tables.items()}
            origins = [batch.origin(name, row) for name, table in batch.tables.items() for row in range(table.height)]
            blocks = [(one.file, one.first, one.count, one.times, one.says_changes) for one in batch.blocks]
            yield tables, origins, blocks, batch.dead, batch.total_bytes, batch.watermark
    except CepError as error:
        yield error.message


def test_a_quote_that_is_open_at_the_end_of_a_chunk(engine: PartitionedEngine, tmp_path: Path) -> None:
    """The chunks before it are read apart, and what comes then by one process."""
    lines = [f"{second},n{second % 3},{second},\n" for second in range(60)]
    lines[30:33] = ['30,"over\n', "many\n", 'lines",7,\n']
    Path(tmp_path, "in.csv").write_text("time,name,v,note\n" + "".join(lines))
    asked: list[int] = []
    readers = engine.readers
    batches = read([f"a={tmp_path}/in.csv"], engine.inputs, chunk=100, readers=_Noting(readers, asked))
    tables = [batch.tables["a"] for batch in batches if batch.tables]
    assert pl.concat(tables)["v"].to_list() == [*range(30), 7, *range(33, 60)]
    assert 2 < len(asked) < 9


class _Noting:
    """Readers; notes what they are asked for."""

    def __init__(self, readers: object, asked: list[int]) -> None:
        self._readers, self._asked = readers, asked

    def __getattr__(self, name: str) -> object:
        if name == "ask":
            self._asked.append(1)
        return getattr(self._readers, name)
