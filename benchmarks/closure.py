"""The closure of a network of stations under OWL 2 RL, and the update of the closure for one station. Each measurement
runs in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import network
from benchmarks.measure import ONE_CORE
from benchmarks.table import Line, Target
from benchmarks.watch import Watch, peak_memory

ROOT = Path(__file__).parent.parent
FEW, MANY = 300, 20_000
SECONDS, MEGABYTES = 10, 1000
"""The limits of time and memory for MANY stations."""


def lines(quick: bool, only: str) -> Iterator[Line]:
    """Yield the lines whose name contains `only`. owlrl is measured too, but only for FEW stations."""
    for stations in (FEW,) if quick else (FEW, MANY):
        if only not in "closure, triples":
            continue
        ours = _in_process("ours", stations)
        owlrl = _in_process("owlrl", stations) if stations == FEW else None
        reached = (
            Target(f"{SECONDS} s", ours["seconds"] <= SECONDS),
            Target(f"{MEGABYTES / 1000:g} GB", ours["peak"] <= MEGABYTES),
        )
        yield Line(
            "closure, triples",
            ours["asserted"] / ours["seconds"],
            events=ours["asserted"],
            keys=stations,
            loop=owlrl["asserted"] / owlrl["seconds"] if owlrl else None,
            peak=ours["peak"],
            derived=ours["closed"],
            targets=reached if stations == MANY else (),
        )
    if only in "closure, a station more" or only in "closure, a station less":
        changed = _in_process("change", FEW if quick else MANY)
        for name in ("more", "less"):
            yield Line(f"closure, a station {name}", changed[name], "s", keys=FEW if quick else MANY)


def _in_process(side: str, stations: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.closure", side, str(stations)],
        env={**os.environ, **ONE_CORE, "PYTHONHASHSEED": "0"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def ours(stations: int) -> dict[str, Any]:
    """Measure our closure of a network, from triples of ids to triples of ids."""
    from cep.knowledge.reasoning.closure import compute_closure

    assert len(compute_closure(*network.loaded(2), "owlrl").triples), "this compiles the kernels"
    watch = Watch()
    while watch.wants_more():
        terms, triples = network.loaded(stations)
        with watch:
            closed = compute_closure(terms, triples, "owlrl").triples
    return {"seconds": watch.median, "asserted": len(triples), "closed": len(closed), "peak": peak_memory()}


def change(stations: int) -> dict[str, Any]:
    """Measure the update after the triples of one station are added, and after they are removed."""
    from cep.knowledge.rdf.triples import TripleSet
    from cep.knowledge.reasoning.closure import compute_closure

    terms, triples = network.loaded(stations)
    station = terms.id_of(f"{network.PREFIXES['id']}station-{stations // 2}")
    its = (triples.s == station) | (triples.o == station)
    less, more = (TripleSet.of(*(column[rows] for column in triples.columns)) for rows in (~its, its))
    closed = compute_closure(terms, less, "owlrl")
    seconds = {}
    for name in ("more", "less"):
        watch = Watch()
        start = closed if name == "more" else closed.plus(more)
        while watch.wants_more():
            with watch:
                start.plus(more) if name == "more" else start.minus(more)
        seconds[name] = watch.median
    return seconds


def owlrl(stations: int) -> dict[str, Any]:
    """Measure the closure that owlrl computes in an rdflib graph."""
    from owlrl import DeductiveClosure, OWLRL_Semantics
    from rdflib import Graph

    graph = Graph().parse(data=network.turtle(stations), format="turtle")
    asserted = len(graph)
    watch = Watch()
    with watch:
        DeductiveClosure(OWLRL_Semantics).expand(graph)
    return {"seconds": watch.median, "asserted": asserted}


if __name__ == "__main__":
    sides = {"ours": ours, "change": change, "owlrl": owlrl}
    print(json.dumps(sides[sys.argv[1]](int(sys.argv[2]))))
