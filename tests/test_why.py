"""Why an event is there, and why it is not: checked by running the rules again, and against the reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cep.cli import app
from cep.engine import Engine
from cep.errors import CepError
from cep.events import Event
from cep.plan.algebra import Atom, Rule
from cep.plan.patterns import patterns
from cep.why.absence import absence, fixed_of
from cep.why.derivation import Node, derivation
from cep.why.judging import Judge
from cep.why.occurrences import Memory, Occurrence, same
from cep.why.wanted import BEGINNING, END, Wanted, interval, wanted
from connectors.why.plain import Asked, why
from tests import reference
from tests.programs import Program, iterations, programs, recursions, windows
from tests.test_equivalence import examples, start

EVER = 2**62
HOUR = 3_600_000_000


def remembered(program: Program) -> Engine:
    engine = start(program, remember=EVER)
    engine.push([event for event in program.events if event.type in engine.inputs])
    engine.close()
    return engine


def everything(memory: Memory) -> list[Occurrence]:
    engine = memory.engine
    return [one for name in engine.outputs for one in memory.find(name, {}, -EVER, EVER) if not memory.is_input(one)]


def event(one: Occurrence) -> Event:
    return Event(one.event, one.args, one.start, one.end)


def nodes(node: Node) -> list[Node]:
    return [node, *(below for part in (*node.parts, *node.chain) for below in nodes(part))]


def constituents(node: Node) -> list[Occurrence]:
    """What the rule of a node was given: its parts, and the one it goes on from."""
    return [each.occurrence for each in (*node.parts, *node.chain[:1])]


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


def again(engine: Engine, node: Node) -> list[Event]:
    """What the rule of a node gives for its constituents alone."""
    assert node.rule is not None
    types = {name: tuple(a.type for a in engine.plan.schemas[name].attributes) for name in _read(node.rule)}
    alone_ = Engine.from_text(alone(engine, node.rule), types=types, remember=EVER, lateness=None)
    alone_.push([event(one) for one in constituents(node)])
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
        records = {each.occurrence.order for each in nodes(tree) if each.record}
        assert records <= {record.order for record in memory.records(one.name)}, "a tree holds more than it comes from"
        for node in nodes(tree):
            if node.rule is None:
                assert node.record or node.again or not node.parts, f"no rule gives {node.occurrence}"
            elif not node.left_out:
                found = again(engine, node)
                assert any(_equal(each, event(node.occurrence)) for each in found), f"{node.occurrence} of {found}"


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
