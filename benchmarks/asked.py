"""Queries of the page and the documentation over many events, with and without the index of time.

python -m benchmarks.asked --events 1000000
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pyoxigraph as ox

from benchmarks.serve import SCHEMA, SECOND, STATIONS
from cep.connectors.rdf import triples
from cep.connectors.rdf.evaluation import evaluate
from cep.connectors.rdf.question import QueryRefused, Question
from cep.connectors.rdf.store import EventStore
from cep.connectors.rdf.time_index import TimeIndex
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.core.identity import identified
from cep.core.prefixes import PREFIXES

ROOT = Path(__file__).parents[1]
LAST = 1_360_447_200 * SECOND  # 2013-02-09T22:00:00Z, in the storm of the documents
BATCH, PLACES = 20_000, 60_000
KNOWN_STATIONS = 10  # stations with a known place
OM = "http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#"
PAGE = "PREFIX time: <http://www.w3.org/2006/time#>\n"


def examples() -> dict[str, str]:
    """Return the queries by the question that they answer."""
    js = (ROOT / "connectors" / "serving" / "page" / "query.js").read_text()
    newest, each = re.findall(r"`PREFIX time: <\$\{TIME\}>(.*?)`", js, re.DOTALL)
    serve = (ROOT / "docs" / "serve.md").read_text()
    (places,) = re.findall(r"--data-urlencode 'query=\n(PREFIX om-owl.*?)'\n```", serve, re.DOTALL)
    warnings, nine = "<urn:semcep:type/warning>", '"2013-02-09T21:00:00Z"^^xsd:dateTime'
    known = f"?e a {warnings} ; {_of('station')} ?name ; time:hasEnd/time:inXSDDateTimeStamp ?time . ?s <{OM}ID> ?name"
    last = f"?e a {warnings} ; time:hasEnd/time:inXSDDateTimeStamp ?end FILTER(?end > {nine})"
    return {
        "the page: the newest events": PAGE + newest.replace("\\n", "\n"),
        "the page: how many of each in the last hour": PAGE + each.replace("${since()}", nine).replace("\\n", "\n"),
        "the page: events of a kind": f"SELECT * {{ ?event a {warnings} ; {_of('station')} ?station }} LIMIT 50",
        "docs/serve.md: places near a warning since nine": places,
        "the newest, with what is known": f"SELECT ?s ?time {{ {known} }} ORDER BY DESC(?time) LIMIT 100",
        "the last hour": f"SELECT * {{ {last} }}",
        "the last hour of a station": f'SELECT * {{ {last} ?e {_of("station")} "s17" }}',
    }


def _of(attribute: str) -> str:
    return f"<urn:semcep:attribute/warning/{attribute}>"


def filled(folder: str, events: int) -> EventStore:
    """Return a store that contains warnings of the thirty days up to LAST, many places, and the positions of a few
    stations."""
    store = EventStore(folder, EventVocabulary())
    step = 30 * 86_400 * SECOND // events
    for first in range(0, events, BATCH):
        number = pl.int_range(first, min(events, first + BATCH), eager=True)
        end = LAST - (events - 1 - number) * step
        station = "s" + (number * 7919 % STATIONS).cast(pl.String)
        table = pl.DataFrame({"start": end - 600 * SECOND, "end": end, "station": station, "readings": number})
        words = EventVocabulary()
        text = triples.event_triples(
            [triples.Derived(identified(table, SCHEMA, "p"), SCHEMA, words.derivation("p", "warning", ["1"]))], words
        )
        store.add(text.encode())
    wgs, gn = PREFIXES["wgs84"], PREFIXES["gn"]
    lines = []
    for n in range(KNOWN_STATIONS):
        lines.append(
            f'<urn:st{n}> <{OM}ID> "s{n}" ; <{wgs}lat> {25 + n % 240 / 10} ; <{wgs}long> {-120 + n % 499 / 10} .'
        )
    for n in range(PLACES):
        where = f"<{wgs}lat> {25 + n % 2411 / 100} ; <{wgs}long> {-120 + n % 5009 / 100}"
        lines.append(f'<urn:pl{n}> <{gn}name> "place {n}" ; <{gn}featureCode> <{gn}S.SCH> ; {where} .')
    store.store.bulk_load("\n".join(lines).encode(), ox.RdfFormat.TURTLE)
    store.settle()
    return store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--store", help="a folder to keep the store in, and to take it from")
    parser.add_argument("--quick", action="store_true", help="not without the index")
    options = parser.parse_args()
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        kept = options.store is not None and Path(options.store).exists()
        store = (
            EventStore(options.store, EventVocabulary()) if kept else filled(options.store or folder, options.events)
        )
        index = TimeIndex(store.store, store.spans)
        for name, text in examples().items():
            with_it = [_told(_seconds(store.store, text, index)) for _ in range(3)]
            without = "" if options.quick else f"; without the index {_told(_seconds(store.store, text, None))}"
            print(f"{name}: {', '.join(with_it)} of CPU{without}", flush=True)


def _told(seconds: float | None) -> str:
    return "more than 60 s" if seconds is None else f"{1000 * seconds:,.0f} ms"


def _seconds(store: ox.Store, text: str, index: TimeIndex | None) -> float | None:
    began = time.process_time()
    try:
        evaluate(store, Question(text, prefixes=tuple(PREFIXES.items()), table="csv", seconds=60.0), index)
    except QueryRefused as error:
        assert error.code == "slow", error
        return None
    return time.process_time() - began


if __name__ == "__main__":
    main()
