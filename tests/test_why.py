"""Why an event is there, and why it is not: checked by running the rules again, and against the reference."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cep.engine import Engine
from cep.events import Event
from cep.explain.absence import absence, fixed_of
from cep.explain.derivation import DerivationNode, derivation
from cep.explain.judging import Judge
from cep.explain.occurrences import Memory, Occurrence, same
from cep.explain.question import EventQuestion
from cep.operators.aggregate import Window
from cep.operators.event import Atom
from cep.operators.pair import Pair
from cep.plan.algebra import Rule
from cep.plan.pattern import patterns
from cep.rules.terms import Variable
from tests import reference
from tests.programs import Program, iterations, programs, recursions, windows
from tests.test_equivalence import examples, start
from tests.why_checks import EVER, everything, nodes


def remembered(program: Program) -> Engine:
    engine = start(program, remember=EVER)
    engine.push([event for event in program.events if event.type in engine.inputs])
    engine.close()
    return engine


def event(one: Occurrence) -> Event:
    return Event(one.event, one.args, one.start, one.end)


def alone(engine: Engine, rule: Rule) -> str:
    """The program with this one rule of its event rules."""
    lines = engine.plan.source.text.split("\n")
    for other in engine.plan.rules.rules:
        if other is not rule:
            span = other.span
            for number in range(span.line, span.end_line + 1):
                first = span.column - 1 if number == span.line else 0
                last = span.end_column - 1 if number == span.end_line else len(lines[number - 1])
                line = lines[number - 1]
                lines[number - 1] = line[:first] + " " * (last - first) + line[last:]
    return "\n".join(lines)


def again(engine: Engine, node: DerivationNode, parts: list[Occurrence]) -> list[Event]:
    """What the rule of a node gives for its constituents alone."""
    assert node.rule is not None
    types = {name: tuple(a.type for a in engine.plan.schemas[name].attributes) for name in _read(node.rule)}
    alone_ = Engine.from_text(alone(engine, node.rule), types=types, remember=EVER, lateness=None)
    alone_.push([event(one) for one in parts])
    alone_.close()
    return [event(one) for one in Memory(alone_).find(node.occurrence.event, {}, -EVER, EVER)]


def _read(rule: Rule) -> list[str]:
    return [pattern.event for pattern in patterns(rule.body) if isinstance(pattern, Atom)]


def check_why(program: Program) -> None:
    engine = remembered(program)
    memory = Memory(engine)
    made = everything(memory)
    for one in made[:: max(1, len(made) // 6)]:
        tree = derivation(memory, Judge(engine, most=None), one)
        records = {each.occurrence.order for each, _ in nodes(tree) if each.record}
        assert records <= {record.order for record in memory.records(one.name)}, "a tree holds more than it comes from"
        for node, parts in nodes(tree):
            if node.rule is None:
                assert node.record or node.again, f"no rule gives {node.occurrence}"
            elif not node.left_out and not _chosen(node.rule):
                found = again(engine, node, parts)
                assert any(_equal(each, event(node.occurrence)) for each in found), f"{node.occurrence} of {found}"


def _chosen(rule: Rule) -> bool:
    """Whether a window counts pairs that a policy chose: of fewer events it may choose others."""
    windows = [part for part in patterns(rule.body) if isinstance(part, Window)]
    pairs = [each for window in windows for each in patterns(window.pattern) if isinstance(each, Pair)]
    return any(pair.policy.name != "unrestricted" for pair in pairs)


def _equal(one: Event, other: Event) -> bool:
    pairs = zip(one.args, other.args)
    alike = all((a is None and b is None) or same(a, b) for a, b in pairs)
    return alike and (one.start, one.end) == (other.start, other.end)


@examples(60)
@given(programs(knowledge=False))
def test_rules_give_an_event_again_for_what_why_names(program: Program) -> None:
    check_why(program)


@examples(40)
@given(st.one_of(windows(), iterations(), recursions()))
def test_also_in_windows_and_recursions(program: Program) -> None:
    check_why(program)


@examples(60)
@given(programs(policies=False, aggregates=False, knowledge=False), st.integers(0, 8), st.data())
def test_an_event_is_absent_for_a_reason_where_the_reference_has_none(
    program: Program, second: int, data: st.DataObject
) -> None:
    engine = remembered(program)
    memory, judge = Memory(engine), Judge(engine)
    expected = reference.detect(program.text, program.events)
    name = data.draw(st.sampled_from(sorted(engine.outputs)))
    known = [one for one in expected if one.type == name]
    fixed = {}
    if known and known[0].args and known[0].args[0] is not None and data.draw(st.booleans()):
        fixed = {0: data.draw(st.sampled_from(known)).args[0]}
        fixed = {place: value for place, value in fixed.items() if value is not None}
    time = second * 1_000_000
    found = absence(memory, judge, EventQuestion(name, fixed, time, time))
    there = [
        one
        for one in expected
        if one.type == name and one.start <= time <= one.end and all(same(one.args[i], v) for i, v in fixed.items())
    ]
    assert {event(one) for one in found.occurrences if not memory.is_input(one)} == set(there)
    if found.occurrences:
        return
    assert [each.rule for each in found.refusals] == [r for r in engine.plan.rules.rules if r.event == name]
    for refusal in found.refusals:
        failure = refusal.failure
        assert failure.kind != "policy", "without a policy all that holds is there"
        assert failure.kind != "condition" or not any(each.holds for each in failure.judged)
        if failure.kind == "missing" and isinstance(failure.pattern, Atom):
            want = fixed_of(failure.pattern, failure.values)
            every = [*program.events, *expected]
            assert not [
                one
                for one in every
                if one.type == failure.pattern.event
                and refusal.since <= one.end <= time
                and all(same(one.args[i], value) for i, value in want.items())
                and repeats(failure.pattern, one)
            ], "what is said to be missing is there"


def repeats(atom: Atom, one: Event) -> bool:
    """A variable that stands twice has one value."""
    pairs = [(a, v) for a, v in zip(atom.arguments, one.args) if isinstance(a, Variable) and a.name != "_"]
    return all(same(v, w) for a, v in pairs for b, w in pairs if a == b)
