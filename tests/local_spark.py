"""An imitation of a Spark session that runs tasks in this process.

It plans micro-batches and keeps logs like Spark. An offset is written before a micro-batch begins, and a commit when it
has ended. A micro-batch that has not ended is repeated. The watermark follows the largest time seen. So tests can check
what a run does with files without starting Java.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4
from zlib import crc32

import pytest

from cep.spark.driver import session
from cep.spark.micro_batch import QUERY
from cep.spark.spark_files import planned_at

KEPT = 100
"""Micro-batches of which the logs are kept."""


class SparkFailed(Exception):
    """A file of Spark's own cannot be read or written, or a task did not say which of ours cannot."""


class Jobs:
    """Items that a function is run over, in so many parts."""

    def __init__(self, parts: Sequence[Sequence[Any]], run: Callable[[Iterable[Any]], Iterable[Any]] = iter) -> None:
        self._parts, self._run = parts, run

    def mapPartitions(self, run: Callable[[Iterable[Any]], Iterable[Any]]) -> Jobs:  # noqa: N802
        return Jobs(self._parts, run)

    def foreachPartition(self, run: Callable[[Iterable[Any]], None]) -> None:  # noqa: N802
        """Nothing: it is for the processes of workers, and there are none."""

    def collect(self) -> list[Any]:
        return [made for part in self._parts for made in self._run(iter(part))]


class LocalContext:
    """`defaultParallelism`: so many cores it says that it has."""

    def __init__(self, cores: int) -> None:
        self.defaultParallelism = cores
        self.query = ""

    def broadcast(self, value: Any) -> Any:
        return SimpleNamespace(value=pickle.loads(pickle.dumps(value)), destroy=lambda: None)

    def parallelize(self, items: Iterable[Any], parts: int) -> Jobs:
        known = list(items)
        return Jobs([known[len(known) * n // parts : len(known) * (n + 1) // parts] for n in range(parts)])

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        return self.query if name == QUERY else None


class Rows:
    """The blocks of a micro-batch; of each, their time too, which only the watermark of Spark follows."""

    def __init__(self, blocks: Sequence[bytes]) -> None:
        self._blocks = blocks

    def select(self, name: str) -> Rows:
        return self

    selectExpr = select  # noqa: N815

    def collect(self) -> list[tuple[bytes]]:
        return [(each,) for each in self._blocks]


class LocalSpark:
    """The session, and all that a query is made with."""

    def __init__(self, cores: int = 2) -> None:
        self.sparkContext = LocalContext(cores)
        self.dataSource = self.readStream = self.streams = self.writeStream = self
        self._listener: Any = None
        self._made: dict[str, Any] = {}

    def register(self, source: Any) -> None:
        self._made["source"] = source

    def format(self, name: str) -> LocalSpark:
        return self

    def load(self) -> LocalSpark:
        return self

    def withWatermark(self, column: str, delay: str) -> LocalSpark:  # noqa: N802
        self._made["late"] = int(delay.partition(" ")[0])
        return self

    def foreachBatch(self, run: Callable[[Any, int], None]) -> LocalSpark:  # noqa: N802
        self._made["run"] = run
        return self

    def option(self, name: str, value: str) -> LocalSpark:
        self._made["folder"] = Path(value.removeprefix("file://"))
        return self

    def trigger(self, availableNow: bool) -> LocalSpark:  # noqa: N803
        return self

    def start(self) -> LocalQuery:
        try:
            return LocalQuery(self.sparkContext, self._listener, **self._made)
        except OSError as error:
            raise SparkFailed from error

    def addListener(self, listener: Any) -> None:  # noqa: N802
        self._listener = listener

    def removeListener(self, listener: Any) -> None:  # noqa: N802
        self._listener = None


class LocalQuery:
    """A query over what there is; it is run where its end is awaited."""

    def __init__(
        self,
        context: LocalContext,
        listener: Any,
        source: Any,
        late: int,
        run: Callable[[Any, int], None],
        folder: Path,
    ) -> None:
        self._context, self._listener, self._late, self._run, self._folder = context, listener, late, run, folder
        self._reader = source({}).streamReader(None)
        for name in ("offsets", "commits"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        if not (folder / "metadata").exists():
            entered(folder / "metadata", json.dumps({"id": str(uuid4())}))
        self._context.query = json.loads((folder / "metadata").read_text())["id"]

    def awaitTermination(self, seconds: float) -> bool:  # noqa: N802
        try:
            self._reader.prepareForTriggerAvailableNow()
            begun, done = self._last("offsets"), self._last("commits")
            if begun > done:
                self._batch(begun)
            while self._planned(self._last("commits") + 1):
                self._batch(self._last("commits") + 1)
            return True
        except OSError as error:  # which would be taken for Java's end
            raise SparkFailed from error
        finally:
            self._reader.stop()
            if self._listener is not None:
                self._listener.onQueryTerminated(None)

    def _planned(self, batch: int) -> bool:
        start = self._offset(batch - 1)
        end = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
        if end == start:
            return False
        plan = {"batchWatermarkMs": self._watermark(batch - 1), "batchTimestampMs": batch, "conf": {}}
        entered(self._folder / "offsets" / str(batch), f"v1\n{json.dumps(plan)}\n{json.dumps(end)}")
        self._reader.commit(start)
        return True

    def _batch(self, batch: int) -> None:
        start, end = self._offset(batch - 1), self._offset(batch)
        blocks, latest = [], 0
        for partition in pickle.loads(pickle.dumps(list(self._reader.partitions(start, end)))):
            for row in pickle.loads(pickle.dumps(self._reader)).read(partition):
                blocks += row.column(0).to_pylist()
                latest = max(latest, *row.column(1).cast("int64").to_pylist())
        self._run(Rows(blocks), batch)
        watermark = max(planned_at(self._folder, batch), latest // 1000 - self._late)
        entered(self._folder / "commits" / str(batch), f'v1\n{{"nextBatchWatermarkMs":{watermark}}}')
        for log in ("offsets", "commits"):
            for name in (str(batch - KEPT), f".{batch - KEPT}.crc"):
                (self._folder / log / name).unlink(missing_ok=True)
        ended = SimpleNamespace(endOffset=json.dumps(end))
        told = SimpleNamespace(batchId=batch, sources=[ended], durationMs={}, id=self._context.query)
        if self._listener is not None:
            self._listener.onQueryProgress(SimpleNamespace(progress=told))

    def _last(self, log: str) -> int:
        return max((int(path.name) for path in (self._folder / log).glob("[0-9]*")), default=-1)

    def _offset(self, batch: int) -> Mapping[str, Any]:
        if batch < 0:
            found: Mapping[str, Any] = self._reader.initialOffset()
        else:
            found = json.loads((self._folder / "offsets" / str(batch)).read_text().splitlines()[-1])
        return found

    def _watermark(self, batch: int) -> int:
        if batch < 0:
            return 0
        path = self._folder / "commits" / str(batch)
        return int(json.loads(path.read_text().splitlines()[1])["nextBatchWatermarkMs"])


def entered(path: Path, text: str) -> None:
    """Write a file as Spark does, which does not wait until it is on disk; with its check sums."""
    data, each = text.encode(), 512
    sums = b"".join(crc32(data[at : at + each]).to_bytes(4) for at in range(0, len(data), each))
    for name, content in ((path.name, data), (f".{path.name}.crc", b"crc\0" + each.to_bytes(4) + sums)):
        made = path.with_name(f".{name}.{uuid4().hex}.tmp")
        made.write_bytes(content)
        made.replace(path.with_name(name))


def install(monkeypatch: pytest.MonkeyPatch, cores: int = 2) -> None:
    """Runs with `--on spark` are run here."""
    monkeypatch.setattr(session, "needs_java", lambda: None)
    monkeypatch.setattr(session, "inherited", dict)
    monkeypatch.setattr(session, "start_session", lambda *_: LocalSpark(cores))
