"""Formulas on a cycle with fluents that events begin and end: against brute force, instant by instant."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from cep.core.errors import CepError
from cep.engine import Engine, holds
from cep.events import Event, Held
from tests.formula_maker import Maker, furthest, text
from tests.long import seeds
from tests.reference_formulas import Rule, _derived, plain_names
from tests.reference_lagged import asked_whole, every, now
from tests.reference_times import Frame, stretches
from tests.test_formula_recursion import FEATURES, until
from tests.test_formulas import Case, interval, ordered, pushed

SIMPLE = ("f", "h")


@dataclass(frozen=True)
class Tell:
    """`verb fluent(K) <- event(K, X) WHERE X = only, asks.`; of what is asked whether it must not hold."""

    verb: str
    fluent: str
    event: str
    only: int | None
    asks: tuple[tuple[str, bool], ...]

    @property
    def text(self) -> str:
        asks = [f"{'not ' if no else ''}{name}(K)" for name, no in self.asks]
        conditions = [*([] if self.only is None else [f"X = {self.only}"]), *asks]
        where = f" WHERE {', '.join(conditions)}" if conditions else ""
        return f"{self.verb} {self.fluent}(K) <- {self.event}(K, X){where}."


def random_rules(rng: random.Random) -> tuple[list[Tell], list[Rule], str]:
    """What begins and ends, formulas that depend on it, and the program, which is one that runs."""
    while True:
        maker = Maker(rng, FEATURES - {"INF", "WITHIN"})
        names = [f"d{number}" for number in range(rng.choice((1, 1, 2)))]
        maker.known = dict.fromkeys((*SIMPLE, *names), ("s", False))
        rules = [maker.rule(name, "s", False, rng.choice((1, 2))) for name in names for _ in range(rng.choice((1, 2)))]
        tells = [
            Tell(verb, fluent, rng.choice("ab"), rng.choice((None, None, 0, 1)),
                 tuple((name, rng.random() < 0.5) for name in rng.sample((*SIMPLE, *names), rng.choice((0, 1, 2)))))
            for fluent in SIMPLE for verb in ("initiate", "terminate")
        ]  # fmt: skip
        needed = reached(tells, rules)
        if not any(fluent in needed[name] and name in needed[fluent] for fluent in SIMPLE for name in names):
            continue
        lines = ["event a(k: string, x: int) TIME time.", "event b(k: string, x: int) TIME time."]
        lines += [f"fluent {name}(k: string)." for name in SIMPLE]
        lines += [each.text for each in tells] + [text(rules, maker.known)]
        if rng.random() < 0.3:
            lines.append('initially f("p").')
        try:
            Engine.from_text(program := "\n".join(lines))
        except CepError as error:
            assert error.code == "recursion", program
            continue
        return tells, rules, program


def reached(tells: list[Tell], rules: list[Rule]) -> dict[str, set[str]]:
    """Of each fluent those that it depends on."""
    names = {*SIMPLE, *(rule.name for rule in rules)}
    found: dict[str, set[str]] = {name: set() for name in names}
    for tell in tells:
        found[tell.fluent] |= {name for name, _ in tell.asks}
    for rule in rules:
        found[rule.name] |= set(plain_names(rule.formula)) & names
    for _ in names:
        for name in names:
            found[name] |= {far for near in found[name] for far in found[near]}
    return found


def from_first(tells: list[Tell], rules: list[Rule]) -> set[str]:
    """The fluents of formulas that hold from the first instant on alone: NOT or AGGREGATE lies on their cycle."""
    needed = reached(tells, rules)
    found: set[str] = set()
    for rule in rules:
        mutual = {name for name in needed[rule.name] if rule.name in needed[name]}
        if any(mutual & set(plain_names(part)) for each in every(rule.formula) for part in asked_whole(each)):
            found |= mutual
    return found - set(SIMPLE)


def expected(tells: list[Tell], rules: list[Rule], initial: bool, records: list[tuple[str, str, int, int]]):  # type: ignore[no-untyped-def]
    times = [time for *_, time in records]
    frame = Frame(2 * (min(times) - furthest(rules) - 4), 2 * max(times) + 1)
    bounded = from_first(tells, rules)
    names = list(dict.fromkeys(rule.name for rule in rules))
    held: dict[str, dict[tuple, set[int]]] = {name: {} for name in (*SIMPLE, *names)}
    events: dict[str, dict[tuple, set[int]]] = {"a": {}, "b": {}}
    for event, key, x, time in records:
        events[event].setdefault((key, x), set()).add(2 * time)
    on = {("f", "p")} if initial else set()
    at_once = now(rules)
    order = sorted(names, key=lambda name: len(at_once[name] | {name}))
    for code in range(frame.first, frame.last + 1):
        for fluent, key in on:
            held[fluent].setdefault((key,), set()).add(code)
        changed = True
        while changed:  # NOT asks of the same code only what is known before
            changed = False
            for name in order:
                if name in bounded and code < 2 * min(times):
                    continue
                again = True
                while again:
                    again = False
                    for rule in (rule for rule in rules if rule.name in {name} | {
                        other for other in at_once[name] if name in at_once[other]
                    }):  # fmt: skip
                        known = {
                            n: {args: frozenset(c) for args, c in each.items()}
                            for n, each in {**events, **held}.items()
                        }
                        for args, codes in _derived(rule, known, {}, Frame(frame.first, code)).items():
                            mine = held[rule.name].setdefault(args, set())
                            if code in codes and code not in mine:
                                mine.add(code)
                                again = True
        if code % 2:
            continue
        told: dict[tuple[str, str], set[str]] = {}
        for event, key, x, time in records:
            for tell in tells if 2 * time == code else ():
                fits = tell.event == event and tell.only in (None, x)
                if fits and all((code in held[name].get((key,), ())) != no for name, no in tell.asks):
                    told.setdefault((tell.fluent, key), set()).add(tell.verb)
        for place, verbs in told.items():
            if "terminate" in verbs:
                on -= {place}
            else:
                on |= {place}
    return ordered(
        interval(name, args, first, last, frame)
        for name, relation in held.items()
        for args, codes in relation.items()
        for first, last in stretches(frozenset(codes))
    )


def shown(found: list[Held], latest: int) -> list[Held]:
    return until(found, latest)


@pytest.mark.parametrize("seed", seeds(40))
def test_formulas_and_what_events_begin_and_end(seed: int) -> None:
    rng = random.Random(f"mixed {seed}")
    tells, rules, program = random_rules(rng)
    records = sorted(
        ((rng.choice("ab"), rng.choice("pq"), rng.randint(0, 1), rng.randint(0, 12)) for _ in range(rng.randint(2, 9))),
        key=lambda record: record[3],
    )
    events = [Event(e, (k, x), t, t) for e, k, x, t in records]
    found = expected(tells, rules, "initially" in program, records)
    case, latest = Case(program, events, found), records[-1][3]
    assert shown(holds(program, events), latest) == until(case.expected, latest), program
    assert shown(pushed(case, rng), latest) == until(case.expected, latest), program
