"""Explain why a fluent does not hold at a time: nothing began it, something ended it, or its formulas do not hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from cep.core.fluents import EDGES, INITIATED, TRANSITIONS
from cep.events import Value
from cep.explain.derivation import fluent_nodes
from cep.explain.fluents import FluentFacts
from cep.explain.formulas import shown
from cep.explain.gaps import FormulaGaps, Gap
from cep.explain.heads import unified
from cep.explain.judging import BoundValues, Judge
from cep.explain.matching import Attempt, Failure
from cep.explain.nodes import AnswerRefusal, Turn
from cep.explain.occurrences import Memory, Occurrence, same
from cep.explain.question import BEGINNING, EventQuestion
from cep.explain.reducts import Reducts
from cep.explain.refusal import Refusal, fixed_of
from cep.plan.algebra import Rule
from cep.plan.pattern import Pattern
from cep.rules.terms import Constant

DEEPEST = 3
"""The greatest depth of an explanation: a missing fluent may be explained by another missing fluent or event, and so
on."""
SOME = 60
"""The greatest number of occurrences in the tree that explains why a fluent ended."""


@dataclass(frozen=True, slots=True)
class FluentAbsence:
    """The reasons why a fluent does not hold at the requested time.

    - `before`, `after`: the fluent's last interval before the requested time, and its first interval after this
      time.
    - `ended`: the time and reason of the fluent's last end before the requested time.
    - `refusals`: for each rule, why it has not begun the fluent since that end.
    - `answers`: for a fluent that the answer set solver derives, why each rule did not derive it.
    """

    before: Occurrence | None
    after: Occurrence | None
    ended: Turn | None
    refusals: tuple[Refusal, ...]
    answers: tuple[AnswerRefusal, ...] = ()


class Refusing(Protocol):
    """An explainer of why rules did not derive an event."""

    def refusal(self, rule: Rule, wanted: EventQuestion, path: tuple[str, ...]) -> Refusal:
        """Explain why `rule` did not derive the event `wanted`. `path`: the events and fluents being explained."""
        ...

    def refusals(self, wanted: EventQuestion, path: tuple[str, ...]) -> list[Refusal]:
        """Explain why each rule for the event `wanted` did not derive it."""
        ...


class FluentAbsences:
    """An explainer of absent fluents.

    `refusing`: a function that takes a time and returns an explainer of events. This explainer considers the
    occurrences up to that time.
    """

    def __init__(self, memory: Memory, judge: Judge, refusing: Callable[[int], Refusing]) -> None:
        self.memory, self.judge, self.refusing = memory, judge, refusing
        self.facts = FluentFacts(memory)
        self.reducts = Reducts.of(memory, judge)

    def of(self, name: str, fixed: Mapping[int, Value], code: int, path: tuple[str, ...]) -> FluentAbsence:
        """Explain why a fluent does not hold at the time `code` (see `cep.core.interval_sets`).

        - `fixed`: the values of the fluent's arguments, by position.
        - `path`: the events and fluents that are already being explained.
        """
        held = self.memory.fluents.intervals(name, fixed)
        before = next((earlier for earlier in reversed(held) if earlier.codes[1] < code), None)
        after = min((later for later in held if later.codes[0] > code), key=lambda later: later.start, default=None)
        if self.reducts is not None and self.reducts.gives(name):
            return FluentAbsence(before, after, None, (), tuple(self.reducts.refusals(name, fixed, code >> 1)))
        defined = self.facts.defined(name)
        ended = None
        if before is not None and not defined:
            ended = fluent_nodes(self.memory, self.judge, SOME).ended(before, DEEPEST)
        refusals: list[Refusal] = []
        if name not in path and len(path) <= DEEPEST:
            path = (*path, name)
            rules = self.facts.rules_of(name)
            if defined:
                refusals = [self._formula(rule, fixed, code, path) for rule in rules]
            else:
                refusals = self._begun(name, fixed, code, before, path)
                refusals += self._become(name, fixed, code, path)
        return FluentAbsence(before, after, ended, tuple(refusals))

    def of_table(self, table: str, fixed: Mapping[int, Value], code: int, path: tuple[str, ...]) -> FluentAbsence:
        """Explain the absence of the fluent to which `table` belongs.

        Some tables have an additional last column, which contains the kind of change. The explanation ignores this
        column.
        """
        fluent = self.memory.schemas[table].fluent
        more = fluent is not None and fluent.part in (EDGES, TRANSITIONS)
        width = len(self.memory.schemas[table].attributes) - more
        own = {place: value for place, value in fixed.items() if place < width}
        return self.of(self.memory.fluents.of(table), own, code, path)

    # --- simple fluents ---

    def _begun(
        self, name: str, fixed: Mapping[int, Value], code: int, before: Occurrence | None, path: tuple[str, ...]
    ) -> list[Refusal]:
        beginning = [rule for rule in self.facts.rules_of(name) if same(_what(rule), INITIATED)]
        return [refusal for rule in beginning for refusal in self._simple(name, rule, fixed, code, before, path)]

    def _become(self, name: str, fixed: Mapping[int, Value], code: int, path: tuple[str, ...]) -> list[Refusal]:
        """Explain why no deadline (`BECOMES .. AFTER`) has given the fluent the value whose absence is explained."""
        place = len(self.memory.schemas[name].attributes) - 1
        key = {i: value for i, value in fixed.items() if i != place}
        refusals = []
        for rule, deadline in self.facts.deadlines(name):
            becomes = deadline.becomes
            if becomes is None or (place in fixed and not same(fixed[place], becomes.value)):
                continue
            former = key if deadline.value is None else {**key, place: deadline.value.value}
            held = [interval for interval in self.memory.fluents.intervals(name, former) if interval.codes[0] <= code]
            said = replace(rule, span=deadline.span, label=None)
            nothing = Attempt({}, 0, 0)
            if not held:
                failure = Failure("unbegun", arguments=tuple(former.get(i) for i in range(place + 1)))
                because = tuple(self._begun(name, former, code, None, path))
                refusals.append(Refusal(said, BEGINNING, nothing, failure, because=because))
                continue
            interval = held[-1]
            if self.facts.deadline_of(interval) is None:
                refusals.append(Refusal(said, BEGINNING, nothing, Failure("endless", occurrence=interval)))
                continue
            due = self.facts.renewed(interval, deadline) + deadline.duration
            if interval.codes[1] >= code:
                failure = Failure("waits", occurrence=interval, time=due, by=deadline.duration)
                refusals.append(Refusal(said, BEGINNING, nothing, failure))
            elif interval.end < due:
                ended = fluent_nodes(self.memory, self.judge, SOME).ended(interval, DEEPEST)
                failure = Failure("stopped", occurrence=interval, time=due)
                refusals.append(Refusal(said, BEGINNING, nothing, failure, ended=ended))
        return refusals

    def _simple(
        self,
        name: str,
        rule: Rule,
        fixed: Mapping[int, Value],
        code: int,
        before: Occurrence | None,
        path: tuple[str, ...],
    ) -> list[Refusal]:
        """Explain why a rule has not initiated the fluent since its last interval, `before`, ended.

        Returns an empty list for an `initially` statement that took effect.
        """
        if before is not None and self.facts.initial(rule):
            return []
        until = code >> 1
        since = BEGINNING if before is None else before.end
        table = rule.event
        asked = {**fixed, len(self.memory.schemas[table].attributes) - 1: INITIATED}
        refusal = self.refusing(until).refusal(rule, EventQuestion(table, asked, since, until), path)
        if refusal.failure.kind in ("policy", "whole", "apart"):
            occurrences = self.memory.find(table, asked, refusal.attempt.end, refusal.attempt.end)
            kind = "over" if before is not None and refusal.attempt.end < before.end else "cancelled"
            kind = "later" if 2 * refusal.attempt.end == code else kind
            if occurrences:
                refusal = replace(refusal, failure=Failure(kind, rule.body, occurrence=occurrences[0]), since=since)
        return [refusal]

    # --- formulas ---

    def _formula(self, rule: Rule, fixed: Mapping[int, Value], code: int, path: tuple[str, ...]) -> Refusal:
        """Explain why the formula of a rule does not hold at the time `code` (see `cep.core.interval_sets`)."""
        nothing = Attempt({}, 0, 0)
        bound = unified(rule, fixed, self.memory.engine)
        if bound is None:
            return Refusal(rule, BEGINNING, nothing, Failure("head", rule.body), moment=code)
        gaps = FormulaGaps(self.memory, self.judge, _Nested(self, path))
        extents = gaps.there(rule.body, bound, code)
        if extents:  # the formula holds for other arguments
            values = tuple(self.judge.value(argument, extents[0].bound)[0] for argument in rule.arguments[: len(fixed)])
            return Refusal(rule, BEGINNING, nothing, Failure("head", rule.body, arguments=values))
        lacking = tuple(gaps.lacks(rule.body, bound, code))
        return Refusal(
            rule, BEGINNING, Attempt(shown(bound), 0, 0), Failure("formula", rule.body), gaps=lacking, moment=code
        )


@dataclass(frozen=True, slots=True)
class _Nested:
    """An explainer of one part of a formula: a fluent that does not hold, or an event that does not occur."""

    absences: FluentAbsences
    path: tuple[str, ...]

    def of_atom(self, atom: Pattern, bound: BoundValues, code: int) -> Gap:
        memory, event = self.absences.memory, atom.properties().event
        assert event is not None, "of an event or a fluent"
        fixed = fixed_of(atom, {name: value for name, (value, _) in bound.items()})
        if memory.fluents.knows(event):
            absence = self.absences.of_table(event, fixed, code, self.path)
            return Gap("missing", atom, shown(bound), code, absence.before, absence.after, ended=absence.ended,
                       because=absence.refusals)  # fmt: skip
        time = code >> 1
        near = memory.find(event, fixed, BEGINNING, time, 1)
        because: list[Refusal] = []
        if event in memory.engine.plan.derived and event not in self.path and len(self.path) <= DEEPEST:
            wanted = EventQuestion(event, fixed, time, time)
            because = self.absences.refusing(time).refusals(wanted, (*self.path, event))
        return Gap("missing", atom, shown(bound), code, near[-1] if near else None, memory.after(event, fixed, time),
                   because=tuple(because))  # fmt: skip


def _what(rule: Rule) -> Value:
    last = rule.arguments[-1]
    return last.value if isinstance(last, Constant) else None
