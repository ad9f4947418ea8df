"""What bounds a run of a LARS program: its time by `--solve-limit`, its memory by its windows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.compile import CompileOptions, compiled
from cep.core.logs import RunWarning
from cep.engine import Engine
from cep.operators.goals.fluents.answer_set_solver import Derived, Found, Grounding
from cep.runtime.options import EngineOptions
from cep.workers.partitioned_engine import PartitionedEngine
from tests.local_workers import LocalWorkers

SECOND = 1_000_000
PIGEONS = """\
event pigeon(p: int) TIME time.
event hole(h: int) TIME time.
in(P, H) :- pigeon(P) [2], hole(H) [2], not out(P, H).
out(P, H) :- pigeon(P) [2], hole(H) [2], not in(P, H).
placed(P) :- in(P, H).
:- pigeon(P) [2], not placed(P).
:- in(P, H), in(Q, H), P < Q.
"""
"""So many pigeons as holes have places; that one more has none takes a solver more time than anyone has."""


def records() -> list[dict[str, object]]:
    """Two pigeons in two holes, then fourteen in thirteen, then one in one."""
    made: list[dict[str, object]] = []
    for tick, pigeons, holes in ((0, 2, 2), (5, 14, 13), (10, 1, 1)):
        time = tick * SECOND
        made += [{"type": "pigeon", "time": time, "p": each} for each in range(pigeons)]
        made += [{"type": "hole", "time": time, "h": each} for each in range(holes)]
    return made


def tables() -> dict[str, pl.DataFrame]:
    return {
        name: pl.DataFrame(
            [{k: v for k, v in each.items() if k != "type"} for each in records() if each["type"] == name]
        )
        for name in ("pigeon", "hole")
    }


def test_the_last_answer_stays_when_time_is_over() -> None:
    engine = Engine.from_text(PIGEONS, dialect="lars", changes=True, solve_limit=SECOND // 20, lateness=0)
    with pytest.warns(RunWarning, match="no answer stream was found within 0.05 s at tick 5: the last one stays"):
        given = engine.push(tables())
        rest = engine.close()
    changes = sorted(
        (time, edge, place)
        for each in (given, rest)
        if "in" in each
        for edge, time, *place in each["in"].select("@edge", "time", "p", "h").rows()
        for place in [tuple(place)]
    )
    begun = [place for time, edge, place in changes if time == 0 and edge == "begins"]
    assert len(begun) == 2
    assert {place for time, edge, place in changes if time == 3 * SECOND} == {*begun}  # its facts are gone
    assert not [each for each in changes if each[0] in (5 * SECOND,)]
    assert (10 * SECOND, "begins", (0, 0)) in changes


@pytest.mark.parametrize("log", ["text", "json"])
def test_the_log_says_so(log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pigeons.lars").write_text(PIGEONS)
    lines = [{**each, "time": int(str(each["time"])) // SECOND} for each in records()]
    Path("in.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    asked = ["run", "pigeons.lars", "-i", "in.jsonl", "-o", "out.jsonl", "--solve-limit", "50ms", "--log", log]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    if log == "text":
        assert "warning: no answer stream was found within 0.05 s at tick 5: the last one stays" in result.stderr
        return
    (told,) = [each for each in map(json.loads, result.stderr.splitlines()) if each["event"] == "solve_limit"]
    assert (told["level"], told["tick"], told["seconds"]) == ("warning", 5, 0.05)


CHANGING = """\
event a(x: int) TIME time.
event b(x: int) TIME time.
both(X) :- a(X) [5], b(X) [5].
then at S :- a(X) at T in [3], S = T + 2.
every :- then always in [2].
last(X) :- a(X) [4 #].
in(X) :- a(X) [3], not out(X).
out(X) :- a(X) [3], not in(X).
"""


def test_memory_does_not_grow_with_ticks() -> None:
    """Other values at each tick, and at the end of each thousand what is held is no more."""
    engine = Engine.from_text(CHANGING, dialect="lars", changes=True, lateness=0)
    held, weights = [], []
    for thousand in range(4):
        for first in range(1000 * thousand, 1000 * thousand + 1000, 50):
            ticks = np.arange(first, first + 50)
            table = pl.DataFrame({"time": ticks * SECOND, "x": ticks})
            engine.push({"a": table, "b": table})
        engine.forget()
        rows, weight = engine._machine.size
        held.append(rows)
        weights.append(weight)
    assert held[0] < 500
    assert max(held) <= held[0] + 10
    assert max(weights) <= 2 * weights[0]  # what the solver has grounded goes when it is eight times what is true


KEYED = """\
event pigeon(k: int, p: int) TIME time.
event hole(k: int, h: int) TIME time.
in(K, P, H) :- pigeon(K, P) [2], hole(K, H) [2], not out(K, P, H).
out(K, P, H) :- pigeon(K, P) [2], hole(K, H) [2], not in(K, P, H).
placed(K, P) :- in(K, P, H).
:- pigeon(K, P) [2], not placed(K, P).
:- in(K, P, H), in(K, Q, H), P < Q.
"""


def test_a_worker_says_so_too() -> None:
    program = compiled(KEYED, "<program>", CompileOptions(dialect="lars", solve_limit=SECOND // 20))
    engine = PartitionedEngine(program, EngineOptions(lateness=0), LocalWorkers(2))
    keyed = {name: table.with_columns(pl.lit(7).alias("k")) for name, table in tables().items()}
    with pytest.warns(RunWarning, match="no answer stream was found within 0.05 s at tick 5") as told:
        engine.push(keyed)
        engine.close()
    (warned,) = [each.message for each in told if isinstance(each.message, RunWarning)]
    assert (warned.event, warned.fields["tick"]) == ("solve_limit", 5)


def test_the_time_of_a_tick_is_that_of_all_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key has its share of what is left, so that one which takes too long leaves time for the others."""
    shares: list[float] = []
    nearest = Grounding.nearest

    def told(self: Grounding, last: frozenset[Derived], seconds: float | None = None) -> Found:
        assert seconds is not None
        shares.append(seconds)
        return nearest(self, last, seconds)

    monkeypatch.setattr(Grounding, "nearest", told)
    engine = Engine.from_text(KEYED, dialect="lars", changes=True, solve_limit=SECOND // 2, lateness=0)
    keyed = {
        name: pl.concat([table.with_columns(pl.lit(key).alias("k")) for key in range(3)]).sort("time")
        for name, table in tables().items()
    }
    with pytest.warns(RunWarning, match="within 0.5 s at tick 5"):
        engine.push(keyed)
        engine.close()
    assert max(shares) <= 0.5
    first = shares[:4]  # of tick 0: what belongs to no key, then the three
    assert 0.4 / 4 < first[0] <= 0.5 / 4
    assert all(share < 0.5 for share in first[:3])
