"""A record exactly as old as `--revise` or `--lateness` says is taken, one a microsecond older is late."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cep import Engine
from cep.command import app
from cep.core.errors import CepError
from cep.engine import Engine as Running
from cep.knowledge.graph import Knowledge

SECOND = 1_000_000
PROGRAM = "event r(x: int) TIME time.\nb(X) <- r(X)."
WAYS: list[dict[str, Any]] = [
    {"lateness": "10 s"},
    {"revise": "10 s"},
    {"revise": "10 s", "final": True},
    {"lateness": "10 s", "workers": 1},
    {"revise": "6 s", "lateness": "4 s"},
]


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_exactly_so_old_is_taken(options: dict[str, Any]) -> None:
    engine = Engine.from_text(PROGRAM, **options)
    dead, found = [], 0
    for x, time in enumerate((100.0, 90.0, 89.999999, 80.0)):
        pushed = engine.push([{"time": time, "x": x}])
        dead += pushed.dead["reason"].to_list()
        found += pushed.counts["b"]
    found += engine.finish().counts["b"]
    engine.stop()
    assert found == 2
    assert [each.partition(":")[0] for each in dead] == ["is late by 0.001 ms", "is late by 10 s"]


def test_what_is_exactly_so_old_may_be_withdrawn() -> None:
    engine = Engine.from_text(PROGRAM, revise="10 s")
    assert engine.push([{"time": 90, "x": 1}, {"time": 100, "x": 2}]).counts == {"b": 2}
    assert engine.inner.stable == 90 * SECOND - 1
    gone = engine.push([{"time": 90, "x": 1, "@change": "withdraw"}])
    assert gone["b"]["@change"].to_list() == [-1] and gone.dead.is_empty()


def test_a_change_of_the_knowledge_exactly_so_old_is_taken() -> None:
    program = "event r(x: int) TIME time.\nb(X) <- r(X) WHERE { <urn:a> <urn:limit> ?L }, X > L."
    engine = Running.from_text(program, knowledge=Knowledge.of([]), revise=10 * SECOND, types={})
    engine.push([])
    first = Engine(engine)
    assert first.push([{"time": 95, "x": 3}, {"time": 100, "x": 2}]).counts == {"b": 0}
    with pytest.raises(CepError, match="the update is late"):
        engine.update(90 * SECOND - 1, add="<urn:a> <urn:limit> 1 .")
    engine.update(90 * SECOND, add="<urn:a> <urn:limit> 1 .")
    assert first.push([{"time": 100, "x": 0}]).counts == {"b": 2}


def test_the_command_takes_it(tmp_path: Path) -> None:
    rules, records = tmp_path / "p.cep", tmp_path / "r.jsonl"
    rules.write_text(PROGRAM)
    records.write_text("".join(json.dumps({"time": t, "x": 1}) + "\n" for t in (100, 90, 89)))
    for option in ("--revise", "--lateness"):
        words = ["run", str(rules), "--input", str(records), option, "10s", "--batch", "1"]
        said = CliRunner().invoke(app, words)
        assert said.stdout.count('"b"') == 2 and "1 dead letter (1 late)" in said.stderr
        assert "is late by 1 s" in said.stderr
