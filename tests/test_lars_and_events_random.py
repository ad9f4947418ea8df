"""Random rules of events and LARS programs in one run, against the references of both, a tick at a time."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from cep.compile import compile
from cep.engine import Engine
from cep.events import Event
from cep.language.dialects.lars.ast import LarsLiteral, LarsProgram, TimeWindow, TupleWindow
from tests.lars_answer_sets import nearest
from tests.lars_maker import DERIVED, FIXED, INPUTS, TICK, Maker, program_text
from tests.long import seeds
from tests.reference import detect
from tests.reference_lars import Answers, TooMany, by_definition, value_text
from tests.test_lars_random import told_by

BEFORE = {
    "d": ("d(X) <- x(X) SEQ y(X) WITHIN 3 s.", "d(X) <- x(X) WHERE X != 1.", "d(X) <- NOT(y(X)).[x(X), x(X)]."),
    "b": ("b(X, Y) <- x(X) SEQ y(Y) WITHIN 2 s.", "b(X, Y) <- (x(X) AND y(Y)) WITHIN 1 s."),
}
"""Rules of events that LARS asks, with what else they may be."""
AFTER = (
    ("{name} SEQ x(Z)", "whole"),
    ("x(Z) SEQ {name}", "whole"),
    ("x(Z) DURING {name}", "whole"),
    ("BEGIN OF {name} SEQ x(Z)", "begins"),
    ("x(Z) SEQ BEGIN OF {name} WITHIN 4 s", "begins"),
    ("END OF {name} SEQ y(Z) WITHIN 5 s", "ends"),
)
"""What rules of events ask of what LARS derives, and as which events the reference has it."""
NUMBERS = {"x": 1, "y": 1}


class Both:
    """A random program in two files, and events for it. Values are whole numbers."""

    def __init__(self, number: int, cyclic: bool) -> None:
        self.random = random = Random(5_000 + number)
        self.maker = Maker(random, cyclic)
        self.maker.values = [0, 1]
        self.made = random.sample(list(BEFORE), random.choice((1, 1, 2)))
        self.lars = self.without_tuples(self.maker.program())
        own = [each for each in DERIVED if each in self.lars.derived]
        self.asked = random.sample(own, min(2, len(own)))
        declared = [f"event {name}(x: int) TIME time." for name in NUMBERS]
        self.before = [*declared, *(random.choice(BEFORE[name]) for name in self.made)]
        self.after = [random.choice(AFTER) for _ in self.asked]
        self.events = sorted(self.some_events(), key=lambda each: each.end)

    def without_tuples(self, program: LarsProgram) -> LarsProgram:
        """With windows of time where one of tuples would have what is derived."""

        def timed(each: object) -> object:
            tuples = isinstance(each, LarsLiteral) and isinstance(each.window, TupleWindow)
            if tuples and each.atom.predicate in self.made:
                return replace(each, window=TimeWindow(each.window.atoms))
            return each

        rules = tuple(replace(rule, body=tuple(map(timed, rule.body))) for rule in program.rules)
        return replace(program, rules=rules)

    def some_events(self) -> list[Event]:
        names = {**NUMBERS, **{name: arity for name, arity in INPUTS.items() if name not in self.made}}
        found = []
        start = self.random.choice((0, 3))
        for _ in range(self.random.randint(4, 14)):
            name = self.random.choice(["x", "x", "y", *names])
            at = self.random.choice((0, 0, 1, 500_000, TICK - 1)) + TICK * (start + self.random.randrange(6))
            found.append(Event(name, tuple(self.random.choice((0, 1)) for _ in range(names[name])), at, at))
        return found

    @property
    def texts(self) -> dict[str, str]:
        declared = [
            f"event {name}({', '.join(f'x{at}: int' for at in range(arity))})."
            for name, arity in INPUTS.items()
            if name not in self.made
        ]
        facts = [f"{name}({', '.join(['0'] * arity)})." for name, arity in FIXED.items()]
        after = [
            f"e{at}({self.head(name)}) <- {form.format(name=self.atom(name))}."
            for at, (name, (form, _)) in enumerate(zip(self.asked, self.after))
        ]
        after += [f"h{at}(Z) <- x(Z) WHERE {self.atom(name, same=True)}." for at, name in enumerate(self.asked)]
        after += [f"n{at}(Z) <- x(Z) WHERE not {self.atom(name, same=True)}." for at, name in enumerate(self.asked)]
        return {
            "rules.cep": "\n".join((*self.before, *after)),
            "policies.lars": "\n".join((*declared, *facts, program_text(self.lars))),
        }

    @staticmethod
    def atom(name: str, same: bool = False) -> str:
        arguments = ["X", "Y"][: DERIVED[name]] if not same else ["Z"] * DERIVED[name]
        return f"{name}({', '.join(arguments)})" if arguments else name

    @staticmethod
    def head(name: str) -> str:
        return ", ".join([*["X", "Y"][: DERIVED[name]], "Z"])

    # --- by the references ---

    def expected(self) -> tuple[list[str], Answers, int]:
        """Derived events as text; the answers, and up to which tick."""
        found = detect("\n".join(self.before), self.events)
        named = {rule.head.predicate for rule in self.lars.rules if rule.head is not None}
        named |= {e.atom.predicate for rule in self.lars.rules for e in rule.body if isinstance(e, LarsLiteral)}
        of_lars = {name for name in INPUTS if name not in self.made or name in named}
        came = [each for each in [*self.events, *found] if each.type in of_lars]
        stream: dict[int, list[tuple[str, tuple[object, ...]]]] = {}
        for each in sorted(came, key=lambda each: each.end):
            stream.setdefault(each.end // TICK, []).append((each.type, each.args))
        last = max(each.end // TICK for each in self.events) + 12
        answers: Answers = []
        if stream:
            given = FACTS | {("f", (0,)), ("g", (0, 0))}
            answers = nearest(by_definition(self.lars, sorted(stream.items()), last=last, facts=given, made=self.made))
        runs = self.runs(answers)
        more = [*self.events]
        for name, args, begin, end in runs:
            more.append(Event(f"begins_{name}", args, begin * TICK, begin * TICK + TICK - 1))
            if end is not None:
                more.append(Event(f"ends_{name}", args, end * TICK, end * TICK + TICK - 1))
                more.append(Event(f"whole_{name}", args, begin * TICK, end * TICK + TICK - 1))
        rules = list(self.before[:2])
        for at, (name, (form, kind)) in enumerate(zip(self.asked, self.after)):
            body = form.replace("BEGIN OF ", "").replace("END OF ", "").format(name=f"{kind}_{self.atom(name)}")
            rules.append(f"e{at}({self.head(name)}) <- {body}.")
        found += [each for each in detect("\n".join(rules), sorted(more, key=lambda each: each.end))
                  if each.type[0] == "e"]  # fmt: skip
        for at, name in enumerate(self.asked):
            for each in (each for each in self.events if each.type == "x"):
                wanted, tick = each.args * DERIVED[name], (each.end + 1) // TICK - 1
                holds = any(
                    other == name and args == wanted and begin <= tick and (end is None or tick < end)
                    for other, args, begin, end in runs
                )
                found.append(replace(each, type=f"{'h' if holds else 'n'}{at}"))
        return sorted({told(each) for each in found}), answers, last

    def runs(self, answers: Answers) -> list[tuple[str, tuple[int, ...], int, int | None]]:
        """What holds now of what is asked, from which tick until which."""
        open: dict[str, int] = {}
        found: list[tuple[str, int, int | None]] = []
        for tick, models in answers:
            now = models[0] if models else frozenset()
            for text in [text for text in open if text not in now]:
                found.append((text, open.pop(text), tick))
            for text in now:
                open.setdefault(text, tick)
        found += [(text, begin, None) for text, begin in open.items()]
        names = {text.partition("(")[0] for text, _, _ in found if "@" not in text}
        return [
            (text.partition("(")[0], values(text), begin, end)
            for text, begin, end in found
            if "@" not in text and text.partition("(")[0] in names & set(self.asked)
        ]


FACTS: frozenset[tuple[str, tuple[int, ...]]] = frozenset()


def values(text: str) -> tuple[int, ...]:
    inside = text.partition("(")[2].removesuffix(")")
    return tuple(int(each) for each in inside.split(", ") if each)


def told(event: Event) -> str:
    return f"{event.type}{tuple(int(each) for each in event.args)} {event.start} {event.end}"


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("seed", seeds(24))
def test_both_mean_together_what_each_means(seed: int, cyclic: bool) -> None:
    for number in range(seed * 4, (seed + 1) * 4):
        both = Both(number, cyclic)
        try:
            events, answers, last = both.expected()
        except TooMany:
            continue
        end = last * TICK + TICK - 1
        engine = Engine(compile(both.texts), lateness=None, until=end)
        engine.receive(both.events)
        tables = engine.close()
        story = (number, both.texts, both.events)
        found = []
        for name, table in tables.items():
            if engine.outputs[name].fluent is None:
                found += [told(Event(name, row[2:], row[0], row[1])) for row in table.rows() if row[1] <= end]
        assert sorted(set(found)) == events, story
        held = told_at_ticks(engine, tables, last)
        for tick, models in answers:
            now = {text for text in (models[0] if models else ()) if "@" not in text}
            assert held.get(tick, set()) == now, (tick, *story)


def told_at_ticks(engine: Engine, tables: dict[str, object], last: int) -> dict[int, set[str]]:
    """What is true now at each tick."""
    found: dict[int, set[str]] = {}
    for name, table in tables.items():
        if engine.outputs[name].fluent is None or name not in DERIVED:
            continue
        for start, end, *arguments, _ in table.rows():
            text = f"{name}({', '.join(map(value_text, arguments))})" if arguments else name
            until = last + 1 if end is None else min(-(-end // TICK), last + 1)
            for tick in range(start // TICK, until):
                found.setdefault(tick, set()).add(text)
    return found


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("seed", seeds(24))
def test_cuts_and_restores_change_nothing(seed: int, cyclic: bool) -> None:
    for number in range(seed * 4, (seed + 1) * 4):
        both = Both(number, cyclic)
        compiled = compile(both.texts)
        whole = Engine(compiled, lateness=0)
        expected = [whole.push(both.events), whole.close()]
        engine, found, waiting = Engine(compiled, lateness=0), [], []
        for at, event in enumerate(both.events):
            if both.random.random() < 0.2:
                engine = Engine(compiled, lateness=0).restore(engine.snapshot())
            waiting.append(event)
            if at + 1 == len(both.events) or both.random.random() < 0.5:
                found.append(engine.push(waiting))
                waiting = []
        found.append(engine.close())
        assert told_all(engine, found) == told_all(whole, expected), (number, both.texts, both.events)


def told_all(engine: Engine, tables: list[dict[str, object]]) -> list[str]:
    events = [
        told(Event(name, row[2:], row[0], row[1]))
        for each in tables
        for name, table in each.items()
        if engine.outputs[name].fluent is None
        for row in table.rows()
    ]
    fluents = [
        {name: table for name, table in each.items() if engine.outputs[name].fluent is not None} for each in tables
    ]
    return sorted(events) + told_by(engine, fluents)
