"""Alerts on what comes late and is withdrawn: what is told, put right as it was told, is what a run in order tells."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from cep.connectors.alerts.lifecycle import AlertChange, AlertLifecycle, alert_fingerprints
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.revised_lifecycle import RevisedLifecycle
from cep.engine import Engine
from tests.long import seeds

SECOND = 1_000_000
PROGRAM = """
event reading(station: string, level: int).
fluent open(door: string).
initiate open(D) <- opens(D).
terminate open(D) <- shuts(D).
event opens(door: string).
event shuts(door: string).
high(S, L) <- reading(S, L) WHERE L > 3.
ALERT high ON high(s: S, l: L) TITLE "{S} at {L}" FOR 5 s KEYED BY S.
ALERT much ON high(s: S, l: L) WHERE L > 6 TITLE "much" FOR 3 s.
"""
Row = tuple[int, int, str, int]
_FIELDS = (
    "name",
    "slot",
    "start",
    "end",
    "until",
    "occurrences",
    "first",
    "last",
    "values",
    "title",
    "severity",
    "place",
)


def lifecycle(engine: Engine) -> AlertLifecycle:
    schemas = {table: engine.plan.schemas[table] for alert in engine.alerts for table in alert.tables}
    return AlertLifecycle(engine.alerts, schemas, engine.inputs, engine.meanings())


def tables(rows: Iterable[Row]) -> dict[str, pl.DataFrame]:
    """The tables of both alerts, of readings that are high."""
    found = sorted(rows)
    schema = {"start": pl.Int64, "end": pl.Int64, "s": pl.String, "l": pl.Int64}
    whole = pl.DataFrame(found, schema=schema, orient="row")
    return {"alert high": whole, "alert much": whole.filter(pl.col("l") > 6)}


def standing(changes: Iterable[AlertChange]) -> dict[str, tuple[object, ...]]:
    """What each alert came to; one that is withdrawn never was."""
    last = {change.alert: change for change in changes}
    return {
        alert: (over := change.state == "resolved", over and change.time, *(getattr(change, name) for name in _FIELDS))
        for alert, change in last.items()
        if not change.withdrawn
    }


def told(outbox: Outbox) -> list[AlertChange]:
    return [entry.change for entry in outbox.after(0, 1_000_000)]


@pytest.mark.parametrize("seed", seeds(60))
def test_what_is_told_comes_to_what_a_run_in_order_tells(seed: int, tmp_path: Path) -> None:
    """Rows come late and go, in rounds of any length; at times the program starts anew and some rounds come again."""
    rng = random.Random(seed)
    engine = Engine.from_text(PROGRAM, alerts=True)
    window = rng.choice((0, 3, 10, 30)) * SECOND
    outbox = Outbox(tmp_path / "alerts.db")
    revised = RevisedLifecycle(lifecycle(engine), outbox)
    there: set[Row] = set()
    rounds: list[tuple[Mapping[str, pl.DataFrame], Mapping[str, pl.DataFrame], int, int, tuple[int, int]]] = []
    watermark = 0
    for number in range(rng.randint(5, 40)):
        watermark += rng.choice((0, 0, 1, 1, 2, 7)) * SECOND
        stable = max(0, watermark - window)
        seconds = range(stable // SECOND + 1, watermark // SECOND + 1)
        come: set[Row] = set()
        gone: set[Row] = set()
        for _ in range(rng.randint(0, 4)):
            if seconds:
                at = rng.choice(seconds) * SECOND
                come.add((at, at, rng.choice("ab"), rng.randint(4, 9)))
        for row in sorted(there):
            if row[1] > stable and rng.random() < 0.15:
                gone.add(row)
        come -= there | gone
        there = (there - gone) | come
        rounds.append((tables(come), tables(gone), watermark, stable, (watermark, number)))
        revised.take(*rounds[-1])
        if rng.random() < 0.2:
            outbox.close()
            outbox = Outbox(tmp_path / "alerts.db")
            revised = RevisedLifecycle(lifecycle(engine), outbox)
            for again in rounds[rng.randrange(len(rounds)) :]:
                revised.take(*again)
        changes = told(outbox)
        assert standing(changes) == standing(lifecycle(engine).take(tables(there), watermark)), (seed, number)
        assert {e.change.alert for e in outbox.live()} == {a for a, (over, *_) in standing(changes).items() if not over}
        last = {change.slot: change.alert for change in changes}
        assert all(last[entry.change.slot] == entry.change.alert for entry in outbox.live()), "it is heard last"
        revisions: dict[str, int] = {}
        for change in changes:
            assert change.revision == revisions.get(change.alert, -1) + 1, "each change of an alert is told once"
            revisions[change.alert] = change.revision
    outbox.close()


@pytest.mark.parametrize("seed", seeds(20))
def test_in_order_all_is_told_as_without_revision(seed: int) -> None:
    rng = random.Random(seed)
    engine = Engine.from_text(PROGRAM, alerts=True)
    outbox, whole, watermark, rows = Outbox(None), [], 0, set[Row]()
    revised, plain = RevisedLifecycle(lifecycle(engine), outbox), lifecycle(engine)
    for number in range(40):
        before, watermark = watermark, watermark + rng.choice((1, 2, 9)) * SECOND
        ends = range(before // SECOND + 1, watermark // SECOND + 1)
        rows = {(at * SECOND, at * SECOND, rng.choice("ab"), rng.randint(4, 9)) for at in ends}
        revised.take(tables(rows), {}, watermark, watermark - 20 * SECOND, (watermark, number))
        whole += plain.take(tables(rows), watermark)
    assert told(outbox) == whole
    outbox.close()


def test_a_start_without_revision_goes_on_from_what_is_open(tmp_path: Path) -> None:
    engine = Engine.from_text(PROGRAM, alerts=True)
    with closing(Outbox(tmp_path / "alerts.db")) as outbox:
        revised = RevisedLifecycle(lifecycle(engine), outbox)
        revised.take(tables([(SECOND, SECOND, "a", 4)]), {}, SECOND, 0, (SECOND, 1))
        assert [entry.change.title for entry in outbox.live()] == ["a at 4"]
    with closing(Outbox(tmp_path / "alerts.db")) as outbox:
        live, reached = outbox.begin(alert_fingerprints(engine.alerts, engine.meanings()))
        assert [change.title for change in live] == ["a at 4"] and max(reached.values()) == SECOND
    with closing(Outbox(tmp_path / "alerts.db")) as outbox:
        revised = RevisedLifecycle(lifecycle(engine), outbox)
        revised.take(tables([(SECOND, SECOND, "a", 4)]), {}, SECOND, 0, (SECOND, 1))
        assert len(told(outbox)) == 1, "what was told before is known"
        revised.take({}, tables([(SECOND, SECOND, "a", 4)]), 2 * SECOND, 0, (2 * SECOND, 2))
        assert [(each.state, each.withdrawn, each.time) for each in told(outbox)[1:]] == [
            ("resolved", True, 2 * SECOND + 1)
        ]
