"""Silence on Spark: while nothing comes, time goes on in all stages, and goes on after a run was stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cep.events import Event
from cep.spark.job import Job, start
from cep.spark.sink.file_sink import finish_batches
from tests import spark_runs
from tests.cases_format import difference
from tests.program_maker import SECOND
from tests.spark_runs import alone, derived, job, line, spark
from tests.waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("spark"),
]

PROGRAM = """event reading(room: string).
event tick.
calm(R) <- reading(R) UNLESS reading(R) WITHIN 1 s.
pair(R) <- (reading(R) SEQ tick) WITHIN 2 s.
many(N) <- calm(_) AGGREGATE N = count() OVER LAST 1 h.
rest(N) <- many(N) UNLESS calm(_) WITHIN 600 ms.
"""
PATIENCE = 300.0  # seconds, of a machine that has much else to do


def reading(room: str, end: float) -> Event:
    return Event("reading", (room,), round(end * SECOND), round(end * SECOND))


def run_until(there: Callable[[], bool], wanted: Job) -> None:
    """Run it until that is so, then stop it, in the midst of a micro-batch perhaps."""
    query = start(spark(), wanted, follow=True)
    try:
        until(lambda: there() or not query.isActive, "what is awaited of the query", PATIENCE, every=0.1)
        assert there(), (query.exception(), derived(wanted))
    finally:
        query.stop()
        finish_batches(Path(wanted.output))  # as the command does


@pytest.mark.parametrize("by", [None, "room"])
def test_time_goes_on_while_nothing_comes(by: str | None, tmp_path: Path) -> None:
    """`by`: the attribute by whose own latest time lateness is judged."""
    days = tmp_path / "days"
    days.mkdir()
    first = [reading("a", 1000), reading("b", 1000.2), reading("c", 1000.4), reading("a", 1000.7)]
    second = [reading("b", 5000), reading("c", 5000.1)]
    options: dict[str, Any] = {
        "lateness": 300_000,
        "dead_letters": str(tmp_path / "dead"),
        "every": 200_000,
        "idle": 400_000,
    }
    wanted = job(PROGRAM, [str(days)], tmp_path, closing=False, **options)
    wanted = replace(wanted, program=replace(wanted.program, lateness_by=by))

    def rested(number: int) -> bool:
        return sum(event.type == "rest" for event in derived(wanted)) == number

    def dead() -> list[str]:
        texts = [file.read_text() for file in sorted((tmp_path / "dead").glob("*"))]
        return [json.loads(text)["code"] for text in "".join(texts).splitlines()]

    (days / "1.jsonl").write_text("".join(map(line, first)))
    run_until(lambda: rested(1), wanted)
    log = tmp_path / "state" / "spark"
    newest = max((file.name for file in (log / "offsets").glob("[0-9]*")), key=int)
    for name in (newest, f".{newest}.crc"):  # as when it is killed before it has noted the end of a micro-batch
        (log / "commits" / name).unlink(missing_ok=True)
    (days / "2.jsonl").write_text(line(reading("d", 1001.5)))  # earlier than the time told
    (days / "3.jsonl").write_text("".join(map(line, second)))
    run_until(lambda: rested(2), wanted)
    assert dead() == ["late"]
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "1.jsonl").write_text("".join(map(line, first + second)))
    expected = alone(PROGRAM, [str(tmp_path / "all")], 300_000)
    assert {event.type for event in expected} == {"calm", "many", "rest"}
    assert difference(expected, derived(wanted)) == ""
    offsets = [json.loads(file.read_text().splitlines()[-1]) for file in (log / "offsets").glob("[0-9]*")]
    reached = [offset["time"] for offset in offsets if "time" in offset]
    assert 1000 * SECOND < min(reached) < 5000 * SECOND < max(reached)
