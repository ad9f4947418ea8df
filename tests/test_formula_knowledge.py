"""Formulas whose WHERE asks knowledge that changes: random rules and updates against the reference, cuts, restores."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from cep.core.time import END_OF_TIME
from cep.engine import Engine
from cep.events import Event, Held
from cep.explain.fluents import FluentFacts
from cep.explain.formulas import FormulaReader, set_of, when_of
from cep.explain.judging import Judge
from cep.explain.occurrences import Memory
from cep.operators.goals.fluents.restricted import RestrictedGoal
from cep.runtime.maximal_intervals import held_of
from cep.runtime.state_by_key import redeal
from tests import reference_fluents as simple
from tests.cases_format import known
from tests.formula_maker import FEATURES, Maker, furthest, text
from tests.long import seeds
from tests.reference_formulas import Rule, defined
from tests.reference_times import Frame, stretches
from tests.rounds import Buckets
from tests.test_fluents import random_model, random_records
from tests.test_formula_recursion import FEATURES as BACK
from tests.test_formula_recursion import monotone, until
from tests.test_formulas import Case, interval, ordered

Pair = tuple[str, int]
HEAD = "PREFIX x: <http://x/>\nlinked(K, X) :- { [] x:key ?K ; x:val ?X }.\n"
ALWAYS = '<http://x/z> <http://x/key> "z" . <http://x/z> <http://x/val> 99 .'


@dataclass(frozen=True)
class Known:
    """What is known at first, and from when on what comes and goes."""

    first: frozenset[Pair]
    updates: tuple[tuple[int, frozenset[Pair], frozenset[Pair]], ...]

    def codes(self, frame: Frame) -> dict[Pair, frozenset[int]]:
        """When each pair is known."""
        found: dict[Pair, set[int]] = {}
        now, since = set(self.first), frame.first
        for time, new, gone in (*sorted(self.updates, key=lambda each: each[0]), (frame.last // 2 + 1, (), ())):
            for pair in now:
                found.setdefault(pair, set()).update(range(since, 2 * time))
            now, since = (now - set(gone)) | set(new), 2 * time
        return {pair: frozenset(codes & set(frame.codes)) for pair, codes in found.items()}


def triples(pairs: frozenset[Pair]) -> str:
    made = []
    for key, value in sorted(pairs):
        subject = f"<http://x/{key}{value}>"
        made.append(f'{subject} <http://x/key> "{key}" . {subject} <http://x/val> {value} .')
    return "\n".join(made)


def random_known(rng: random.Random, last: int, count: int) -> Known:
    def some() -> frozenset[Pair]:
        return frozenset((rng.choice("pqr"), rng.randint(0, 2)) for _ in range(rng.choice((0, 1, 1, 2, 3))))

    return Known(some() | some(), tuple((rng.randint(-3, last), some(), some()) for _ in range(count)))


def random_case(rng: random.Random, features: frozenset[str], count: int, depth: int) -> tuple[Case, Known]:
    model = random_model(rng)
    while True:
        maker = Maker(rng, features | {"KNOWN"})
        rules = maker.rules(count, depth)
        if "WHERE {" in text(rules, maker.known) or "linked(" in text(rules, maker.known):
            break
    return case_of(rng, model, maker, rules, 25, 40)


def case_of(
    rng: random.Random, model: simple.Model, maker: Maker, rules: Sequence[Rule], count: int, last: int
) -> tuple[Case, Known]:
    records = [each for each in random_records(rng, count) if each[3] <= last]
    trips = [(rng.choice("pqr"), rng.randint(0, 2), start, start + rng.choice((0, 1, 3, 7)))
             for start in rng.choices(range(last - 10), k=rng.randint(0, 8))]  # fmt: skip
    events = [Event(e, (k, x), t, t) for e, k, x, t in records] + [Event("trip", (k, x), s, e) for k, x, s, e in trips]
    knowledge = random_known(rng, last, rng.randint(1, 6))
    program = HEAD + simple.text(model) + "\n" + text(rules, maker.known)
    intervals = simple.run(model, records).intervals
    times = [t for *_, s, e in [*intervals, *trips] for t in (s, e) if t is not None] + [t for *_, t in records]
    times += [time for time, _, _ in knowledge.updates]
    margin = furthest(rules) + 8
    frame = Frame(2 * (min(times, default=0) - margin), 2 * (max(times, default=0) + margin))
    given: dict[str, dict[tuple, set[int]]] = {name: {} for name in ("a", "b", *model.fluents)}
    for event, key, x, time in records:
        given[event].setdefault((key, x), set()).add(2 * time)
    for fluent, key, value, since, end in intervals:
        args = (key,) if value is None else (key, value)
        first = frame.first if since is None else 2 * since + 1
        given[fluent].setdefault(args, set()).update(range(first, (frame.last if end is None else 2 * end) + 1))
    held: dict[str, Mapping] = {name: {a: frozenset(c) for a, c in each.items()} for name, each in given.items()}
    held |= dict.fromkeys(("link", "linked"), knowledge.codes(frame))
    travelled = {tuple(trip): frozenset(range(2 * trip[2], 2 * trip[3] + 1)) for trip in trips}
    found = defined(rules, held, {"trip": travelled}, frame)
    expected = ordered(
        interval(name, args, first, end, frame)
        for name, relation in found.items()
        for args, codes in relation.items()
        for first, end in stretches(codes)
    )
    return Case(program, sorted(events, key=lambda e: e.end), expected), knowledge


def made(case: Case, knowledge: Known, **options: object) -> Engine:
    return Engine.from_text(case.program, knowledge=known(ALWAYS + triples(knowledge.first)), **options)


def give(engine: Engine, updates: Sequence[tuple[int, frozenset[Pair], frozenset[Pair]]]) -> None:
    engine.updates([(time, triples(new), triples(gone)) for time, new, gone in updates])


def defined_ones(tables: Sequence[dict], engine: Engine) -> list[Held]:
    found = [held for each in tables for held in held_of(each, engine.plan.schemas, None, None)]
    return ordered(each for each in found if each.type.startswith("d"))


def at_once(case: Case, knowledge: Known) -> list[Held]:
    engine = made(case, knowledge, lateness=None)
    give(engine, knowledge.updates)
    engine.receive(case.events)
    return defined_ones([engine.close()], engine)


def in_pieces(case: Case, knowledge: Known, rng: random.Random) -> list[Held]:
    """Events and updates come in pieces, some updates ahead of their time; the engine is restored now and then."""
    engine = made(case, knowledge, lateness=0)
    tables = []
    updates, rest = sorted(knowledge.updates, key=lambda each: each[0]), list(case.events)
    while rest:
        batch, rest = rest[: (count := rng.randint(1, 6))], rest[count:]
        ahead = batch[-1].end + rng.choice((0, 0, 3, 30))
        soon = [each for each in updates if each[0] <= ahead]
        updates = updates[len(soon) :]
        if rng.random() < 0.5:
            give(engine, soon)
        else:
            for each in soon:
                give(engine, [each])
        if rng.random() < 0.3:
            engine = made(case, knowledge, lateness=0).restore(engine.snapshot())
        tables.append(engine.push(batch))
        if rng.random() < 0.2:
            engine.forget()
    give(engine, updates)
    return defined_ones([*tables, engine.close()], engine)


def check(case: Case, knowledge: Known, rng: random.Random) -> None:
    said = f"{case.program}\n{knowledge}"
    assert at_once(case, knowledge) == case.expected, said
    assert in_pieces(case, knowledge, rng) == case.expected, said


@pytest.mark.parametrize("seed", seeds(60))
def test_updates_under_a_where(seed: int) -> None:
    rng = random.Random(f"known {seed}")
    features = FEATURES if seed % 2 else frozenset("AND NOT OR ONCE AGGREGATE WHERE".split())  # noqa: SIM905
    check(*random_case(rng, features, rng.choice((1, 2)), rng.choice((1, 2, 3))), rng)


@pytest.mark.parametrize("seed", seeds(40))
def test_updates_on_a_cycle(seed: int) -> None:
    rng = random.Random(f"cycle {seed}")
    model = random_model(rng)
    while True:
        maker = Maker(rng, BACK | {"KNOWN"})
        rules = maker.recursion(rng.choice((1, 1, 2)), rng.choice((1, 2, 2)))
        if monotone(rules) and ("x:key" in text(rules, maker.known) or "linked(" in text(rules, maker.known)):
            break
    case, knowledge = case_of(rng, model, maker, rules, 12, 20)
    latest = max((event.end for event in case.events), default=0)
    wanted = until(case.expected, latest)
    said = f"{case.program}\n{knowledge}"
    assert until(at_once(case, knowledge), latest) == wanted, said
    assert until(in_pieces(case, knowledge, rng), latest) == wanted, said


def test_a_cycle_that_waits_for_the_end_asks_what_was_known_then() -> None:
    program = (
        HEAD
        + """event b(k: string, x: int) TIME time.
    fluent s(k: string).
    fluent d(k: string).
    initiate s(K) <- b(K, _).
    d(K) WHILE (s(K) AND NOT ONCE[2 s, 3 s] d(K)) WHERE linked(K, 1).
    d(K) WHILE EVENTUALLY[0, inf) (b(K, X) WHERE X > 5).
    """
    )
    second = 1_000_000
    events = [Event("b", ("p", 1), at * second, at * second) for at in (5, 20)]
    gone = (6 * second, frozenset[Pair](), frozenset([("p", 1)]))
    back = (11 * second, frozenset([("p", 1)]), frozenset[Pair]())
    knowledge = Known(frozenset([("p", 1)]), (gone, back))
    rng = random.Random(0)
    for found in (at_once(Case(program, events, []), knowledge), in_pieces(Case(program, events, []), knowledge, rng)):
        assert [(each.start, each.end, each.bounds) for each in until(found, 20 * second)] == [
            (5 * second, 6 * second, "()"),
            (11 * second, 13 * second, "[)"),
            (16 * second, 18 * second, "[)"),
        ]


@pytest.mark.parametrize("seed", seeds(18))
def test_updates_by_key_in_buckets(seed: int) -> None:
    """Buckets stopped and restored, keys moved to other buckets, which take on the knowledge as it was then."""
    rng = random.Random(f"buckets {seed}")
    case, knowledge = random_case(rng, FEATURES - {"INF"}, rng.choice((1, 2)), rng.choice((1, 2)))
    buckets = Buckets(case.program, rng.choice((1, 2, 7)), rng, knowledge=known(ALWAYS + triples(knowledge.first)))
    updates, tables = sorted(knowledge.updates, key=lambda each: each[0]), []
    rest = list(enumerate(case.events))
    while rest:
        batch, rest = rest[: (count := rng.randint(1, 8))], rest[count:]
        ahead = batch[-1][1].end + rng.choice((0, 0, 3, 30)) if rest else END_OF_TIME
        soon = [each for each in updates if each[0] <= ahead]
        updates = updates[len(soon) :]
        for engine in (engine for engines in buckets.engines for engine in engines):
            give(engine, soon)
        tables.append(buckets.round(buckets.tables(batch), batch[-1][1].end - 1))
        for stage, engines in zip(buckets.stages, buckets.engines, strict=True):
            if stage.keyed and rng.random() < 0.3:
                after = [buckets.engine(stage) for _ in range(rng.randint(1, 4))]
                for engine in after:
                    assert engine.changes is not None and engines[0].changes is not None
                    engine.changes.restore(engines[0].changes.snapshot())
                redeal(engines, after)
                engines[:] = after
    for engine in (engine for engines in buckets.engines for engine in engines):
        give(engine, updates)
    tables.append(buckets.round({}, END_OF_TIME))
    found = [held for each in tables for held in held_of(each, buckets.schemas, None, None)]
    assert ordered(each for each in found if each.type.startswith("d")) == case.expected, case.program


def test_what_asks_facts_alone_keeps_nothing_more() -> None:
    program = "event e(k: string) TIME time. fluent f(k: string). fluent d(k: string). initiate f(K) <- e(K).\n"
    for rule, count in (("d(K) WHILE f(K) WHERE linked(K, X), X > 1.", 1), ("d(K) WHILE f(K) WHERE k(K). k(z).", 0)):
        engine = Engine.from_text(HEAD + program + rule, knowledge=known(ALWAYS))
        assert sum(isinstance(goal, RestrictedGoal) for _, goal in engine._machine.goals()) == count


@pytest.mark.parametrize("seed", seeds(20))
def test_formulas_read_again_by_what_was_known(seed: int) -> None:
    """For explanations: conditions are judged by what was known at each time."""
    rng = random.Random(f"read {seed}")
    case, knowledge = random_case(rng, FEATURES, 2, 2)
    engine = made(case, knowledge, lateness=None, remember=2**62)
    give(engine, knowledge.updates)
    engine.receive([event for event in case.events if event.type in engine.inputs])
    engine.close()
    memory, judge = Memory(engine), Judge(engine, most=None)
    facts, reader = FluentFacts(memory), FormulaReader(memory, judge)
    for name, schema in engine.outputs.items():
        if schema.fluent is None or not schema.fluent.defined:
            continue
        found: dict[tuple, list[tuple[int, int]]] = {}
        for rule in facts.rules_of(name):
            for extent in reader.extents(rule.body, {}):
                args = tuple(judge.value(each, extent.bound)[0] for each in rule.arguments[: len(schema.attributes)])
                found.setdefault(args, []).extend(extent.when)
        expected: dict[tuple, list[tuple[int, int]]] = {}
        for one in memory.find(name, {}, -(2**62), 2**62):
            expected.setdefault(one.args, []).append(one.codes)
        wanted = {args: when_of(set_of(each)) for args, each in expected.items()}
        assert {args: when_of(set_of(each)) for args, each in found.items() if each} == wanted, case.program
