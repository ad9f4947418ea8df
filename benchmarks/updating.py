"""Knowledge that changes while events arrive: CPU time per update, and the number of terms in memory.

Updates are applied one by one, or many at once in any order. `python -m benchmarks.updating` uses 400 thousand triples,
ten rules, and one event between any two updates. It also applies updates one by one to rules that have OPTIONAL and
FILTER, to static rules, and to a tenth and four times as many triples.
"""

from __future__ import annotations

import gc
import resource
import sys
from time import process_time
from typing import Any

import numpy as np
import pyoxigraph as ox

from cep.engine import Engine
from cep.events import Event

STATIONS, UPDATES = 40_000, 1_000
PREFIX = "PREFIX x: <urn:x:>\nevent r(s: string, v: float) TIME t.\n"
LEVELS = "".join(
    f"high{i}(S, L) <- r(S, V) WHERE {{ ?p x:code ?S ; x:kind x:k{i} ; x:level ?L }}, V > L.\n" for i in range(10)
)
OPTIONALS = "".join(
    f"noted{i}(S, N) <- r(S, V) WHERE {{ ?p x:code ?S ; x:kind x:k{i} ; x:level ?L "
    "OPTIONAL { ?p x:note ?N } FILTER(?L > 3) }, V > L.\n"
    for i in range(10)
)
STATIC = 'off("S7").\n' + "".join(
    f"over{i}(S, L) :- {{ ?p x:code ?S ; x:kind x:k{i} ; x:level ?L }}, L > 20, not off(S).\n"
    f"high{i}(S, L) <- r(S, V) WHERE over{i}(S, L), V > L.\n"
    for i in range(10)
)
OPTIONAL = LEVELS + "noted(S, N) <- r(S, V) WHERE { ?p x:code ?S ; x:level ?L OPTIONAL { ?p x:note ?N } }, V > L.\n"


def knowledge(stations: int = STATIONS) -> str:
    """Return ten triples for each station."""
    lines = []
    for i in range(stations):
        rest = " ; ".join(f"<urn:x:p{j}> <urn:x:o{i % (97 + j)}>" for j in range(6))
        lines.append(
            f'<urn:x:s{i}> a <urn:x:Station> ; <urn:x:code> "S{i}" ; <urn:x:kind> <urn:x:k{i % 10}> ; '
            f"<urn:x:level> {i % 50 + 0.5} ; {rest} ."
        )
    return "\n".join(lines)


def changes(count: int, stations: int = STATIONS) -> list[tuple[int, str, str]]:
    """Return changes of the levels of stations. Each has a time in microseconds, and the added and removed triple."""
    random = np.random.default_rng(1)
    level = {}
    made = []
    for n, i in enumerate(random.integers(0, stations, count).tolist()):
        old, new = level.get(i, i % 50 + 0.5), float(n % 100_003) + 0.25
        level[i] = new
        made.append(
            (1_000_000 + 1000 * n, f"<urn:x:s{i}> <urn:x:level> {new} .", f"<urn:x:s{i}> <urn:x:level> {old} .")
        )
    return made


def events(count: int, stations: int = STATIONS) -> list[Event]:
    """Return one event between any two changes."""
    random = np.random.default_rng(2)
    times = [1_000_500 + 1000 * n for n in range(count)]
    return [Event("r", (f"S{i}", 1e6), t, t) for t, i in zip(times, random.integers(0, stations, count).tolist())]


def run(
    known: Any,
    rules: str,
    count: int,
    every: int = 50,
    shuffled: bool = False,
    at_once: bool = False,
    stations: int = STATIONS,
) -> float:
    """Apply updates, and return the CPU seconds. `every`: the number of updates between pushes.

    The first update is not measured. After it, the engine knows which tables depend on which triples.
    """
    engine = Engine.from_text(PREFIX + rules, knowledge=known)
    change_list, read = changes(count, stations), events(count, stations)
    engine.update(1, add="<urn:x:other> <urn:x:level> 7.5 .")
    engine.push([Event("r", ("S1", 0.0), 2, 2)])
    random = np.random.default_rng(3)
    began, found = process_time(), 0
    for at in range(0, count, every):
        piece = change_list[at : at + every]
        if shuffled:
            piece = [piece[i] for i in random.permutation(len(piece))]
        if at_once:
            engine.updates(piece)
        else:
            for time, add, remove in piece:
                engine.update(time, add=add, remove=remove)
        found += sum(frame.height for frame in engine.push(read[at : at + every]).values())
    engine.close()
    return process_time() - began


def endless(known: Any, count: int = 100_000, every: int = 5_000) -> int:
    """Return the maximum number of terms in memory while many literals are added and removed."""
    engine, change_list, most = Engine.from_text(PREFIX + LEVELS, knowledge=known, lateness=None), changes(count), 0
    for at in range(0, count, every):
        engine.updates(change_list[at : at + every])
        engine.advance(change_list[at + every - 1][0])
        state: Any = engine.changes
        most = max(most, len(state._ahead.terms))
    return most


def growth(count: int) -> None:
    """Print how the cost of an update grows with the knowledge."""
    from cep.knowledge.graph import Knowledge

    print(f"{'triples':>12}{'plain':>10}{'OPTIONAL':>10}{'static':>10}   ms each, one by one")
    for stations in (STATIONS // 10, STATIONS, STATIONS * 4):
        known = Knowledge.of(ox.parse(knowledge(stations), ox.RdfFormat.TURTLE), "owlrl")
        each = [
            1000 * run(known.fork(), rules, count, stations=stations) / count for rules in (LEVELS, OPTIONALS, STATIC)
        ]
        print(f"{len(known):>12,}" + "".join(f"{ms:>10.2f}" for ms in each))


def main(count: int = UPDATES) -> None:
    """Print the table."""
    from cep.knowledge.graph import Knowledge

    known = Knowledge.of(ox.parse(knowledge(), ox.RdfFormat.TURTLE), "owlrl")
    print(f"{len(known):,} triples")
    run(known.fork(), LEVELS, 60)
    for name, rules, share, every, shuffled, at_once in (
        ("one by one", LEVELS, 5, 50, False, False),
        ("50 at once", LEVELS, 1, 50, True, True),
        ("1,000 at once", LEVELS, 1, 1000, True, True),
        ("with OPTIONAL", OPTIONAL, 5, 50, False, False),
        ("ten OPTIONAL", OPTIONALS, 5, 50, False, False),
        ("static rules", STATIC, 5, 50, False, False),
    ):
        some = max(50, count // share)
        seconds = run(known.fork(), rules, some, every, shuffled, at_once)
        print(f"{name:<16}{some / seconds:>10,.0f} updates a second of CPU{1000 * seconds / some:>10.2f} ms each")
    print(f"{endless(known.fork()):,} terms at most in 100 thousand updates, {len(known.terms):,} of them loaded")
    growth(count // 5)
    gc.collect()
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024:,} MiB at most")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else UPDATES)
