"""Explain why a fluent holds. A simple fluent is explained by its beginning and end. A fluent that formulas define is
explained by the intervals of the formulas' parts."""

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
"""The greatest number of occurrences that are shown for one part of a formula. If there are more, the first three and
the last three are shown."""


class Nodes(Protocol):
    """A creator of nodes. `room`: the number of nodes that may still be created."""

    room: int

    def node(self, occurrence: Occurrence, depth: int) -> DerivationNode:
        """Return the node of an occurrence, with its constituents. `depth`: the number of levels of rules below it."""
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
        """Return the rules of a fluent: the rules that initiate or terminate it, or the formulas that define it.

        The results of some fluents are first derived without constraints. For such a fluent, return the rules of this
        first step.
        """
        if f"{name}{UNCONSTRAINED}" in self.memory.schemas:
            name += UNCONSTRAINED
        return self.rules.get(self.tables.get((name, TRANSITIONS), ""), [])

    def initial(self, rule: Rule) -> bool:
        line = self.engine.plan.source.line(rule.span.line)
        return line[rule.span.column - 1 :].startswith("initially")

    def deadlines(self, name: str) -> list[tuple[Rule, FluentDeadline]]:
        """Return the deadlines of a fluent. Each is paired with the rule that applies it."""
        own = self.rules.get(self.tables.get((name, EDGES), ""), [])
        return [(rule, deadline) for rule in own for deadline in rule.body.properties().deadlines]

    def deadline_of(self, interval: Occurrence) -> FluentDeadline | None:
        """Return the deadline that applies to an interval of a fluent. Returns None if no deadline applies."""
        value = interval.args[-1] if self.valued(interval.event) else None
        every = self.deadlines(interval.event) if interval.start != SINCE_EVER else []
        return next(
            (deadline for _, deadline in every if deadline.value is None or same(deadline.value.value, value)), None
        )

    def renewed(self, interval: Occurrence, deadline: FluentDeadline) -> int:
        """Return the time at which an interval's deadline last started or was renewed."""
        again = (
            self.transitions(interval, interval.start, min(interval.end - 1, LATEST), INITIATED)
            if deadline.renewed
            else []
        )
        return max([interval.start, *(renewal.end for renewal in again)])

    def transitions(self, interval: Occurrence, since: int, until: int, what: int) -> list[Occurrence]:
        table = self.tables[interval.event, TRANSITIONS]
        key = interval.args[:-1] if self.valued(interval.event) and what == ENDED_ALL else interval.args
        fixed: dict[int, Value] = dict(enumerate(key))
        return self.memory.find(table, {**fixed, len(interval.args): what}, since, until)

    def others(self, interval: Occurrence, time: int) -> list[Occurrence]:
        """Return the transitions at `time` that initiated a value of the fluent other than the interval's value."""
        if not self.valued(interval.event):
            return []
        fixed: dict[int, Value] = dict(enumerate(interval.args[:-1]))
        transitions = self.memory.find(
            self.tables[interval.event, TRANSITIONS], {**fixed, len(interval.args): INITIATED}, time, time
        )
        return [transition for transition in transitions if not same(transition.args[-2], interval.args[-1])]

    def records(self, interval: Occurrence) -> list[Occurrence]:
        """Return the fluent's records that overlap an interval."""
        records = self._recorded(interval)
        first, last = interval.codes
        return [record for record in records if record.codes[0] <= last and record.codes[1] >= first]

    def _recorded(self, interval: Occurrence) -> list[Occurrence]:
        table = self.tables.get((interval.event, RECORDS))
        if table is None:
            return []
        records = []
        for record in self.memory.find(table, dict(enumerate(interval.args)), -LATEST, LATEST):
            *own, end, bounds, start = record.args
            since = record.start if start is None else int(start)
            until = END_OF_TIME if end is None else int(end)
            which = BOUNDS[int(bounds or 0)]
            if end is None:
                which = which[0] + ")"
            records.append(replace(record, event=interval.event, args=tuple(own), start=since, end=until, bounds=which))
        return records


class FluentNodes:
    """A creator of nodes for fluents.

    `nodes`: an object that creates the nodes of the occurrences below a fluent's node. `time`: the time of the
    question, or None.
    """

    def __init__(self, memory: Memory, judge: Judge, nodes: Nodes, time: int | None = None) -> None:
        self.memory, self.judge, self.nodes, self.at = memory, judge, nodes, time
        self.reducts = Reducts.of(memory, judge)
        self.facts, self.reader = FluentFacts(memory), FormulaReader(memory, judge)

    def node(self, interval: Occurrence, depth: int) -> DerivationNode:
        """Return the node of a fluent's interval, or of a fluent's beginning or end."""
        fluent = self.memory.schemas[interval.event].fluent
        assert fluent is not None, "it is of a fluent"
        if fluent.part == EDGES:
            return self._edge(interval, depth)
        if self.reducts is not None and self.reducts.gives(interval.event):
            return self._answered(interval, depth, self.reducts)
        if not self.facts.defined(interval.event):
            return self._simple(interval, depth)
        records = [DerivationNode(record, True) for record in self.facts.records(interval)[: max(self.nodes.room, 0)]]
        self.nodes.room -= len(records)
        return DerivationNode(interval, False, parts=tuple(records), formulas=self._formulas(interval, depth))

    def _edge(self, interval: Occurrence, depth: int) -> DerivationNode:
        *args, kind = interval.args
        name = self.memory.fluents.of(interval.event)
        fluent = self.memory.schemas[interval.event].fluent
        ended = interval.end - (0 if fluent is None else fluent.late)
        held = self.memory.fluents.intervals(name, dict(enumerate(args)))
        if kind in (BEGINS, BEGINNING, BEFORE):
            whole = next((other for other in held if other.start == interval.start), None)
            if whole is not None and not self.facts.defined(name):
                return DerivationNode(interval, False, began=self._began(whole, depth))
        elif kind in (ENDS, ENDING):
            whole = next((other for other in held if other.end == ended), None)
            if whole is not None and not self.facts.defined(name):
                return DerivationNode(interval, False, ended=self.ended(whole, depth))
        else:
            whole = next((other for other in held if (other.start, other.end) == (interval.start, ended)), None)
            return DerivationNode(interval, False) if whole is None else self.nodes.node(whole, depth)
        return DerivationNode(interval, False, parts=() if whole is None else (self.nodes.node(whole, depth),))

    # --- answer streams ---

    def _answered(self, interval: Occurrence, depth: int, reducts: Reducts) -> DerivationNode:
        """Return the node of an atom that the answer set solver derived.

        The node contains the rule that derives the atom, and the atoms that make the rule's body true.
        """
        size = reducts.program.tick
        step = reducts.step(interval, None if self.at is None else self.at // size)
        if step is None:  # the atom is a fact
            return DerivationNode(interval, False)
        self.at = step.tick * size
        literals = []
        for literal, atoms in step.body.literals:
            nodes, left_out = self._sources([atom.source for atom in atoms if atom.source is not None], depth)
            parts = tuple(node for node in nodes if isinstance(node, DerivationNode))
            literals.append(LiteralNode(reducts.text_of(literal, step.body.bound), literal.negated, parts, left_out))
        answer = AnswerNode(self.at, step.rule.span, shown(step.body.bound), tuple(literals), step.body.judged)
        return DerivationNode(interval, False, answer=answer)

    # --- simple fluents ---

    def _simple(self, interval: Occurrence, depth: int) -> DerivationNode:
        if depth <= 0:
            return DerivationNode(interval, False, left_out=1 + (interval.end != END_OF_TIME))
        due = None
        deadline = self.facts.deadline_of(interval)
        if interval.end == END_OF_TIME and deadline is not None:
            due = self.facts.renewed(interval, deadline) + deadline.duration, deadline.span
        ended = None if interval.end == END_OF_TIME else self.ended(interval, depth)
        return DerivationNode(interval, False, began=self._began(interval, depth), ended=ended, deadline=due)

    def _began(self, interval: Occurrence, depth: int) -> Turn:
        transitions = self.facts.transitions(interval, interval.start, interval.start, INITIATED)
        if transitions or interval.start == SINCE_EVER:
            return Turn(
                interval.start, "initially" if interval.start == SINCE_EVER else "rule", self._nodes(transitions, depth)
            )
        for before in self._of_key(interval):
            deadline = self.facts.deadline_of(before) if before.end == interval.start else None
            becomes = None if deadline is None else deadline.becomes
            if deadline is not None and becomes is not None and same(becomes.value, interval.args[-1]):
                since = self.facts.renewed(before, deadline)
                if since + deadline.duration == interval.start:
                    return Turn(interval.start, "deadline", self._nodes([before], depth), deadline.span, since)
        return Turn(interval.start, "forgotten", self._records(interval))

    def ended(self, interval: Occurrence, depth: int) -> Turn:
        """Return when and why an interval of a simple fluent ended."""
        transitions = self.facts.transitions(interval, interval.end, interval.end, TERMINATED)
        if self.facts.valued(interval.event):
            transitions += self.facts.transitions(interval, interval.end, interval.end, ENDED_ALL)
        if transitions:
            return Turn(interval.end, "rule", self._nodes(transitions, depth))
        if others := self.facts.others(interval, interval.end):
            return Turn(interval.end, "other", self._nodes(others, depth))
        deadline = self.facts.deadline_of(interval)
        if deadline is not None:
            since = self.facts.renewed(interval, deadline)
            if since + deadline.duration == interval.end:
                again = self.facts.transitions(interval, since, since, INITIATED) if since > interval.start else []
                return Turn(interval.end, "deadline", self._nodes(again, depth), deadline.span, since)
        return Turn(interval.end, "forgotten", self._records(interval))

    def _of_key(self, interval: Occurrence) -> list[Occurrence]:
        key = interval.args[:-1] if self.facts.valued(interval.event) else interval.args
        return self.memory.fluents.intervals(interval.event, dict(enumerate(key)))

    def _nodes(self, occurrences: list[Occurrence], depth: int) -> tuple[DerivationNode, ...]:
        return tuple(self.nodes.node(occurrence, depth - 1) for occurrence in occurrences if self.nodes.room > 0)

    def _records(self, interval: Occurrence) -> tuple[DerivationNode, ...]:
        records = [
            DerivationNode(record, True) for record in self.memory.records(interval.name)[: max(self.nodes.room, 0)]
        ]
        self.nodes.room -= len(records)
        return tuple(records)

    # --- formulas ---

    def _formulas(self, occurrence: Occurrence, depth: int) -> tuple[FormulaNode, ...]:
        first, last = occurrence.codes
        formulas = []
        for rule in self.facts.rules_of(occurrence.event):
            if says_records(rule):  # records are listed themselves
                continue
            bound = unified(rule, dict(enumerate(occurrence.args)), self.memory.engine)
            for extent in [] if bound is None else self.reader.extents(rule.body, bound):
                when = tuple(interval for interval in extent.when if interval[0] <= last and interval[1] >= first)
                if when and self._gives(rule, extent, occurrence):
                    formulas.append(self._formula(extent, first, last, depth, rule))
        return tuple(formulas)

    def _gives(self, rule: Rule, extent: FormulaExtent, occurrence: Occurrence) -> bool:
        values = [self.judge.value(argument, extent.bound)[0] for argument in rule.arguments[: len(occurrence.args)]]
        return all((a is None and b is None) or same(a, b) for a, b in zip(values, occurrence.args))

    def _formula(
        self, extent: FormulaExtent, first: int, last: int, depth: int, rule: Rule | None = None, negated: bool = False
    ) -> FormulaNode:
        """Return the node of a formula, with its parts and their intervals.

        - `first`, `last`: the time codes that delimit the relevant intervals.
        - `rule`: the rule whose whole body is the formula, or None.
        - `negated`: True if the formula must not hold.
        """
        when = tuple(interval for interval in extent.when if interval[0] <= last and interval[1] >= first)
        judged = tuple(self.judge.detailed(judgement, bound) for judgement, bound in extent.judged)
        nodes: list[FormulaNode | DerivationNode] = []
        left_out = 0
        if depth <= 0 or self.nodes.room <= 0:
            left_out = len(extent.parts) + len(extent.sources)
        elif extent.sources:
            sources = [source for source in extent.sources if source.codes[0] <= last and source.codes[1] >= first]
            nodes, left_out = self._sources(sources, depth)
        else:
            for part, absent in extent.parts:
                low, high = extent.pattern.reaches(first, last)
                if absent:
                    low, high = max(low - 1, -INFINITE), min(high + 1, INFINITE)
                if part.sources and not absent:
                    mine = [source for source in part.sources if source.codes[0] <= high and source.codes[1] >= low]
                    more, out = self._sources(mine, depth)
                    nodes, left_out = [*nodes, *more], left_out + out
                elif absent or any(interval[0] <= high and interval[1] >= low for interval in part.when):
                    self.nodes.room -= 1
                    nodes.append(self._formula(part, low, high, depth - 1, None, absent))
        bound = shown(extent.bound)
        return FormulaNode(extent.pattern, bound, when, negated, rule, judged, tuple(nodes), left_out)

    def _sources(self, occurrences: list[Occurrence], depth: int) -> tuple[list[FormulaNode | DerivationNode], int]:
        some = occurrences if len(occurrences) <= SHOWN else [*occurrences[: SHOWN // 2], *occurrences[-SHOWN // 2 :]]
        some = some[: max(self.nodes.room, 0)]
        return [self.nodes.node(occurrence, depth - 1) for occurrence in some], len(occurrences) - len(some)
