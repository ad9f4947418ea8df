"""Workloads with background knowledge: events are enriched and filtered by stations, classes and places.

The knowledge is built and closed before the measurement. Its tables are built when the program is planned.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from benchmarks import registers, streams
from benchmarks.streams import Stream
from benchmarks.workload import K, M, Workload

CLASSES, FEATURES, PLACES, REACH, CALM = 1000, 20_000, 200_000, 6_000, 0.0
"""Sizes of the workloads: the number of classes of observations, of features in a gazetteer, and of places.

REACH is a radius in metres that contains a few places. CALM is a mean wind in mph at which storms are rare.
"""

PREFIXES = """\
PREFIX om-owl: <http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#>
PREFIX sosa:   <http://www.w3.org/ns/sosa/>
PREFIX wgs84:  <http://www.w3.org/2003/01/geo/wgs84_pos#>
PREFIX k:      <urn:semcep:kind:>
PREFIX rdfs:   <http://www.w3.org/2000/01/rdf-schema#>
"""
ENRICHED = "event a(id: string, x: int) TIME t.\nplaced(S, X, Lat, Long) <- a(S, X) WHERE {}.\n"
ROOT = Path(__file__).parent.parent
ONTOLOGIES, AREAS = ROOT / "ontologies", ROOT / "demos" / "blizzard" / "areas.cep"


@cache
def register(stations: int, features: int = 0) -> Any:
    """Return knowledge of stations with five sensors each, and optionally places, closed under OWL 2 RL."""
    from cep.knowledge import load
    from cep.knowledge.graph import Knowledge
    from cep.knowledge.rdf.terms import NONE, Terms
    from cep.knowledge.rdf.triples import TripleSet

    terms = Terms()
    said = load.load([ONTOLOGIES / f"{name}.ttl" for name in ("sensors", "weather", "places")], terms)
    made = registers.stations(stations).triples(terms)
    parts = [(said.s, said.p, said.o), made]
    if features:
        with TemporaryDirectory() as folder:
            dump = load.load(registers.dump(Path(folder), features), terms)
        parts.append((dump.s, dump.p, dump.o))
    every = TripleSet.of(*(np.concatenate(columns) for columns in zip(*parts)))
    return Knowledge(terms, {NONE: every}, "owlrl")


def table(stations: int) -> dict[str, Any]:
    """Return the places of stations as static facts."""
    found = registers.stations(stations).stations.select("id", "lat", "long")
    return {"facts": {"place": found}}


@cache
def kinds() -> Any:
    """Return knowledge of a thousand classes in a hierarchy, each with one instance. Half of them are subclasses of the
    class for wind."""
    head = "@prefix k: <urn:semcep:kind:> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
    classes = "".join(f"k:c{n} rdfs:subClassOf k:c{n // 2 or 'Other'} .\n" for n in range(2, CLASSES, 2))
    winds = "".join(
        f"k:c{n} rdfs:subClassOf k:{f'c{n // 2 | 1}' if n > 3 else 'Wind'} .\n" for n in range(3, CLASSES, 2)
    )
    things = "".join(f"k:o{n} a k:c{n} .\n" for n in range(1, CLASSES))
    return closed(head + classes + winds + things)


def closed(turtle: str) -> Any:
    """Return knowledge from a text in Turtle."""
    import pyoxigraph as ox

    from cep.knowledge.graph import Knowledge

    return Knowledge.of(ox.parse(turtle, ox.RdfFormat.TURTLE), "owlrl")


@cache
def places() -> Any:
    """Return knowledge of places spread over the United States."""
    from cep.knowledge.graph import Knowledge
    from cep.knowledge.rdf.terms import NONE, Terms
    from cep.knowledge.rdf.triples import TripleSet

    terms = Terms()
    return Knowledge(terms, {NONE: TripleSet.of(*registers.stations(PLACES, seed=2).triples(terms))}, "none")


def visits(events: int, keys: int) -> Stream:
    """Return a stream of `a(id, x)` with ids of stations."""
    made = streams.mixed({"a": "x"}, events, keys, seed=1).tables["a"]
    return Stream({"a": made.with_columns(id=names(made["id"]))})


def observations(events: int, keys: int) -> Stream:
    """Return a stream of `a(id, x)` with ids of observations."""
    made = streams.mixed({"a": "x"}, events, CLASSES - 1, seed=1).tables["a"]
    return Stream({"a": made.with_columns(id="urn:semcep:kind:o" + (made["id"] + 1).cast(pl.String))})


def positions(events: int, keys: int) -> Stream:
    """Return a stream of `a(lat, long)` at random places in the United States."""
    random = np.random.default_rng(1)
    times = streams.milliseconds(events, random)
    columns = {"lat": random.uniform(25, 49, events), "long": random.uniform(-124, -67, events)}
    return Stream({"a": streams.point_table(times, columns)})


def weather(events: int, keys: int) -> Stream:
    """Return a stream of `reading(station, wind, visib, temp)` with stations of the register.

    One reading in two hundred belongs to a storm, twice as many as in the demo's year.
    """
    made = streams.weather(events, keys, seed=1, wind=CALM).tables["reading"]
    return Stream({"reading": made.with_columns(station=names(made["station"]))})


def names(ids: pl.Series) -> pl.Series:
    """Return the ids of stations in the register."""
    return "K" + ids.cast(pl.String).str.zfill(6)


def areas(keys: int) -> str:
    """Return the program of the demo."""
    return AREAS.read_text(encoding="utf-8")


STATIONS = "{ ?station a sosa:Platform ; om-owl:ID ?S ; wgs84:lat ?Lat ; wgs84:long ?Long }"

listed: tuple[Workload, ...] = (
    Workload(
        "station by facts",
        lambda keys: ENRICHED.format("place(S, Lat, Long)"),
        visits,
        options=table,
        flat=False,
        sizes=((2 * M, 20 * K),),
    ),
    Workload(
        "station by knowledge",
        lambda keys: PREFIXES + ENRICHED.format(STATIONS),
        visits,
        options=lambda keys: {"knowledge": register(keys)},
        rate=2 * M,
        flat=False,
        beside="station by facts",
        sizes=((2 * M, 20 * K),),
    ),
    Workload(
        "subclass",
        lambda keys: PREFIXES + "event a(id: iri, x: int) TIME t.\nwind(I, X) <- a(I, X) WHERE { ?I a k:Wind }.\n",
        observations,
        options=lambda keys: {"knowledge": kinds()},
        rate=3 * M,
        flat=False,
        sizes=((2 * M, 1000),),
    ),
    Workload(
        "near",
        lambda keys: (
            f"event a(lat: float, long: float) TIME t.\n"
            f"found(P, M) <- a(Lat, Long) WHERE near(Lat, Long, {REACH}, P, M).\n"
        ),
        positions,
        options=lambda keys: {"knowledge": places()},
        rate=200 * K,
        flat=False,
        sizes=((500 * K, PLACES),),
    ),
    Workload(
        "blizzard areas",
        areas,
        weather,
        options=lambda keys: {"knowledge": register(keys, FEATURES)},
        rate=500 * K,
        flat=False,
        sizes=((2 * M, 1000),),
    ),
)
