"""Defined fluents in event rules and back: what is asked of them where events happen, their occurrences, their
beginnings and ends, and simple fluents that such events begin."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from cep.core.time import END_OF_TIME
from cep.engine import Engine, holds
from cep.events import Event, Held
from cep.runtime.decode import events_of
from cep.runtime.maximal_intervals import held_of
from tests import reference_fluents as simple
from tests.formula_maker import FEATURES, Maker, text
from tests.long import seeds
from tests.reference_fluents import Model, Tell
from tests.reference_formulas import Rule
from tests.rounds import Buckets
from tests.test_fluents import random_model, random_records
from tests.test_formulas import expected, ordered

LATE = frozenset(["EVENTUALLY", "ALWAYS", "UNTIL", "LASTING", "WITHIN"])
"""What is decided late, so that events may not ask it."""


class Program:
    """A program of five layers: events, simple fluents, fluents that formulas define of these, events that ask those,
    `z`, which these begin, and fluents that formulas define of that."""

    def __init__(self, rng: random.Random) -> None:
        self.model: Model = random_model(rng)
        self.maker = Maker(rng, FEATURES - LATE)
        self.rules: list[Rule] = self.maker.rules(rng.choice((1, 2)), rng.choice((1, 2)))
        first = text(self.rules, self.maker.known)
        self.asked = [name for name in self.maker.known if name.startswith("d")]
        self.maker.known["z"] = ("s", False)
        more = self.maker.rules(1, rng.choice((1, 2)), first=len(self.asked))
        self.rules += more
        self.records = [each for each in random_records(rng, 25) if each[3] <= 40]
        self.chosen, self.denied = rng.choice(self.asked), rng.random() < 0.3
        lines = [simple.text(self.model), first, *self.lines()]
        lines.append(text(more, self.maker.known).split("\n", 1)[1])
        self.text = "\n".join(lines)

    def asks(self, fluent: str, key: str) -> tuple[str, list[str]]:
        """A condition on a fluent by the event's K, and what it binds besides."""
        types, valued = self.maker.known[fluent]
        places = [n for n, type in enumerate(types) if type == "s"]
        names = [f"V{n}" for n in range(len(types))]
        if places:
            names[places[0]] = key
        return held(fluent, names, valued), [name for name in names if name != key]

    def lines(self) -> Iterator[str]:
        yield "event out(name: string, k: string) TIME time."
        condition, bound = self.asks(self.chosen, "K")
        self.denied &= not bound
        yield f"asks(K) <- a(K, X) WHERE {'not ' if self.denied else ''}{condition}."
        for number, fluent in enumerate(self.asked):
            types, valued = self.maker.known[fluent]
            names = [f"V{n}" for n in range(len(types))]
            pattern, shown = held(fluent, names, valued), ", ".join(names)
            yield f"begins{number}({shown}) <- BEGIN OF {pattern}."
            yield f"ends{number}({shown}) <- END OF {pattern}."
            yield f"whole{number}({shown}) <- {pattern}."
        yield "fluent z(k: string)."
        yield "initiate z(K) <- asks(K)."
        yield "terminate z(K) <- b(K, X)."

    def expected(self) -> tuple[list[Held], list[Event]]:
        before = [each for each in self.rules if each.name in self.asked]
        found = expected(self.model, before, self.records, [])
        events: list[Event] = []
        counts: dict[tuple[str, int], int] = {}
        for (event, key, _, time), count in Counter(self.records).items():
            if event == "a":  # as often as the records that make it equal each other
                counts[key, time] = max(counts.get((key, time), 0), count)
        types, _ = self.maker.known[self.chosen]
        place = types.find("s")
        for (key, time), count in counts.items():
            there = any(
                each.type == self.chosen and (place < 0 or each.args[place] == key) and holds_at(each, time)
                for each in found
            )
            if there != self.denied:
                events += [Event("asks", (key,), time, time)] * count
        for each in found:
            if each.type in self.asked:
                number = self.asked.index(each.type)
                if each.start is not None:
                    events.append(Event(f"begins{number}", each.args, each.start, each.start))
                if each.end is not None:
                    events.append(Event(f"ends{number}", each.args, each.end, each.end))
                if each.start is not None and each.end is not None:
                    events.append(Event(f"whole{number}", each.args, each.start, each.end))
        transitions = [("b", k, x, t) for e, k, x, t in self.records if e == "b"]
        transitions += [("asks", *each.args, 0, each.end) for each in events if each.type == "asks"]
        z = Model(("z",), frozenset(), (Tell("initiate", "z", None, "asks"), Tell("terminate", "z", None, "b")))
        intervals = simple.run(z, sorted(transitions, key=lambda row: row[3])).intervals
        every = expected(self.model, self.rules, self.records, [], intervals)
        return every, in_order(events)


def held(fluent: str, names: Sequence[str], valued: bool) -> str:
    return f"{fluent}({', '.join(names[:-1])}) = {names[-1]}" if valued else f"{fluent}({', '.join(names)})"


def holds_at(held: Held, time: int) -> bool:
    after = held.start is None or held.start < time or (held.start == time and held.bounds[0] == "[")
    return after and (held.end is None or held.end > time or (held.end == time and held.bounds[1] == "]"))


def in_order(events: Sequence[Event] | set[Event]) -> list[Event]:
    return sorted(events, key=lambda e: (e.end, e.start, e.type, tuple(map(str, e.args))))


@pytest.mark.parametrize("seed", seeds(60))
def test_events_ask_what_formulas_define_and_formulas_what_those_begin(seed: int) -> None:
    rng = random.Random(f"both {seed}")
    program = Program(rng)
    every, made = program.expected()
    given = [Event(e, (k, x), t, t) for e, k, x, t in program.records]
    assert ordered(holds(program.text, given)) == every, program.text
    engine = Engine.from_text(program.text, lateness=0)
    tables = []
    while given:
        count = rng.randint(1, 6)
        if rng.random() < 0.3:
            engine = Engine.from_text(program.text, lateness=0).restore(engine.snapshot())
        tables.append(engine.push(given[:count]))
        given = given[count:]
    tables.append(engine.close())
    schemas = engine.plan.schemas
    assert ordered(one for each in tables for one in held_of(each, schemas, None, None)) == every, program.text
    found = [one for each in tables for one in events_of(each, schemas) if one.type not in ("c", "d")]
    assert in_order(found) == made, program.text


@pytest.mark.parametrize("pieces", [1, 2])
def test_all_that_begins_at_an_instant_is_seen_there(pieces: int) -> None:
    """Also where beginnings are reported as well."""
    program = """event a(k: string) TIME time.
fluent d(k: string).
d(K) WHILE a(K).
asks(K) <- a(K) WHERE d(K).
begins(K) <- BEGIN OF d(K).
"""
    given = [Event("a", (key,), time, time) for time in (7, 8) for key in "pqr"]
    engine = Engine.from_text(program, lateness=0)
    tables = [engine.push(given[n * 6 // pieces : (n + 1) * 6 // pieces]) for n in range(pieces)]
    tables.append(engine.close())
    found = [each for table in tables for each in events_of(table, engine.plan.schemas)]
    assert len(found) == 12


@pytest.mark.parametrize("seed", seeds(36))
def test_events_that_ask_in_buckets(seed: int) -> None:
    rng = random.Random(f"asking in buckets {seed}")
    program = Program(rng)
    every, made = program.expected()
    given = list(enumerate(Event(e, (k, x), t, t) for e, k, x, t in program.records))
    buckets = Buckets(program.text, rng.choice((1, 2, 7)), rng)
    tables: list[dict] = []
    while given:
        count = rng.randint(1, 8)
        batch, given = given[:count], given[count:]
        tables.append(buckets.round(buckets.tables(batch), batch[-1][1].end - 1))
    tables.append(buckets.round({}, END_OF_TIME))
    schemas = buckets.schemas
    assert ordered(one for each in tables for one in held_of(each, schemas, None, None)) == every, program.text
    found = [one for each in tables for one in events_of(each, schemas) if one.type not in ("c", "d")]
    assert in_order(found) == made, program.text


def test_the_long_times_of_a_value_are_occurrences() -> None:
    program = """event put(k: string, v: int) TIME t.
    event take(k: string) TIME t.
    fluent at(k: string) = v: int.
    fluent stay(k: string) = v: int.
    initiate at(K) = V <- put(K, V).
    terminate at(K) = _ <- take(K).
    stay(K) = V WHILE at(K) = V LASTING >= 3 s.
    stayed(K, V) <- stay(K) = V.
    """
    engine = Engine.from_text(program, lateness=None)
    rows = [("put", ("x", 1), 1), ("put", ("x", 2), 2), ("take", ("x",), 7)]
    engine.receive([Event(name, args, t * 1_000_000, t * 1_000_000) for name, args, t in rows])
    assert engine.close()["stayed"].rows() == [(2_000_000, 7_000_000, "x", 2)]
