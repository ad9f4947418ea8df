"""Workers stay while a query runs and nothing comes, which Spark would end after a minute."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from cep.spark import keepalive, micro_batch, task_affinity
from cep.spark.job import start
from cep.spark.keepalive import ALLOCATION, keep_awake
from cep.spark.micro_batch import MicroBatches
from cep.spark.task_affinity import Slots
from tests import spark_runs
from tests.spark_runs import derived, job, line, spark
from tests.test_spark_idle import PROGRAM, reading
from tests.waiting import Received, pause, until

needs_java = pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)


class Ends:
    """A query that ends after so many looks, of itself or with an error."""

    def __init__(self, looks: int, error: Exception | None = None) -> None:
        self.looks, self.error, self.ended = looks, error, Received[float]()

    def awaitTermination(self, seconds: float) -> bool:  # noqa: N802
        self.looks -= 1
        if self.looks >= 0:
            return False
        self.ended.append(seconds)
        if self.error is not None:
            raise self.error
        return True


def context(**settings: str) -> Any:
    return SimpleNamespace(getConf=lambda: settings, setJobDescription=lambda text: None)


def test_they_are_touched_until_the_query_ends() -> None:
    """Also where Java ends, or where a worker is lost meanwhile."""
    for error in (None, OSError("Java has ended")):
        touched, query = Received[int](), Ends(3, error)

        def touch(touched: Received[int] = touched) -> None:
            touched.append(1)
            raise OSError("a worker was killed")

        keep_awake(context(), query, touch)  # type: ignore[arg-type]
        query.ended.at_least(1)
        assert len(touched) == 3 and query.ended == [keepalive.EVERY]


def test_not_where_executors_come_and_go_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keepalive, "Thread", None)
    keep_awake(context(**{ALLOCATION: "true"}), None, lambda: None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        keep_awake(context(**{ALLOCATION: "false"}), None, lambda: None)  # type: ignore[arg-type]


def test_not_while_a_micro_batch_runs_nor_soon_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    touched: list[str] = []
    clock = [1000.0]
    monkeypatch.setattr(micro_batch, "monotonic", lambda: clock[0])

    def tasks(kind: str) -> Any:
        made = SimpleNamespace(_jrdd=1, collect=lambda: touched.append(kind))
        return SimpleNamespace(mapPartitions=lambda run: made)

    session: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(
            broadcast=lambda work: None, defaultParallelism=2, parallelize=lambda items, count: tasks("any")
        )
    )
    work: Any = SimpleNamespace(sink=None, handed=None)
    batches = MicroBatches(session, work, Path(), None)  # type: ignore[arg-type]
    monkeypatch.setattr(batches.slots, "nothing", lambda: tasks("lanes"))
    batches.touch()
    assert touched == [], "it has just begun"
    clock[0] += 2 * micro_batch.IDLE
    batches.touch()
    assert touched == ["lanes"]

    def runs(*_: object) -> None:
        clock[0] += 2 * micro_batch.IDLE
        batches.touch()

    monkeypatch.setattr(batches, "_run", runs)
    batches(None, 0)  # type: ignore[arg-type]
    batches.touch()
    assert touched == ["lanes"], "one runs, then one has just ended"
    work.handed = "folder"
    batches.touch()
    assert touched == ["lanes", "any"], "where tasks go to any worker, some may have none"


def _pid(rows: Iterable[Any]) -> list[int]:
    for _ in rows:  # a worker that has not read all ends
        pass
    return [os.getpid()]


@needs_java
@pytest.mark.xdist_group("spark")
def test_each_process_of_a_lane_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Slots(spark().sparkContext)
    assert tasks.nothing().collect() == []
    rows = spark().sparkContext.parallelize([(0, b"x")], 1).partitionBy(3, int)
    had = set(tasks.run(rows, lambda lane: lambda task, rows: iter(_pid(rows))).collect())
    assert tasks.nothing().collect() == [] and len(had) == 3
    monkeypatch.setattr(task_affinity, "drained", lambda rows: [os.getpid() for _ in rows])
    assert set(tasks.nothing().collect()) == had
    monkeypatch.setattr(tasks, "_executors", lambda: frozenset({"another one"}))
    assert tasks.nothing().collect() == [], "of lanes that are no more"
    assert set(tasks.run(rows, lambda lane: lambda task, rows: iter(_pid(rows))).collect()).isdisjoint(had)


@needs_java
@pytest.mark.long
@pytest.mark.xdist_group("spark")
def test_workers_outlive_a_minute_of_nothing(tmp_path: Path) -> None:
    days = tmp_path / "days"
    days.mkdir()
    wanted = job(PROGRAM, [str(days)], tmp_path, closing=False, lateness=0, every=200_000)
    (days / "1.jsonl").write_text("".join(map(line, [reading("a", 1000), reading("a", 2000), reading("a", 3000)])))
    query = start(spark(), wanted, follow=True)
    try:
        until(lambda: derived(wanted), "the first results")
        until(lambda: not query.status["isTriggerActive"], "nothing is done")

        def workers() -> set[int]:
            return set(spark().sparkContext.parallelize(range(2), 2).mapPartitions(_pid).collect())

        before = workers()
        pause(80)  # Spark looks every ten seconds for pools that had nothing for a minute
        assert workers() & before
    finally:
        query.stop()
