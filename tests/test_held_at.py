"""`held(f(X), T)`: what held at another time, against the reference, however the input is cut and dealt to buckets."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.core.errors import CepError
from cep.core.time import END_OF_TIME
from cep.engine import Engine, holds
from cep.events import Event, Held
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program
from cep.runtime.decode import events_of
from tests import reference_fluents as simple
from tests.formula_maker import FEATURES, Maker, text
from tests.long import seeds
from tests.reference_fluents import Ask, Model
from tests.rounds import Buckets
from tests.test_fluents import as_events, random_model, random_records
from tests.test_fluents import expected as expected_of_simple
from tests.test_formulas import expected
from tests.test_formulas_in_events import LATE, held, holds_at, in_order


class Question:
    """`out(K, values) <- pattern WHERE held(fluent, time), ..` of a pattern `a(K, X)`, `ask(K, T)`, or of two events
    within some time; its text, and what it finds."""

    def __init__(self, rng: random.Random, number: int, known: dict[str, tuple[str, bool]]) -> None:
        self.name = f"out{number}"
        self.fluent = rng.choice(sorted(known))
        types, self.valued = known[self.fluent]
        self.body = rng.choice(("a", "ask", "ask", "pair"))
        self.within = rng.randint(1, 20)
        self.anchor = rng.choice(("start", "end", "T") if self.body == "ask" else ("start", "end"))
        self.ago = rng.choice((0, 1, 2, 5, 9, 30, -2))
        self.least = rng.choice((None, 4, 15)) if self.anchor == "T" else None
        self.names = [f"V{n}" for n in range(len(types))]
        self.place = types.find("s")
        if self.place >= 0 and rng.random() < 0.8:
            self.names[self.place] = "K"
        else:
            self.place = -1
        self.denied = rng.random() < 0.3
        self.anything = self.denied or rng.random() < 0.2
        if self.anything:
            self.names = [name if name == "K" else "_" for name in self.names]
        self.shown = [name for name in self.names if name.startswith("V")]

    @property
    def text(self) -> str:
        pattern = {"a": "a(K, X)", "ask": "ask(K, T)"}.get(self.body)
        if pattern is None:
            pattern = f"(a(K, X) SEQ b(K, Y)) WITHIN {self.within / 1_000_000:.6f} s"
        anchor = self.anchor if self.anchor == "T" else f"{self.anchor}()"
        sign, far = ("-" if self.ago > 0 else "+"), abs(self.ago)
        time = f"{anchor} {sign} {far / 1_000_000:.6f} s" if far else anchor
        asked = held(self.fluent, self.names, self.valued)
        conditions = [f"{'not ' if self.denied else ''}held({asked}, {time})"]
        if self.least is not None:
            conditions.append(f"T > end() - {self.least / 1_000_000:.6f} s")
        return f"{self.name}({', '.join(['K', *self.shown])}) <- {pattern} WHERE {', '.join(conditions)}."

    def occurrences(self, events: list[Event]) -> Iterator[tuple[str, int, int, int]]:
        """The key, the start and the end of each, and the time that is asked."""
        for one in events:
            if self.body == "pair" and one.type == "a":
                for two in events:
                    if two.type == "b" and two.args[0] == one.args[0] and 0 < two.end - one.end <= self.within:
                        at = one.end if self.anchor == "start" else two.end
                        yield one.args[0], one.end, two.end, at - self.ago
            elif one.type == self.body:
                anchor = one.args[1] if self.anchor == "T" else one.end
                if self.least is None or anchor > one.end - self.least:
                    yield one.args[0], one.end, one.end, anchor - self.ago

    def events(self, every: list[Held], events: list[Event]) -> Iterable[Event]:
        """What it gives: a set for pairs, and for one event as often as the records that make it equal each other."""
        if self.body == "pair":
            return set(self.found(every, events))
        made: Counter[Event] = Counter()
        for record, count in Counter(events).items():
            for event in set(self.found(every, [record])):
                made[event] = max(made[event], count)
        return made.elements()

    def found(self, every: list[Held], events: list[Event]) -> Iterator[Event]:
        for key, start, end, time in self.occurrences(events):
            answers = set()
            for each in every:
                alike = self.place < 0 or (each.args[self.place] == key)
                if each.type == self.fluent and alike and time <= end and holds_at(each, time):
                    answers.add(tuple(v for v, name in zip(each.args, self.names, strict=True) if name in self.shown))
            if self.denied:
                answers = set() if answers else {()}
            for answer in answers:
                yield Event(self.name, (key, *answer), start, end)


class Program:
    """Simple fluents, fluents that formulas define of them, and events that ask both at other times."""

    def __init__(self, rng: random.Random) -> None:
        self.model: Model = random_model(rng)
        maker = Maker(rng, FEATURES - LATE)
        self.rules = maker.rules(rng.choice((1, 2)), rng.choice((1, 2)))
        self.questions = [Question(rng, number, maker.known) for number in range(4)]
        self.records = [each for each in random_records(rng, 25) if each[3] <= 40]
        lines = [simple.text(self.model), text(self.rules, maker.known), "event ask(k: string, t: time) TIME time."]
        self.text = "\n".join([*lines, *(each.text for each in self.questions)])
        self.events = as_events(self.records)
        for _ in range(rng.randint(0, 8)):
            time = rng.randint(0, 45)
            self.events.append(Event("ask", (rng.choice("pqr"), time - rng.choice((-3, 0, 1, 3, 8, 20))), time, time))
        self.events.sort(key=lambda each: each.end)

    def expected(self) -> list[Event]:
        every = expected(self.model, self.rules, self.records, [])
        return in_order([made for each in self.questions for made in each.events(every, self.events)])


def made_of(tables: list[dict], schemas: dict) -> list[Event]:
    found = [one for each in tables for one in events_of(each, schemas) if one.type.startswith("out")]
    return in_order(found)


@pytest.mark.parametrize("seed", seeds(40))
def test_events_ask_what_held(seed: int) -> None:
    rng = random.Random(f"held at {seed}")
    program = Program(rng)
    made = program.expected()
    engine = Engine.from_text(program.text, lateness=0)
    tables, given = [], program.events
    while given:
        count = rng.randint(1, 6)
        if rng.random() < 0.3:
            engine = Engine.from_text(program.text, lateness=0).restore(engine.snapshot())
        tables.append(engine.push(given[:count]))
        given = given[count:]
        if rng.random() < 0.3:
            engine.forget()
    tables.append(engine.close())
    assert made_of(tables, engine.plan.schemas) == made, program.text


@pytest.mark.parametrize("seed", seeds(20))
def test_events_ask_what_held_in_buckets(seed: int) -> None:
    rng = random.Random(f"held at in buckets {seed}")
    program = Program(rng)
    made = program.expected()
    buckets = Buckets(program.text, rng.choice((1, 2, 7)), rng)
    tables: list[dict] = []
    given = list(enumerate(program.events))
    while given:
        count = rng.randint(1, 8)
        batch, given = given[:count], given[count:]
        tables.append(buckets.round(buckets.tables(batch), batch[-1][1].end - 1))
    tables.append(buckets.round({}, END_OF_TIME))
    assert made_of(tables, buckets.schemas) == made, program.text


@pytest.mark.parametrize("seed", seeds(30))
def test_fluents_begin_and_end_by_what_held(seed: int) -> None:
    """Also by themselves, and in a cycle."""
    rng = random.Random(f"begun by what held {seed}")
    model = random_model(rng)

    def earlier(asks: tuple[Ask, ...]) -> tuple[Ask, ...]:
        return tuple(replace(ask, ago=rng.choice((0, 1, 3, 10))) for ask in asks)

    tells = tuple(replace(tell, asks=earlier(tell.asks)) for tell in model.tells)
    derived = tuple((name, event, earlier(asks)) for name, event, asks in model.derived)
    model = replace(model, tells=tells, derived=derived)
    program, records = simple.text(model), random_records(rng)
    intervals, events = expected_of_simple(model, records)
    given = as_events(records)
    assert holds(program, given) == intervals, program
    engine = Engine.from_text(program, lateness=0)
    tables = []
    while given:
        count = rng.randint(1, 6)
        tables.append(engine.push(given[:count]))
        given = given[count:]
        if rng.random() < 0.2:
            engine = Engine.from_text(program, lateness=0).restore(engine.snapshot())
            engine.forget()
    tables.append(engine.close())
    found = [event for each in tables for event in events_of(each, engine.plan.schemas)]
    assert sorted(found, key=lambda e: (e.end, e.start, e.type, e.args)) == events, program


BASE = """event go(p: string, x: string) TIME time.
event tick(p: string) TIME time.
event report(p: string, t: time, n: int) TIME time.
event stay(p: string) START s END e.
fluent on(p: string).
fluent at(p: string) = place: string.
fluent raining().
initiate on(P) <- tick(P).
initiate at(P) = X <- go(P, X).
"""

MISTAKES = [
    ("held(on(P), N)", "`held` needs a time, but `N` is an int"),
    ("held(on(P), Q)", "`Q` is not bound, but `held` needs a known time"),
    ("not held(on(P), Q)", "`Q` is not bound"),
    ("held(on(P))", "`held` needs a fluent and a time, but here it has 1 arguments"),
    ("held(T, on(P))", "`held` needs a fluent first, then a time"),
    ("held(dark, T)", "`held` needs a fluent first, then a time"),
    ("held(om(P), T)", "`om` is not declared: there is no fluent of that name"),
    ("held(on(P, P), T)", "here it has 2 arguments"),
    ("held(at(P), T)", "fluent `at` has a value"),
    ("held(on(P) = 3, T)", "fluent `on` has no value: it holds or does not"),
    ("held(not on(P), T)", "`not` stands before `held`"),
    ("held(on(upper(P)), T)", "the arguments of a fluent must be variables or constants"),
    ("(held(on(P), T) or N = 3)", "the fluent `on` cannot stand among alternatives"),
    ("N = if(held(on(P), T), 1, 2)", "the fluent `on` cannot be used as a value or a function here"),
    ("held(at(P) = X, Q), held(at(P) = Q, T), X = a", "`held` needs a time, but `Q` is a string"),
]


@pytest.mark.parametrize(("condition", "message"), MISTAKES)
def test_mistakes(condition: str, message: str) -> None:
    with pytest.raises(CepError) as raised:
        Engine.from_text(BASE + f"c(P) <- report(P, T, N) WHERE {condition}.")
    assert message in str(raised.value)
    assert "^" in str(raised.value)


def test_formulas_ask_by_their_own_operators() -> None:
    with pytest.raises(CepError) as raised:
        Engine.from_text(BASE + "fluent d(p: string). d(P) WHILE on(P) WHERE held(on(P), 3).")
    assert "`held` can stand only in a WHERE of an event rule" in str(raised.value)
    assert "ONCE[5 s, 5 s]" in str(raised.value)


BOUNDED = [
    ("report(P, T, N) WHERE held(on(P), end() - 5 s)", True),
    ("report(P, T, N) WHERE held(on(P), start() - 5 s)", True),
    ("report(P, T, N) WHERE held(on(P), T)", False),
    ("report(P, T, N) WHERE held(on(P), T), T > end() - 1 h", True),
    ("report(P, T, N) WHERE not held(on(P), T - 1 s), end() - 1 h <= T", True),
    ("report(P, T, N) WHERE U = end() - 1 min, held(on(P), U)", True),
    ("stay(P) WHERE held(on(P), start())", False),
    ("(stay(P) WITHIN 1 h) WHERE held(on(P), start())", True),
    ("(tick(P) SEQ go(P, _)) WHERE held(on(P), start())", False),
    ("(tick(P) SEQ go(P, _)) WITHIN 1 h WHERE held(on(P), start())", True),
    ("((tick(P) WHERE T = end()) SEQ go(P, _)) WITHIN 1 h WHERE held(on(P), T)", True),
    ("((tick(P) WHERE T = end()) SEQ go(P, _)) WHERE held(on(P), T)", False),
    ("((tick(P) WHERE T = end()) OR report(P, T, _)) WITHIN 1 h WHERE held(on(P), T)", False),
    ("tick(P) WHERE held(on(P), 2020-01-01)", False),
]


@pytest.mark.parametrize(("body", "bounded"), BOUNDED)
def test_what_never_forgets_is_said(body: str, bounded: bool) -> None:
    warnings = Engine.from_text(BASE + f"c(P) <- {body}.").plan.warnings
    said = [each for each in warnings if "this `held` never forgets" in str(each)]
    assert bool(said) is not bounded


def test_what_no_time_reaches_is_forgotten() -> None:
    program = """event on(k: string) TIME time.
event off(k: string) TIME time.
fluent f(k: string).
initiate f(K) <- on(K).
terminate f(K) <- off(K).
was(K) <- on(K) WHERE held(f(K), end() - 0.000003 s).
"""
    engine, made, sizes = Engine.from_text(program, lateness=0), 0, []
    for first in range(0, 20_000, 4_000):
        batch = [Event("on" if t % 4 < 2 else "off", ("k",), t, t) for t in range(first, first + 4_000)]
        made += sum(len(table) for name, table in engine.push(batch).items() if name == "was")
        sizes.append(len(engine.snapshot()))
        engine.forget()
        sizes.append(10 * len(engine.snapshot()))
    made += sum(len(table) for name, table in engine.close().items() if name == "was")
    assert max(sizes) < 250_000, "a few thousand intervals are kept, however many there were; a few where it must be"
    assert made == 10_000 - 2, "f held 3 us before each `on` but the first two"


def test_what_is_printed_is_read_back() -> None:
    written = BASE + (
        'c(P) <- report(P, T, _) WHERE held(at(P) = "x", T), not held(on(P), end() - 5 s), held(raining(), start()).\n'
    )
    printed = print_program(parse(written))
    assert print_program(parse(printed)) == printed
    assert 'held(at(P) = "x", T)' in printed


def test_a_fluent_without_arguments_and_one_that_is_another_value() -> None:
    program = BASE + (
        "initiate raining() <- tick(P).\n"
        "wet(P) <- report(P, T, _) WHERE held(raining, T).\n"
        "away(P) <- report(P, T, _) WHERE held(at(P) != home, T).\n"
    )
    given = [
        Event("go", ("ann", "home"), 1, 1),
        Event("tick", ("ann",), 5, 5),
        Event("report", ("ann", 3, 0), 9, 9),
        Event("report", ("ann", 1, 0), 10, 10),
        Event("report", ("ann", 6, 0), 11, 11),
    ]
    engine = Engine.from_text(program, lateness=0)
    tables = [engine.push(given), engine.close()]
    found = [each for table in tables for each in events_of(table, engine.plan.schemas)]
    assert [(each.type, each.end) for each in in_order(found)] == [("away", 10), ("wet", 11)]


def test_a_predicate_of_that_name_is_asked_as_others() -> None:
    engine = Engine.from_text(BASE + "held(ann, home). c(P) <- tick(P) WHERE held(P, home).")
    tables = [engine.push([Event("tick", ("ann",), 1, 1), Event("tick", ("bob",), 2, 2)]), engine.close()]
    found = [each for table in tables for each in events_of(table, engine.plan.schemas)]
    assert [each.args for each in found] == [("ann",)]


EXPLAINED = """event v(k: string, s: float) TIME time.
event report(k: string, t: time) TIME time.
fluent moving(k: string).
fluent gear(k: string) = n: int.
initiate moving(V) <- v(V, S) WHERE S > 0.5.
terminate moving(V) <- v(V, S) WHERE S <= 0.5.
initiate gear(V) = 2 <- v(V, S) WHERE S > 5.
was(K, G) <- report(K, T) WHERE held(moving(K), T), held(gear(K) = G, end() - 3 s).
was_not(K) <- report(K, T) WHERE not held(moving(K), T).
"""
TOLD = [
    (("was(a, 2)",), ['moving("a") over (1, 4]', 'gear("a") = 2 from 1 on', 'v("a", 9) at 1']),
    (("was_not(a)",), ['moving("a") does not hold at 5']),
    (("--not", "was(a, 2)", "--at", "7"), ['there is report("a", 3) at 6']),
    (("--not", "was(b, 2)", "--at", "8"), ['moving("b") does not hold at 2']),
    (("--not", "was_not(a)", "--at", "6"), ['moving("a") holds at 3']),
]


@pytest.mark.parametrize(("asked", "told"), TOLD)
def test_what_held_is_explained(asked: tuple[str, ...], told: list[str], tmp_path: Path) -> None:
    (tmp_path / "p.cep").write_text(EXPLAINED)
    rows = [
        {"type": "v", "k": "a", "s": 9.0, "time": 1},
        {"type": "v", "k": "a", "s": 0.1, "time": 4},
        {"type": "report", "k": "a", "t": 3, "time": 6},
        {"type": "report", "k": "a", "t": 5, "time": 7},
        {"type": "report", "k": "b", "t": 2, "time": 8},
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = CliRunner().invoke(app, ["explain", str(tmp_path / "p.cep"), *asked, "-i", str(tmp_path / "in.jsonl")])
    assert result.exit_code == 0, result.output
    assert "at'" not in result.output
    for each in told:
        assert each in result.output


def test_the_plan_says_how_long_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "p.cep").write_text(EXPLAINED)
    told = CliRunner().invoke(app, ["plan", str(tmp_path / "p.cep")]).output
    assert "held(" in told and "what holds and what held" in told
    assert "3 s after it has ended" in told and "never" in told
    checked = CliRunner().invoke(app, ["check", str(tmp_path / "p.cep")]).output
    assert checked.count("this `held` never forgets") == 2
    assert "add `T >= end() - 1 h`; a WITHIN also bounds" in " ".join(checked.split())


BETWEEN = """event smoke(r: string) TIME time.
event heat(r: string) TIME time.
event worked(r: string) START from END until.
fluent works(r: string) START from END until.
p(R) <- NOT(worked(R)).[smoke(R), heat(R)] WITHIN 1 h.
by_unless(R) <- p(R) UNLESS (p(R) PAR worked(R)) WITHIN 1 h.
by_fluent(R) <- NOT(BEGIN OF works(R)).[smoke(R), heat(R)] WITHIN 1 h WHERE not held(works(R), start()).
"""


@pytest.mark.parametrize(("since", "until"), [(a, b) for a in (1, 10, 12, 20, 22) for b in (5, 15, 20, 25) if a < b])
def test_the_hint_on_absence_says_what_excludes_what_lasts(since: int, until: int) -> None:
    """UNLESS and PAR exclude an interval that ends after the pattern, and NOT one inside it; a fluent every one."""
    engine = Engine.from_text(BETWEEN, lateness=None)
    engine.push([Event(name, ("a",), since, until) for name in ("worked", "works")])
    engine.push([Event("smoke", ("a",), 10, 10), Event("heat", ("a",), 20, 20)])
    derived = engine.close().keys()
    overlaps, inside = since < 20 and until > 10, since > 10 and until < 20
    assert ("by_fluent" in derived) is not overlaps
    assert ("by_unless" in derived) is not (inside or (overlaps and until > 20))
