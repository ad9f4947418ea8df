"""The window of a run that revises goes on in another program, in other buckets and with another length: rules that
stay go on, and what was given until then is final."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cep.compile import CompileOptions, compiled
from cep.core.schema import CHANGE
from cep.engine import Engine
from cep.events import Event
from cep.runtime.options import EngineOptions
from tests.long import seeds
from tests.test_revision import Known, Rows, tables

pytest.importorskip("pyspark")

from cep.spark.program import ProgramOptions, ShippedProgram
from cep.spark.shuffle_blocks import END, wake_ups
from cep.spark.source.reading import waiting
from cep.spark.stage_task import GenerationStart
from cep.spark.state.bucket_states import state_header
from cep.spark.state.migration import StartingPoint, StateLayout, migrated
from tests.bucket_versions import newest_versions
from tests.spark_operators import Query, changed, ordered

READINGS = """
event reading(sensor: int, temp: int) KEY sensor.
event alarm(sensor: int).
hot(S, T) <- reading(S, T) WHERE T > 2.
bad(S) <- hot(S, _) SEQ alarm(S).
anywhere(T) <- hot(_, T).
"""
WHOLE = "many(N) <- hot(_, _) AGGREGATE N = count() OVER LAST 10 s.\n"
CALM = "calm(S) <- alarm(S) SEQ reading(S, _).\n"
CHANGED = READINGS.replace("hot(S, _) SEQ alarm(S)", "hot(S, _) SEQ alarm(S) WITHIN 3 s")
SECOND = 1_000_000


def begun(text: str, length: int, buckets: int) -> tuple[Engine, ShippedProgram]:
    running = EngineOptions(revise=length)
    engine = Engine.from_text(text, revise=length)
    return engine, ShippedProgram.of(engine, text, "p", ProgramOptions(running=running), buckets)


def carried(query: Query, before: Engine, now: Engine, folder: Path, watermark: int) -> StartingPoint:
    """Where a query ended, as a migration has it."""
    laid, wanted = [StateLayout.of(one, tuple(one.outputs)) for one in (before, now)], query.program.stages
    _, sources = migrated(*laid)
    versions = {name: n for name, n in newest_versions(folder, 0).items() if int(name.split("-")[0]) <= len(wanted)}
    times = {name: state_header(folder / f"{name}-{n:08}")["watermark"] for name, n in versions.items()}
    latest = max(times, key=lambda name: int(times[name]))
    return StartingPoint(1, laid[0], {}, watermark, times[latest], versions, latest, sources, query.program.buckets, 0)


@pytest.mark.parametrize("seed", seeds(24))
def test_rules_that_stay_go_on_and_what_was_given_is_final(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    first, second = rng.choice(
        [(READINGS, READINGS), (READINGS + WHOLE, READINGS + WHOLE + CALM), (READINGS + CALM, READINGS),
         (READINGS + WHOLE, CHANGED + WHOLE)]
    )  # fmt: skip
    lengths = [rng.choice((3, 20)) * SECOND for _ in range(2)]
    buckets = (rng.choice((1, 3, 8)), rng.choice((1, 3, 8)))
    before, program = begun(first, lengths[0], buckets[0])
    now, other = begun(second, lengths[1], buckets[1])
    stay = {event for event, name in before.meanings().items() if now.meanings().get(event) == name}
    assert {"hot", "anywhere"} <= stay
    query, alone = Query(program, tmp_path / "1", rng), compiled(first, "p", CompileOptions())
    known, net, watermark, floor = Known(lengths[0], ["reading"]), Rows(), 0, -(2**62)
    changes: list[tuple[Event, int]] = []
    for _ in range(40):
        time = rng.randrange(1, 40) * SECOND
        event = Event("reading", (rng.randrange(4), rng.randrange(6)), time, time)
        event = event if rng.random() < 0.6 else Event("alarm", event.args[:1], time, time)
        changes.append((event, 1))
        if rng.random() < 0.2:
            changes.append((rng.choice(changes)[0], -1))
    at, moving = 0, rng.randrange(2, 20)
    while watermark < END // 1000:
        given = {}
        if moving == 0:
            start = carried(query, before, now, tmp_path / "1", watermark)
            query = Query(other, tmp_path / "2", rng, None, GenerationStart(start, str(tmp_path / "1")))
            floor, known.length, query.begun = start.time, lengths[1], True
            blocks = list(wake_ups(other, every=True))
            for path, events in start.waiting(str(tmp_path / "1")):
                blocks += waiting(other, path, events)
            given = query.passed(blocks, 0)  # it sends the watermark itself, for the next one
        else:
            piece = list(enumerate(changes))[at : at + rng.choice((1, 2, 3, 5))]
            at += len(piece)
            watermark = END // 1000 if not piece else watermark
            until = watermark * 1000 - 1 if watermark > 0 else -(2**62)
            known.latest = until
            for position, change in piece:
                if change[0].end > floor:
                    known.take(position, change)
                known.latest = until
            given = query.micro_batch(dict(tables(before, piece)), watermark)
            latest = max([event.end for _, (event, _) in piece], default=0)
            watermark = max(watermark, latest // 1000)
        moving -= 1
        given = {event: table for event, table in given.items() if event in stay}
        assert all(CHANGE in table.columns for table in given.values())
        net.subtract(changed(given, -1))
        net.update(changed(given, 1))
        assert set(net.values()) <= {0, 1}, "no row is added twice, and none withdrawn that is not there"
        engine = Engine(alone, lateness=None)
        known.into(engine)
        told = engine.close() if until > END else engine.advance(until) if until > 0 else {}
        assert +net == ordered({event: table for event, table in told.items() if event in stay}), (seed, moving)


def test_a_longer_duration_begins_with_what_is_held() -> None:
    engine = Engine.from_text(READINGS, revise=5 * SECOND)
    engine.push([Event("reading", (1, 3), 10 * SECOND, 10 * SECOND), Event("alarm", (1,), 20 * SECOND, 20 * SECOND)])
    for length, stable in ((10, 15), (2, 18)):
        other = Engine.from_text(READINGS, revise=length * SECOND).restore(engine.snapshot())
        assert other.stable == stable * SECOND - 1
        made = other.push([Event("reading", (1, 4), 19 * SECOND, 19 * SECOND)])
        assert {event: table[CHANGE].to_list() for event, table in made.items()} == {
            "hot": [1], "bad": [1], "anywhere": [1]
        }  # fmt: skip
        other.push([Event("reading", (1, 4), 14 * SECOND, 14 * SECOND)])
        assert [row.code for row in other.take_dead()] == ["late"]
        other.push([Event("alarm", (2,), 40 * SECOND, 40 * SECOND)])
        assert other.stable == (40 - length) * SECOND - 1
