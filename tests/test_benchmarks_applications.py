"""What is measured of RTEC's and DatalogMTL's programs is right: both languages say the same."""

from __future__ import annotations

import pytest

from benchmarks.applications import DIALECTS, Application, applications, engine_of, outcome, renamed
from benchmarks.metric_time import EVERY, PROGRAMS, kept
from benchmarks.metric_time import engine_of as of_datalog

KEYS = 20


@pytest.mark.parametrize("application", applications.values(), ids=applications.keys())
def test_an_event_description_and_our_own_words_mean_the_same(application: Application) -> None:
    stream, found, fluents = application.stream(3000, KEYS), {}, {}
    for dialect in DIALECTS:
        engine = engine_of(application, dialect, KEYS)
        out = [engine.push(renamed(engine, batch)) for batch in stream.batches(700)]
        found[dialect] = outcome([*out, engine.close()])
        fluents[dialect] = set(engine.outputs)
    assert found["rtec"] == found["own"]
    assert fluents["rtec"] == fluents["own"]
    assert len(found["own"]) > 100
    assert len({row[0] for row in found["own"]}) >= len(fluents["own"]) - 1, "too little is derived to tell"


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_datalogmtl_derive_something(name: str) -> None:
    made, _, _ = PROGRAMS[name]
    engine, held = of_datalog(name), set()
    for batch in made(1000).batches(500):
        held |= {fluent for fluent, table in engine.push(renamed(engine, batch)).items() if table.height}
    held |= {fluent for fluent, table in engine.close().items() if table.height}
    assert held


def test_what_is_kept_does_not_grow_with_the_rate_of_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.metric_time.KEPT_KEYS", 3)
    monkeypatch.setattr("benchmarks.metric_time.KEPT_SECONDS", 6)
    assert len({kept(every)[0] for every in EVERY[:2]}) == 1
