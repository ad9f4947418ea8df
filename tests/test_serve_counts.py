"""The metrics of a server count each record once, also one that the engine refuses."""

from __future__ import annotations

import json
from pathlib import Path

from cep.app.meter import Meter, charts
from cep.app.pipeline import Interrupt, flow
from cep.connectors.files import read
from cep.connectors.records.revised import changes_of, with_changes
from cep.connectors.service import Service
from cep.engine import Engine
from cep.runtime.run_stats import RunStats
from cep.server.answers import _measure
from cep.server.dead_letters import LoggedDeadLetters

PROGRAM = "event reading(id: int, temp: float) TIME time KEY id. warm(I) <- reading(I, T) WHERE T > 7."


def test_a_record_that_the_engine_refuses_counts_once(tmp_path: Path) -> None:
    """One that withdraws a record, one that withdraws none, one that is late, and one that cannot be read."""
    records = [{"time": 1_000 * n, "id": n, "temp": 8} for n in range(4)]
    records += [
        {"time": 3_000, "id": 3, "temp": 8, "@change": "withdraw"},
        {"time": 3_000, "id": 9, "@change": "withdraw"},
    ]
    records += [{"time": 0, "id": 7, "temp": 8}, {"time": 4_000, "id": 8, "temp": "broken"}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    engine = Engine.from_text(PROGRAM, lateness=0, revise=60_000_000)
    stats, meter = RunStats(), Meter(charts(engine.plan))
    service, letters = Service(engine, PROGRAM, "a.cep", stats), LoggedDeadLetters(None, lambda *said, **more: None)
    service.listen(lambda one: _measure(meter, engine, one, letters, stats))
    came = read([f"reading={tmp_path}/in.jsonl"], with_changes(engine.inputs), rows=3)
    flow(engine, changes_of(came), stats, service.take, letters, Interrupt())
    assert stats.dead == meter.dead and meter.dead.total() == 3, meter.dead
    assert stats.records == meter.records == len(records)
    assert meter.read == {"reading": len(records) - 1} and meter.late == {"reading": 1}
    assert 0 < meter.seconds <= stats.busy < stats.seconds and meter.batches
