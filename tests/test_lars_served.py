"""LARS beside rules of events where they are served: the page, alerts on what LARS derives, why; a run that goes on."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path

import httpx

from cep.app.pipeline import Interrupt, flow
from cep.app.program_thread import JournaledBatches
from cep.compile import compile
from cep.connectors.dead_letters import DeadLetters
from cep.connectors.journal import Journal
from cep.connectors.records.batch import Batch
from cep.engine import Engine
from cep.runtime.run_stats import RunStats
from tests.page_server import EIGHT, SECOND, shown
from tests.test_serve_journal import readings

RULES = """event reading(station: string, temp: float, y: float?, x: float?) TIME time.
hot(S) <- reading(S, T, _, _) WHERE T > 20.
told(S) <- BEGIN OF strained(S).
again(S) <- reading(S, _, _, _) WHERE strained(S).
ALERT strain ON strained(S) SEVERITY "Minor" TITLE "{S} is strained" FOR 1 h.
ALERT seen ON again(S) SEVERITY "Minor" TITLE "{S} again" FOR 1 h.
"""
POLICIES = """strained(S) :- hot(S) in [3], not spared(S).
spared(vie) :- hot(vie) in [3], hot(grz) in [3].
"""


def test_page_alerts_and_why(tmp_path: Path) -> None:
    with shown(tmp_path, {"rules.cep": RULES, "policies.lars": POLICIES}, remember=10**12) as one:
        one.push((0, "vie", 25.0))
        one.push((1, "vie", 1.0))
        state = httpx.get(f"{one.url}/api/state").json()
        found = {each["type"]: each for each in state["events"]}
        assert [found["strained"][each] for each in ("key", "start", "end", "holds")] == ["vie", EIGHT, None, True]
        assert (found["told"]["start"], found["told"]["end"]) == (EIGHT, EIGHT + SECOND - 1)
        assert found["again"]["start"] == EIGHT + SECOND
        assert [entry.change.title for entry in one.outbox.live()] == ["vie is strained", "vie again"]
        answer = httpx.get(f"{one.url}/why/{found['again']['id']}").json()
        assert answer["rule"]["file"] == "rules.cep"
        assert '"file": "policies.lars"' in httpx.get(f"{one.url}/why/{found['strained']['id']}").text
        one.push((8, "grz", 1.0))
        assert [entry.change.title for entry in one.outbox.live()] == ["vie again"], "it is over, and its alert with it"
        program = httpx.get(f"{one.url}/api/program").json()
        assert program["text"] == RULES + POLICIES
        names = [each["name"] for each in program["rules"]]
        assert {"rules.cep:2", "policies.lars:1"} <= set(names) and "" not in names


FRIDGES = {
    "rules.cep": "event reading(fridge: string, temp: float) TIME time.\nwarm(F, T) <- reading(F, T) WHERE T > 5.\n"
    "spoilt(F) <- BEGIN OF bad(F) SEQ reading(F, _).\nkept(F) <- reading(F, _) WHERE good(F).\n",
    "policies.lars": "bad(F) :- warm(F, T) always in [2].\nfine(F) :- reading(F, T) in [4], not bad(F).\n"
    "good(F) :- fine(F), not odd(F).\nodd(F) :- fine(F), not good(F).\n",
}
ROWS = [(0, "a", 7.0), (1, "a", 8.0), (2, "a", 9.0), (3.5, "b", 1.0), (4, "a", 2.0), (5, "b", 9.0), (7, "a", 3.0)]


class Killed(Exception):
    """The process has ended."""


def run(folder: Path, batches: Iterable[Batch], stop: int | None, found: set[tuple[object, ...]]) -> None:
    """Go on from a folder; a snapshot is saved after every second batch, and before batch `stop` the process ends."""
    folder.mkdir(exist_ok=True)
    engine = Engine(compile(FRIDGES))
    with closing(Journal(folder, engine.inputs)) as journal:
        if blob := journal.snapshot():
            engine.restore(blob)
        turns = JournaledBatches(chain(journal.replayed(), batches), journal)
        turns.lock.acquire()
        done = 0

        def coming() -> object:
            nonlocal done
            for batch in turns:
                if done == stop:
                    raise Killed
                done += 1
                yield batch

        def take(batch: Batch | None, derived: dict[str, object]) -> None:
            for name, table in derived.items():
                found.update((name, *row) for row in table.rows())
            if batch is not None and journal.whole and done % 2 == 0:
                journal.save(engine.snapshot(), journal.point())

        flow(engine, coming(), RunStats(), take, DeadLetters(None), Interrupt())


def test_a_run_that_is_killed_goes_on(tmp_path: Path) -> None:
    batches = [readings(number, row) for number, row in enumerate(ROWS)]
    expected: set[tuple[object, ...]] = set()
    run(tmp_path / "whole", batches, None, expected)
    assert {"bad", "spoilt", "kept", "good"} <= {name for name, *_ in expected}
    for stop in range(1, len(ROWS)):
        found: set[tuple[object, ...]] = set()
        folder = tmp_path / str(stop)
        coming = iter(batches)
        with suppress(Killed):
            run(folder, coming, stop, found)
        run(folder, coming, None, found)
        assert found == expected, stop
