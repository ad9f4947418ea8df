"""Explain why a fluent holds: its beginning and end or, if formulas define it, the intervals of their parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from cep.core.fluents import (
    BEFORE,
    BEGINNING,
    BEGINS,
    BOUNDS,
    EDGES,
    ENDED_ALL,
    ENDING,
    ENDS,
    INITIATED,
    RECORDS,
    SINCE_EVER,
    TERMINATED,
    TRANSITIONS,
    UNCONSTRAINED,
)
from cep.core.interval_sets import INFINITE
from cep.core.time import END_OF_TIME
from cep.events import Value
from cep.explain.formulas import FormulaExtent, FormulaReader, shown
from cep.explain.heads import unified
from cep.explain.judging import Judge
from cep.explain.nodes import AnswerNode, DerivationNode, FormulaNode, LiteralNode, Turn
from cep.explain.occurrences import LATEST, Memory, Occurrence, same
from cep.explain.reducts import Reducts
from cep.plan.algebra import Rule
from cep.plan.goal_names import says_records
from cep.plan.pattern import FluentDeadline

SHOWN = 6
"""The number of occurrences shown for one part of a formula: the first and the last ones."""


class Nodes(Protocol):
    """Creates nodes of occurrences. `room`: the number of nodes that may still be created."""

    room: int

    def node(self, occurrence: Occurrence, depth: int) -> DerivationNode:
        """Return the node of an occurrence with its constituents."""
        ...


class FluentFacts:
    """The rules, deadlines and transitions of a program's fluents."""

    def __init__(self, memory: Memory) -> None:
        self.memory, self.engine = memory, memory.engine
        self.rules: dict[str, list[Rule]] = {}
        self.tables: dict[tuple[str, str], str] = {}
        for name, schema in memory.schemas.items():
            if schema.fluent is not None:
                self.tables[schema.fluent.name, schema.fluent.part] = name
        for rule in self.engine.plan.rules.rules:
            self.rules.setdefault(rule.event, []).append(rule)

    def defined(self, name: str) -> bool:
        """Return True if formulas or records define when the fluent holds."""
        fluent = self.memory.schemas[name].fluent
        return fluent is not None and fluent.defined

    def valued(self, name: str) -> bool:
        fluent = self.memory.schemas[name].fluent
        return fluent is not None and fluent.valued

    def rules_of(self, name: str) -> list[Rule]:
        """Return the rules that initiate or terminate a fluent, or its formulas. If constraints apply to it, return the
        rules before these are applied."""
        if f"{name}{UNCONSTRAINED}" in self.memory.schemas:
            name += UNCONSTRAINED
        return self.rules.get(self.tables.get((name, TRANSITIONS), ""), [])

    def initial(self, rule: Rule) -> bool:
        """Return True if the rule is an `initially` statement."""
        line = self.engine.plan.source.line(rule.span.line)
        return line[rule.span.column - 1 :].startswith("initially")

    def deadlines(self, name: str) -> list[tuple[Rule, FluentDeadline]]:
        """Return the deadlines of a fluent, each with the rule that applies them."""
        own = self.rules.get(self.tables.get((name, EDGES), ""), [])
        return [(rule, each) for rule in own for each in rule.body.properties().deadlines]

    def deadline_of(self, one: Occurrence) -> FluentDeadline | None:
        """Return the deadline of an interval, or None."""
        value = one.args[-1] if self.valued(one.event) else None
        every = self.deadlines(one.event) if one.start != SINCE_EVER else []
        return next((each for _, each in every if each.value is None or same(each.value.value, value)), None)

    def renewed(self, one: Occurrence, deadline: FluentDeadline) -> int:
        """Return the time when a deadline last started or was renewed."""
        again = self.transitions(one, one.start, min(one.end - 1, LATEST), INITIATED) if deadline.renewed else []
        return max([one.start, *(each.end for each in again)])

    def transitions(self, one: Occurrence, since: int, until: int, what: int) -> list[Occurrence]:
        """Return the transitions of an interval's fluent between two times. `what`: their kind."""
        table = self.tables[one.event, TRANSITIONS]
        key = one.args[:-1] if self.valued(one.event) and what == ENDED_ALL else one.args
        fixed: dict[int, Value] = dict(enumerate(key))
        return self.memory.find(table, {**fixed, len(one.args): what}, since, until)

    def others(self, one: Occurrence, time: int) -> list[Occurrence]:
        """Return the transitions that initiated another value at a time."""
        if not self.valued(one.event):
            return []
        fixed: dict[int, Value] = dict(enumerate(one.args[:-1]))
        found = self.memory.find(self.tables[one.event, TRANSITIONS], {**fixed, len(one.args): INITIATED}, time, time)
        return [each for each in found if not same(each.args[-2], one.args[-1])]

    def records(self, one: Occurrence) -> list[Occurrence]:
        """Return the records that say that a fluent holds at times of an interval."""
        found = self._recorded(one)
        first, last = one.codes
        return [each for each in found if each.codes[0] <= last and each.codes[1] >= first]

    def _recorded(self, one: Occurrence) -> list[Occurrence]:
        table = self.tables.get((one.event, RECORDS))
        if table is None:
            return []
        made = []
        for each in self.memory.find(table, dict(enumerate(one.args)), -LATEST, LATEST):
            *own, end, bounds, start = each.args
            since = each.start if start is None else int(start)
            until = END_OF_TIME if end is None else int(end)
            which = BOUNDS[int(bounds or 0)]
            if end is None:
                which = which[0] + ")"
            made.append(replace(each, event=one.event, args=tuple(own), start=since, end=until, bounds=which))
        return made


class FluentNodes:
    """Creates the nodes of fluents for trees of `nodes`. `at`: the time of the question, or None."""

    def __init__(self, memory: Memory, judge: Judge, nodes: Nodes, at: int | None = None) -> None:
        self.memory, self.judge, self.nodes, self.at = memory, judge, nodes, at
        self.reducts = Reducts.of(memory, judge)
        self.facts, self.reader = FluentFacts(memory), FormulaReader(memory, judge)

    def node(self, one: Occurrence, depth: int) -> DerivationNode:
        """Return the node of an interval, or of its beginning or end."""
        fluent = self.memory.schemas[one.event].fluent
        assert fluent is not None, "it is of a fluent"
        if fluent.part == EDGES:
            return self._edge(one, depth)
        if self.reducts is not None and self.reducts.gives(one.event):
            return self._answered(one, depth, self.reducts)
        if not self.facts.defined(one.event):
            return self._simple(one, depth)
        records = [DerivationNode(each, True) for each in self.facts.records(one)[: max(self.nodes.room, 0)]]
        self.nodes.room -= len(records)
        return DerivationNode(one, False, parts=tuple(records), formulas=self._formulas(one, depth))

    def _edge(self, one: Occurrence, depth: int) -> DerivationNode:
        *args, kind = one.args
        name = self.memory.fluents.of(one.event)
        fluent = self.memory.schemas[one.event].fluent
        ended = one.end - (0 if fluent is None else fluent.late)
        held = self.memory.fluents.intervals(name, dict(enumerate(args)))
        if kind in (BEGINS, BEGINNING, BEFORE):
            whole = next((each for each in held if each.start == one.start), None)
            if whole is not None and not self.facts.defined(name):
                return DerivationNode(one, False, began=self._began(whole, depth))
        elif kind in (ENDS, ENDING):
            whole = next((each for each in held if each.end == ended), None)
            if whole is not None and not self.facts.defined(name):
                return DerivationNode(one, False, ended=self.ended(whole, depth))
        else:
            whole = next((each for each in held if (each.start, each.end) == (one.start, ended)), None)
            return DerivationNode(one, False) if whole is None else self.nodes.node(whole, depth)
        return DerivationNode(one, False, parts=() if whole is None else (self.nodes.node(whole, depth),))

    # --- answer streams ---

    def _answered(self, one: Occurrence, depth: int, reducts: Reducts) -> DerivationNode:
        """Return the node of an atom that a solver derived, with its rule and the atoms that make the body true."""
        size = reducts.program.tick
        step = reducts.step(one, None if self.at is None else self.at // size)
        if step is None:  # the atom is a fact
            return DerivationNode(one, False)
        self.at = step.tick * size
        literals = []
        for literal, atoms in step.body.found:
            made, left_out = self._sources([each.source for each in atoms if each.source is not None], depth)
            parts = tuple(each for each in made if isinstance(each, DerivationNode))
            literals.append(LiteralNode(reducts.text_of(literal, step.body.bound), literal.negated, parts, left_out))
        answer = AnswerNode(self.at, step.rule.span, shown(step.body.bound), tuple(literals), step.body.judged)
        return DerivationNode(one, False, answer=answer)

    # --- simple fluents ---

    def _simple(self, one: Occurrence, depth: int) -> DerivationNode:
        if depth <= 0:
            return DerivationNode(one, False, left_out=1 + (one.end != END_OF_TIME))
        due = None
        deadline = self.facts.deadline_of(one)
        if one.end == END_OF_TIME and deadline is not None:
            due = self.facts.renewed(one, deadline) + deadline.duration, deadline.span
        ended = None if one.end == END_OF_TIME else self.ended(one, depth)
        return DerivationNode(one, False, began=self._began(one, depth), ended=ended, deadline=due)

    def _began(self, one: Occurrence, depth: int) -> Turn:
        found = self.facts.transitions(one, one.start, one.start, INITIATED)
        if found or one.start == SINCE_EVER:
            return Turn(one.start, "initially" if one.start == SINCE_EVER else "rule", self._nodes(found, depth))
        for before in self._of_key(one):
            deadline = self.facts.deadline_of(before) if before.end == one.start else None
            becomes = None if deadline is None else deadline.becomes
            if deadline is not None and becomes is not None and same(becomes.value, one.args[-1]):
                since = self.facts.renewed(before, deadline)
                if since + deadline.duration == one.start:
                    return Turn(one.start, "deadline", self._nodes([before], depth), deadline.span, since)
        return Turn(one.start, "forgotten", self._records(one))

    def ended(self, one: Occurrence, depth: int) -> Turn:
        """Return the time and the reason of the end of a simple fluent's interval."""
        found = self.facts.transitions(one, one.end, one.end, TERMINATED)
        if self.facts.valued(one.event):
            found += self.facts.transitions(one, one.end, one.end, ENDED_ALL)
        if found:
            return Turn(one.end, "rule", self._nodes(found, depth))
        if others := self.facts.others(one, one.end):
            return Turn(one.end, "other", self._nodes(others, depth))
        deadline = self.facts.deadline_of(one)
        if deadline is not None:
            since = self.facts.renewed(one, deadline)
            if since + deadline.duration == one.end:
                again = self.facts.transitions(one, since, since, INITIATED) if since > one.start else []
                return Turn(one.end, "deadline", self._nodes(again, depth), deadline.span, since)
        return Turn(one.end, "forgotten", self._records(one))

    def _of_key(self, one: Occurrence) -> list[Occurrence]:
        """Return the intervals of all values with the same key."""
        key = one.args[:-1] if self.facts.valued(one.event) else one.args
        return self.memory.fluents.intervals(one.event, dict(enumerate(key)))

    def _nodes(self, found: list[Occurrence], depth: int) -> tuple[DerivationNode, ...]:
        return tuple(self.nodes.node(each, depth - 1) for each in found if self.nodes.room > 0)

    def _records(self, one: Occurrence) -> tuple[DerivationNode, ...]:
        records = [DerivationNode(each, True) for each in self.memory.records(one.name)[: max(self.nodes.room, 0)]]
        self.nodes.room -= len(records)
        return tuple(records)

    # --- formulas ---

    def _formulas(self, one: Occurrence, depth: int) -> tuple[FormulaNode, ...]:
        first, last = one.codes
        made = []
        for rule in self.facts.rules_of(one.event):
            if says_records(rule):  # records are listed themselves
                continue
            bound = unified(rule, dict(enumerate(one.args)), self.memory.engine)
            for extent in [] if bound is None else self.reader.extents(rule.body, bound):
                when = tuple(each for each in extent.when if each[0] <= last and each[1] >= first)
                if when and self._gives(rule, extent, one):
                    made.append(self._formula(extent, first, last, depth, rule))
        return tuple(made)

    def _gives(self, rule: Rule, extent: FormulaExtent, one: Occurrence) -> bool:
        values = [self.judge.value(each, extent.bound)[0] for each in rule.arguments[: len(one.args)]]
        return all((a is None and b is None) or same(a, b) for a, b in zip(values, one.args))

    def _formula(
        self, extent: FormulaExtent, first: int, last: int, depth: int, rule: Rule | None = None, negated: bool = False
    ) -> FormulaNode:
        """Return a formula with its parts and their intervals. `first` and `last` delimit the relevant times."""
        when = tuple(each for each in extent.when if each[0] <= last and each[1] >= first)
        judged = tuple(self.judge.detailed(each, bound) for each, bound in extent.judged)
        made: list[FormulaNode | DerivationNode] = []
        left_out = 0
        if depth <= 0 or self.nodes.room <= 0:
            left_out = len(extent.parts) + len(extent.sources)
        elif extent.sources:
            found = [each for each in extent.sources if each.codes[0] <= last and each.codes[1] >= first]
            made, left_out = self._sources(found, depth)
        else:
            for part, absent in extent.parts:
                low, high = extent.pattern.reaches(first, last)
                if absent:
                    low, high = max(low - 1, -INFINITE), min(high + 1, INFINITE)
                if part.sources and not absent:
                    mine = [each for each in part.sources if each.codes[0] <= high and each.codes[1] >= low]
                    more, out = self._sources(mine, depth)
                    made, left_out = [*made, *more], left_out + out
                elif absent or any(each[0] <= high and each[1] >= low for each in part.when):
                    self.nodes.room -= 1
                    made.append(self._formula(part, low, high, depth - 1, None, absent))
        bound = shown(extent.bound)
        return FormulaNode(extent.pattern, bound, when, negated, rule, judged, tuple(made), left_out)

    def _sources(self, found: list[Occurrence], depth: int) -> tuple[list[FormulaNode | DerivationNode], int]:
        """Return nodes for the intervals and events of a formula, and the number left out. If there are many, the first
        and last ones are returned."""
        some = found if len(found) <= SHOWN else [*found[: SHOWN // 2], *found[-SHOWN // 2 :]]
        some = some[: max(self.nodes.room, 0)]
        return [self.nodes.node(each, depth - 1) for each in some], len(found) - len(some)
