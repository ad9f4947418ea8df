"""A round costs what its rows cost, however many events they are of: each operation of polars hands its work to another
thread and waits for it, so a hundred rules that derive a row each must not begin a hundred times as many."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from types import FrameType

import polars as pl
import pyoxigraph as ox

from cep.connectors.alerts.listener import AlertListener
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.rdf import triples
from cep.connectors.rdf.history import StoreListener
from cep.connectors.rdf.store_process import StoreProcess
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.connectors.service import Service
from cep.connectors.serving.scene import Scene
from cep.core.identity import identified
from cep.core.schema import Attribute, Schema
from cep.engine import Engine
from cep.runtime.run_stats import RunStats
from tests.serving import EIGHT, Served

READING = "event reading(fridge: string, temp: float) TIME time.\n"


def operations(rules: int, folder: Path) -> int:
    """How many operations of polars a round has begun that derives a row by each of so many rules."""
    heads = [f"warm{number}(F, T) <- reading(F, T) WHERE T > {number}." for number in range(rules)]
    alert = 'ALERT hot ON warm1(f: F, t: T) SEVERITY "Severe" TITLE "{F}" FOR 1 h KEYED BY F.'
    text = READING + "\n".join([*heads, alert])
    engine = Engine.from_text(text, alerts=True)
    service = Service(engine, text, "rules.cep", RunStats())
    words = EventVocabulary()
    folder.mkdir()
    begun = 0

    def count(frame: FrameType, event: str, called: object) -> None:
        nonlocal begun
        begun += event == "c_call" and getattr(called, "__name__", "") == "collect"

    with closing(StoreProcess(folder / "events", words)) as store, closing(Outbox(None)) as outbox:
        service.listen(AlertListener(engine, outbox))
        history = StoreListener(service, store, words)
        history.begin(None)
        Scene(service)
        served = Served(engine, service, store, history)
        served.push((0, "milk", 1000.0))  # loads what is loaded at first
        sys.setprofile(count)
        try:
            served.push((10, "milk", 1000.0))
        finally:
            sys.setprofile(None)
        assert outbox.last and service.last is not None and len(service.last.derived) == rules
    return begun


def test_a_round_begins_as_many_operations_for_fifty_events_as_for_five(tmp_path: Path) -> None:
    few = operations(5, tmp_path / "few")
    assert 0 < operations(50, tmp_path / "many") <= few + 2 < 40


def test_events_written_together_are_those_written_alone() -> None:
    """Also with values that are missing, beginnings without an end, and a sign that templates know."""
    kinds = ("string", "float", "int", "bool", "time", "duration", "iri")
    schemas = [
        Schema(name, tuple(Attribute(f"{kind}_{name}", kind) for kind in some), True, False)
        for name, some in (("all", kinds), ("some", kinds[2:5]), ("100%s", kinds[:2]), ("none", ()))
    ]
    values: dict[str, tuple[object, object, object]] = {
        "string": ("50 %s", None, '"\n'),
        "float": (1.5, None, -0.25),
        "int": (None, 2, 3),
        "bool": (True, None, False),
        "time": (EIGHT, EIGHT + 1, None),
        "duration": (None, 5, 60_000_000),
        "iri": ("http://e.org/%41", "no iri", None),
    }
    derived = []
    for number, schema in enumerate(schemas):
        columns = {each.name: values[each.type] for each in schema.attributes}
        start = [EIGHT + number, EIGHT + 3_600_000_000 * number, EIGHT]
        frame = pl.DataFrame({"start": start, "end": [time + number for time in start], **columns})
        derived.append(triples.Derived(identified(frame, schema, "p"), schema, "urn:made%20by" if number else None))
    words = EventVocabulary("http://e.org/")
    together = triples.event_triples(derived, words)
    alone = [triples.event_triples([each], words) for each in derived]
    assert set(together.splitlines()) == {line for text in alone for line in text.splitlines()}
    assert len(list(ox.parse(together, ox.RdfFormat.N_TRIPLES))) == len(together.splitlines())
    assert triples.event_triples([triples.Derived(derived[0].table.head(0), schemas[0], None)], words) == ""
