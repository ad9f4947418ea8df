"""The law of revision where the knowledge changes: updates that come late, among events that do."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import polars as pl
import pytest

from cep.app.knowledge_updates import KnowledgeUpdates
from cep.compile import compiled, divided
from cep.core.errors import CepError
from cep.core.time import END_OF_TIME
from cep.engine import Engine
from cep.events import Event
from cep.knowledge.arriving import Arriving
from cep.knowledge.graph import Knowledge
from tests.cases_format import known
from tests.formula_maker import FEATURES
from tests.long import seeds
from tests.test_formula_knowledge import ALWAYS, triples
from tests.test_formula_knowledge import random_case as random_formulas
from tests.test_revision import UNSEEN, Change, Known, Rows, named, rows, sets_of, tables

NOTHING = pl.DataFrame()
Update = tuple[int, str | None, str | None]

P = "PREFIX x: <http://x/>\n"
HEAD = P + "event r(s: string, n: int).\nevent q(s: string, n: int).\nevent near(s: string).\n"
"""Of stations there are codes, levels, and to which they belong."""
LOADED = P + "".join(f'x:s{i} x:code "S{i}" ; x:level {i} ; x:part x:g{i % 2} .\n' for i in range(3))
STATICS = [
    "level(S, L) :- { ?p x:code ?S ; x:level ?L }.",
    "grouped(S, G) :- { ?p x:code ?S ; x:part ?G }.",
    "alone(S) :- grouped(S, G), not level(S, 0).",
    "reach(A, B) :- { ?A x:part ?B }.",
    "reach(A, C) :- reach(A, B), { ?B x:part ?C }.",
]
RULES = [
    "h{}(S, L) <- r(S, N) WHERE {{ ?p x:code ?S ; x:level ?L }}, N > L.",
    "h{}(S, L) <- r(S, N) WHERE level(S, L), N >= L.",
    "h{}(S) <- r(S, N) WHERE alone(S).",
    "h{}(S) <- q(S, N) WHERE not level(S, N).",
    "h{}(G, A, B) <- r(A, _) SEQ q(B, _) WHERE grouped(A, G), grouped(B, G).",
    "h{}(S, A) <- r(S, A) SEQ q(S, _) WHERE {{ ?p x:code ?S ; x:level ?A }}.",
    "h{}(S) <- r(S, N) UNLESS q(S, M) WITHIN 3 ms WHERE level(S, N).",
    "h{}(S, C) <- (r(S, N) WHERE level(S, N)) AGGREGATE C = count() OVER LAST 4 ms BY S.",
    "h{}(S, N) <- r(S, N) SEQ q(S, N).",
    "h{}(G) <- r(S, _) WHERE grouped(S, P), reach(P, G).",
    "h{}(S, N) <- r(S, N) SEQ q(S, M) WHERE level(S, M) POLICY recent.",
    "h{}(S, L) <- (r(S, N) WHERE level(S, L)) SEQ q(S, _) POLICY chronological.",
    "h{}(N) <- near(S) SEQ r(S, N) WHERE level(S, N).",
    "initiate f{}(S) <- r(S, N) WHERE level(S, N).\nterminate f{}(S) <- q(S, N) WHERE not alone(S).",
    "initiate f{}(S) = L <- r(S, N) WHERE level(S, L).",
]
CHAINED = ["c{}(S) <- h{}(S) SEQ q(S, _).", "c{}(S) <- r(S, _) SEQ h{}(S)."]


def random_program(rng: random.Random) -> str:
    lines = [HEAD + "\n".join(STATICS)]
    if rng.random() < 0.3:
        lines[0] = lines[0].replace("event r(s: string, n: int).", "event r(s: string, n: int) TIME time KEY s.")
    for number, rule in enumerate(rng.sample(RULES, rng.randint(1, 3))):
        if rule.startswith("initiate"):
            value = "" if "f{}(S) =" not in rule else " = l: int"
            lines.append(f"fluent f{number}(s: string){value}.")
        lines.append(rule.format(number, number))
        if rule.startswith("h{}(S)") and rng.random() < 0.6:
            lines.append(rng.choice(CHAINED).format(number, number))
    return "\n".join(lines)


def random_updates(rng: random.Random, last: int) -> list[Update]:
    made: list[Update] = []
    for _ in range(rng.randint(1, 7)):
        time, station = 1000 * rng.randint(1, last), rng.randint(0, 2)
        everything = P + "".join(f"x:s{station} x:level {n} .\n" for n in range(4))
        groups = P + f"x:s{station} x:part x:g0 , x:g1 ."
        level = P + f"x:s{station} x:level {rng.randint(0, 3)} ."
        made.append(
            rng.choice(
                [
                    (time, level, everything),
                    (time, level, None),
                    (time, None, everything),
                    (time, P + f"x:s{station} x:part x:g{rng.randint(0, 1)} .", groups),
                    (time, P + f"x:g{rng.randint(0, 1)} x:part x:g{rng.randint(0, 2)} .", None),
                ]
            )
        )
    return made


def check(
    text: str,
    background: Knowledge,
    events: Sequence[Event],
    updates: Sequence[Update],
    rng: random.Random,
    length: int,
    keys: Sequence[str] = (),
    **options: object,
) -> int:
    """Events and updates come in any order, and some events are withdrawn; gives how many updates came late."""
    compiling, running = divided({"knowledge": background, **options})
    program = compiled(text, "<program>", compiling)

    def engine_of(**more: object) -> Engine:
        return Engine(program, running, **more)

    engine = engine_of(revise=length)
    events = [event for event in events if event.type in engine.inputs]
    if rng.random() < 0.5:
        events = rng.sample(events, len(events))
    things: list[Change | Update] = []
    for number, event in enumerate(events):
        things.append((event, 1))
        if rng.random() < 0.2:
            things.append((rng.choice(events[: number + 1]), -1))
    for update in rng.sample(updates, len(updates)):
        things.insert(rng.randint(0, len(things)), update)
    names: Rows = Rows()
    known_, net, taken, late = Known(length, keys, sets_of(engine)), Rows(), [], 0
    position = 0
    looks = random.Random(text)
    while things:
        piece, things = things[: (count := rng.choice((1, 1, 2, 4)))], things[count:]
        watermark, latest, came = engine.watermark, known_.latest, []
        for each in piece:
            if len(each) == 2:
                known_.take(position, each, latest)
                came.append((position, each))
                position += 1
        new = [each for each in piece if len(each) == 3]
        for each in [new] if new and rng.random() < 0.5 else [[one] for one in new]:
            final = [update for update in each if update[0] < watermark - length]
            if final:
                with pytest.raises(CepError, match=r"the results that it would change are final|has passed it"):
                    engine.updates(each)
                continue
            engine.updates(each)
            taken += each
            late += sum(update[0] <= watermark for update in each)
        if rng.random() < 0.15:
            engine = engine_of(revise=length).restore(engine.snapshot())
        engine._parts.sweep_at = 0  # every push sweeps
        made = engine.push(tables(engine, came)) if came else engine.advance(engine.watermark)
        engine.take_dead()
        net.subtract(rows(made, -1))
        net.update(rows(made, 1))
        names.subtract(named(made, -1))
        names.update(named(made, 1))
        said = text, piece, taken, known_.in_order(), length
        assert set(names.values()) <= {0, 1}, said
        if looks.random() < UNSEEN:
            continue
        other = engine_of(lateness=None)
        known_.into(other)
        other.updates(sorted(taken, key=lambda each: each[0]))
        assert +net == rows(other.advance(known_.latest) if known_.latest > -(2**62) else {}), said
    made = engine.close()
    net.subtract(rows(made, -1))
    net.update(rows(made, 1))
    other = engine_of(lateness=None)
    known_.into(other)
    other.updates(sorted(taken, key=lambda each: each[0]))
    assert +net == rows(other.close()), (text, taken, known_.in_order(), length)
    return late


@pytest.mark.parametrize("seed", seeds(300))
def test_the_law_on_random_programs_and_updates(seed: int) -> None:
    rng = random.Random(seed)
    text = random_program(rng)
    events = []
    for _ in range(rng.randint(3, 14)):
        time, type = 1000 * rng.randint(1, 20), rng.choice(["r", "r", "q", "q", "near"])
        args = (f"S{rng.randint(0, 2)}",) if type == "near" else (f"S{rng.randint(0, 2)}", rng.randint(0, 3))
        events.append(Event(type, args, time, time))
    events.sort(key=lambda event: event.end)
    keys = ["r"] if "KEY" in text else []
    check(text, known(LOADED), events, random_updates(rng, 20), rng, 1000 * rng.choice((0, 2, 5, 30)), keys)


@pytest.mark.parametrize("seed", seeds(60))
def test_the_law_on_formulas_and_updates(seed: int) -> None:
    rng = random.Random(seed)
    features = FEATURES if seed % 2 else frozenset("AND NOT OR ONCE AGGREGATE WHERE".split())  # noqa: SIM905
    case, knowledge = random_formulas(rng, features, rng.choice((1, 2)), rng.choice((1, 2)))
    updates = [(time, triples(new), triples(gone)) for time, new, gone in knowledge.updates]
    background = known(ALWAYS + triples(knowledge.first))
    try:
        check(case.program, background, case.events, updates, rng, rng.choice((0, 3, 10, 100)), changes=seed % 3 == 0)
    except CepError as error:
        assert error.code == "endless", "cycles that begin with the input are refused"


PLACES = [
    "h{}(S, F) <- p(S, Lat, Long) WHERE near(Lat, Long, 60000, F, _).",
    "h{}(S, C) <- p(S, Lat, Long) WHERE {{ ?P x:code ?C }}, inside(Lat, Long, P).",
    "h{}(S) <- p(S, Lat, Long) WHERE {{ ?P x:code ?S }}, not inside(Lat, Long, P).",
    "h{}(S, C) <- p(S, Lat, Long) WHERE {{ ?P x:code ?C }}, (inside(Lat, Long, P) or near(Lat, Long, 20000, P, _)).",
    "h{}(S, C, inside(Lat, Long, P)) <- p(S, Lat, Long) WHERE {{ ?P x:code ?C }}.",
    "h{}(S, C) <- p(S, Lat, Long) SEQ p(C, _, _) WHERE {{ ?P x:code ?C }}, inside(Lat, Long, P).",
    "h{}(S, B) <- p(S, Lat, Long) WHERE near(Lat, Long, 60000, A, _), close(A, B).",
    "h{}(S) <- p(S, Lat, Long) WHERE here(Lat, Long).",
]
BESIDE = (
    P
    + "event p(s: string, lat: float, long: float).\n"
    + "close(A, B) :- { ?A x:at ?Long }, near(0.0, Long, 120000, B, _).\n"
    + 'here(Lat, Long) :- { ?P x:code "S0" }, inside(Lat, Long, P).\n'
)


def square(station: int, long: int) -> str:
    corners = ", ".join(
        f"{long + x} {y}" for x, y in ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5), (-0.5, -0.5))
    )
    wkt = f'"POLYGON (({corners}))"^^<http://www.opengis.net/ont/geosparql#wktLiteral>'
    return f"x:s{station} x:at {long}.0 ; <http://www.opengis.net/ont/geosparql#asWKT> {wkt} .\n"


@pytest.mark.parametrize("seed", seeds(60))
def test_the_law_where_places_move(seed: int) -> None:
    rng = random.Random(seed)
    text = BESIDE + "\n".join(rule.format(i) for i, rule in enumerate(rng.sample(PLACES, rng.randint(1, 3))))
    background = known(P + "".join(f'x:s{i} x:code "S{i}" .\n{square(i, i)}' for i in range(2)))
    events = []
    for time in sorted(rng.choices(range(1, 15), k=rng.randint(3, 12))):
        args = (f"S{rng.randint(0, 1)}", rng.choice((0.0, 0.1)), float(rng.randint(0, 3)))
        events.append(Event("p", args, 1000 * time, 1000 * time))
    updates: list[Update] = []
    for _ in range(rng.randint(1, 5)):
        station = rng.randint(0, 1)
        gone = P + "".join(square(station, long) for long in range(4))
        new = P + square(station, rng.randint(0, 3)) if rng.random() < 0.8 else None
        updates.append((1000 * rng.randint(1, 15), new, gone))
    check(text, background, events, updates, rng, 1000 * rng.choice((0, 2, 5, 30)))


class Pieces:
    """Awaits nothing, and is never interrupted."""

    signal = 0

    def next(self, pieces: Iterator[bytes]) -> bytes | None:
        return next(pieces, None)


def test_a_change_of_a_stream_that_is_late_changes_what_was_derived() -> None:
    prov, date = "http://www.w3.org/ns/prov#", "http://www.w3.org/2001/XMLSchema#dateTime"
    whole = '<http://x/s0> <http://x/level> "0"^^<http://www.w3.org/2001/XMLSchema#integer>'

    def change(name: str, way: str, second: int) -> bytes:
        about = f'<urn:{name}> <{prov}{way}AtTime> "1970-01-01T00:00:{second:02}Z"^^<{date}> .'
        return f"{about}\n{whole} <urn:{name}> .\n".encode()

    pieces = [change("one", "generated", 30) + change("two", "invalidated", 15) + change("old", "invalidated", 5)]
    updates = KnowledgeUpdates((), [Arriving("-", iter([change("far", "generated", 25), *pieces]))])
    text = HEAD + "h(S, N) <- r(S, N) WHERE { ?p x:code ?S ; x:level ?N }."
    engine = Engine.from_text(text, knowledge=known(LOADED), revise=20_000_000)
    found = []
    for second in (12, 20, 28):
        engine.receive([Event("r", ("S0", 0), second * 1_000_000, second * 1_000_000)])
        for made in updates.bring(engine, engine.reached, Pieces()):
            found += [(row["@change"], row["end"] // 1_000_000) for row in made.get("h", NOTHING).iter_rows(named=True)]
    assert found == [(1, 12), (1, 20), (-1, 20), (1, 28)], "from 15 to 25 it is not known"
    assert not any(updates.bring(engine, END_OF_TIME, Pieces())), "what comes last is of long ago"
    assert [(dead.code, dead.line, dead.reason) for dead in updates.take_dead()] == [
        ("late", 7, "the update is late: the results that it would change are final")
    ]


def test_an_update_that_cannot_be_changes_nothing() -> None:
    text = HEAD + "h(S, N) <- r(S, N) WHERE { ?p x:code ?S ; x:level ?L }, N > L."
    engine = Engine.from_text(text, knowledge=known(LOADED), revise=100)
    made = engine.push([Event("r", ("S0", 1), 50, 50)])
    assert made["h"].height == 1
    wrong = [(40, P + "x:s0 x:level 9 .", P + "x:s0 x:level 0 ."), (45, P + 'x:s0 x:level "much" .', None)]
    with pytest.raises(CepError, match="it was an int"):
        engine.updates([*wrong, (70, P + "x:s1 x:level 7 .", None)])
    assert engine.changes is not None and not engine.changes.pending and engine.changes.first_late is None
    assert not engine.advance(50)
    with pytest.raises(CepError, match="it was an int"):
        engine.updates([(40, P + "x:s0 x:level 9 .", None), (70, P + 'x:s1 x:level "much" .', None)])
    assert not engine.advance(50), "those ahead of time count as well"
    engine.updates(wrong[:1])
    assert engine.advance(50)["h"]["@change"].to_list() == [-1]
