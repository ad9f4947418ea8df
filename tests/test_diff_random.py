"""`cep diff` over random edits of random programs: differences against sets, reasons against what was derived."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

import pytest

from cep.connectors.why.text import Explainer
from cep.core.errors import CepError
from cep.diff.matching import Difference, compared_event
from cep.diff.meaning import program_diff
from cep.diff.reasons import Reason, Reasons, time_within
from cep.diff.rows import DerivedRows
from cep.engine import Engine
from cep.events import Event
from cep.explain.absence import Absence, absence
from cep.explain.derivation import derivation
from cep.explain.judging import Judge
from cep.explain.occurrences import Memory, Occurrence, same
from cep.explain.question import EventQuestion
from cep.explain.refusal import Refusal, fixed_of
from cep.operators.event import Atom
from tests import reference
from tests.long import seeds
from tests.programs import Program, iteration, program, recursion, window
from tests.test_equivalence import rows, types
from tests.test_why import _chosen, _equal, again, event, repeats
from tests.why_checks import EVER, nodes

NUMBER = re.compile(r"(?<=[<>=] )(\d+)(?![\w.])")
COMPARISON = re.compile(r" (<|<=|>|>=) ")
WITHIN = re.compile(r"(?<=WITHIN )(\d+)(?![\w.])")
VARIABLE = re.compile(r'"[^"]*"|\b([A-Z][0-9]?)\b')
RULE = re.compile(r"^\w+(\(.*\))? <- ")


def edited(random: Random, text: str) -> str:
    """A program with one to three changes, each of which is to its text."""
    lines = text.split("\n")
    for _ in range(random.randint(1, 3)):
        places = [number for number, line in enumerate(lines) if RULE.match(line)]
        if not places:
            break
        number = random.choice(places)
        line = lines[number]
        match random.randrange(6):
            case 0:
                line = NUMBER.sub(lambda found: str(int(found[1]) + 1), line, count=1)
            case 1:
                line = COMPARISON.sub(lambda _: f" {random.choice(['<', '<=', '>', '>='])} ", line, count=1)
            case 2:
                line = WITHIN.sub(lambda found: str(int(found[1]) + random.choice((1, 2))), line, count=1)
            case 3:
                line = line.replace(" SEQ ", " AND ", 1) if " SEQ " in line else line.replace(" AND ", " SEQ ", 1)
            case 4:
                line = line.replace("<- ", "<- (", 1).removesuffix(".") + ") WITHIN 4."
            case 5 if len(places) > 1:
                line = ""
        lines[number] = line
    return "\n".join(lines)


def started(text: str, events: tuple[Event, ...]) -> Engine:
    engine = Engine.from_text(text, types=types(events), remember=EVER, max_derivations=2000)
    return engine


def finished(engine: Engine, events: tuple[Event, ...]) -> tuple[DerivedRows, list[Event]]:
    found = DerivedRows()
    tables = engine.push([each for each in events if each.type in engine.inputs])
    last = engine.close()
    found.add(tables)
    found.add(last)
    return found, [*rows(tables), *rows(last)]


@pytest.mark.parametrize("seed", seeds(1000))
def test_differences_of_random_edits_are_those_of_sets_and_their_reasons_hold(seed: int) -> None:
    random = Random(f"diff {seed}")
    for _ in range(6):  # until something differs
        made = random.choice((program, program, program, window, iteration, recursion))(random)
        other = edited(random, made.text)
        try:
            engines = [started(text, made.events) for text in (made.text, other)]
            runs = [finished(engine, made.events) for engine in engines]
        except CepError:
            continue  # an edit may be no program
        if check_differences(made, other, engines, runs):
            return


def check_differences(
    made: Program, other: str, engines: list[Engine], runs: list[tuple[DerivedRows, list[Event]]]
) -> bool:
    """Check the differences of two runs, and their reasons; return True if there are differences."""
    derived = [list(events) for _, events in runs]
    expected = [list(reference.detect(text, made.events)) for text in (made.text, other)]
    if not made.aggregates:  # sums of floats go by their order
        for text, own, wanted in zip((made.text, other), derived, expected):
            assert Counter(map(_of_event, own)) == Counter(map(_of_event, wanted)), text
    old, new = (own.rows() for own, _ in runs)
    outputs = [engine.outputs for engine in engines]
    found: list[Difference] = []
    for name in dict.fromkeys((*outputs[1], *outputs[0])):
        compared = compared_event(name, outputs[0].get(name), outputs[1].get(name))
        different = compared.compare(old.get(name, Counter()), new.get(name, Counter()))
        found += different
        bags = [Counter(_of_event(each) for each in events if each.type == name) for events in derived]
        told = [Counter((name, *row) for each in different if (row := side(each)) is not None) for side in (_old, _new)]
        alike = compared.old is None or compared.new is None or _names(compared.old) == _names(compared.new)
        if alike:
            assert told == [bags[0] - bags[1], bags[1] - bags[0]]
        else:
            assert told == bags, "its attributes have other names"
    changes = program_diff(*(_compiled(text, made) for text in (made.text, other)))
    assert {each.event for each in found} <= changes.affected, "what differs is reached by what changed"
    explainers = [RecordingExplainer(engine, times="seconds") for engine in engines]
    reasons = Reasons(*explainers)
    for each in found:
        check_reason(made, engines, each, reasons.of(each))
    for explainer, wanted in zip(explainers, expected):
        for refusal, until in explainer.refusals:
            check_missing(refusal, until, [*made.events, *wanted])
    return bool(found)


class RecordingExplainer(Explainer):
    """An explainer that keeps the refusals it was asked for, each with the time asked for."""

    @property
    def refusals(self) -> list[tuple[Refusal, int]]:
        kept: list[tuple[Refusal, int]] = self.__dict__.setdefault("kept", [])
        return kept

    def absence(self, found: Absence) -> dict[str, Any]:
        refusals = self.refusals
        waiting = list(found.refusals)
        while waiting:
            refusals.append((waiting[-1], found.until))
            waiting += waiting.pop().because
        return super().absence(found)


def check_missing(refusal: Refusal, until: int, events: list[Event]) -> None:
    """Check that what a reason says to be missing is not there by the reference."""
    pattern = refusal.failure.pattern
    if refusal.failure.kind != "missing" or not isinstance(pattern, Atom):
        return
    wanted = fixed_of(pattern, refusal.failure.values)
    assert not [
        one
        for one in events
        if one.type == pattern.event
        and refusal.since <= one.end <= until
        and all(same(one.args[place], value) for place, value in wanted.items())
        and repeats(pattern, one)
    ], "what is said to be missing is there"


def _old(difference: Difference) -> Any:
    return difference.old


def _new(difference: Difference) -> Any:
    return difference.new


def _of_event(one: Event) -> tuple[object, ...]:
    return (one.type, one.start, one.end, *one.args)


def _names(schema: Any) -> list[str]:
    return [each.name for each in schema.attributes]


def _compiled(text: str, made: Program) -> Any:
    from cep.compile import compile

    return compile(text, types=types(made.events), alerts=True)


def check_reason(made: Program, engines: list[Engine], difference: Difference, reason: Reason) -> None:
    """Check that the rules of one program derive the occurrence again from what its reason names, and that what is
    said to be missing in the other one, or not to hold, is so."""
    deriving = 0 if difference.new is None else 1
    told = (reason.old, reason.new)
    row = difference.row
    explained, refused = told[deriving], told[1 - deriving]
    assert explained is not None and "exists" not in explained, "the program that derives it says why"
    memory = Memory(engines[deriving])
    wanted = Event(difference.event, tuple(row[2:]), row[0], row[1])
    one = next(each for each in _occurrences(memory, difference.event) if _equal(event(each), wanted))
    assert explained["text"].startswith(difference.event)
    tree = derivation(memory, Judge(engines[deriving], most=None), one)
    for node, parts in nodes(tree)[:6]:
        if node.rule is not None and not node.left_out and not _chosen(node.rule):
            assert any(_equal(each, event(node.occurrence)) for each in again(engines[deriving], node, parts))
    schema = engines[1 - deriving].outputs.get(difference.event)
    if schema is None:
        assert refused is None, "there is no such event"
        return
    assert refused is not None
    check_refusal(made, engines, deriving, row, refused)


def check_refusal(made: Program, engines: list[Engine], deriving: int, row: Any, refused: dict[str, Any]) -> None:
    engine = engines[1 - deriving]
    schema, name = engine.outputs[refused["event"]], refused["event"]
    places = {each: place for place, each in enumerate(_names(schema))}
    own = zip(_names(engines[deriving].outputs[name]), row[2:])
    fixed = {places[each]: value for each, value in own if each in places and value is not None}
    time = time_within(row, schema)
    assert time is not None
    memory = Memory(engine)
    there = [
        each
        for each in _occurrences(memory, name)
        if each.start <= time <= each.end and all(each.args[place] == value for place, value in fixed.items())
    ]
    assert refused["exists"] == bool(there)
    if there:
        assert len(refused["found"]) == len(there), "it says which ones are there"
        return
    rules = [rule for rule in engine.plan.rules.rules if rule.event == name]
    assert [each["rule"]["line"] for each in refused["rules"]] == [rule.span.line for rule in rules]
    for each in refused["rules"]:
        failure = each["failure"]
        assert failure["kind"] != "policy" or made.restricted or made.aggregates
        assert failure["kind"] != "whole", "where all holds the event is there"
        if failure["kind"] == "condition":
            assert failure["conditions"] and not any(own["holds"] for own in failure["conditions"])
    question = EventQuestion(name, fixed, time, time)
    found = absence(memory, Judge(engine), question)
    for refusal in found.refusals:
        if refusal.failure.kind == "apart":
            assert refusal.attempt.end + refusal.failure.by <= time


def _occurrences(memory: Memory, name: str) -> list[Occurrence]:
    return [one for one in memory.find(name, {}, -EVER, EVER) if not memory.is_input(one)]


@pytest.mark.parametrize("seed", seeds(300))
def test_layout_order_and_names_of_variables_are_no_difference(seed: int) -> None:
    random = Random(f"meaning {seed}")
    made = random.choice((program, program, window, iteration, recursion))(random)
    lines = made.text.split("\n")
    renamed = {name: f"N{number}" for number, name in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}
    other = []
    for line in lines:
        if "<-" in line and "{" not in line:
            line = VARIABLE.sub(lambda found: _renamed(found, renamed), line).replace(" <- ", "\n  <-  # why\n ")
        other.append(line)
    if not any("policy " in line for line in lines):  # a policy is that of the rules after it
        random.shuffle(other)
    try:
        one, two = (_compiled_knowing(text, made) for text in (made.text, "\n\n".join(other)))
    except CepError:
        return
    changes = program_diff(one, two)
    assert not changes.rules, changes.rules
    named = {each.of for each in changes.declarations}
    names = {name: [_names(each.plan.schemas[name]) for each in (one, two)] for name in named}
    assert all(before != after for before, after in names.values()), "the names of variables are those of attributes"


def _renamed(found: re.Match[str], names: dict[str, str]) -> str:
    return found[0] if found[1] is None else names[found[1][0]] + found[1][1:]


def _compiled_knowing(text: str, made: Program) -> Any:
    from cep.compile import compile
    from tests.cases_format import known

    knowledge = known(made.knowledge) if made.knowledge else None
    return compile(text, types=types(made.events), alerts=True, knowledge=knowledge)
