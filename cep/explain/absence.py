"""Explain why an event was not derived. For each rule that could derive it, find the closest attempt and its failure.

First, the rule's head is unified with the requested event. Then the rule's body is matched with the occurrences up to
the requested time. The explanation describes the attempt that matched the most (see `_nearness`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cep.events import Value
from cep.explain.fluent_absence import FluentAbsences
from cep.explain.heads import unified
from cep.explain.judging import Judge, TypedValue
from cep.explain.matching import Attempt, Failure, Matcher
from cep.explain.nodes import AnswerRefusal, Turn
from cep.explain.occurrences import Memory, Occurrence, same
from cep.explain.question import BEGINNING, EventQuestion
from cep.explain.refusal import Refusal, fixed_of
from cep.plan.algebra import Rule
from cep.plan.node import Meeting
from cep.plan.pattern import Pattern, patterns
from cep.rules.terms import PolicyChoice, Variable, expression_variables

DAY = 86_400_000_000
MOST = 2_000
"""The greatest number of occurrences per event that are tried. The latest occurrences are chosen."""
DEEPEST = 3
"""The greatest depth of an explanation: a missing event may be explained by another missing event, and so on."""


@dataclass(frozen=True, slots=True)
class Absence:
    """The reasons why an event is missing. `refusals`: why each rule, in program order, did not derive it.

    - `occurrences`: the event's occurrences, if it was derived after all.
    - `before`: the latest occurrence of the event that ends by the requested time.
    - `after`: the earliest occurrence that ends after the requested time.
    - `until`: the latest end of an occurrence that the explanation considered.
    - `ended`: for a fluent, the time and reason of its last end before the requested time.
    """

    wanted: EventQuestion
    until: int
    occurrences: tuple[Occurrence, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    before: Occurrence | None = None
    after: Occurrence | None = None
    ended: Turn | None = None
    answers: tuple[AnswerRefusal, ...] = ()


Back = int | tuple[int, ...] | None
"""How far back from the requested time occurrences are considered, in microseconds.

A tuple has one value for each depth of the explanation. None means one day, or the longest duration in the rule if that
is longer than one day. If the rule has windows without a fixed length, None means no limit.
"""


def absence(memory: Memory, judge: Judge, wanted: EventQuestion, back: Back = None) -> Absence:
    """Explain why the event `wanted` is missing at the requested time. `back`: how far back to look for occurrences."""
    occurrences = tuple(wanted.found(memory))
    until = wanted.until
    if occurrences:
        return Absence(wanted, until, occurrences)
    if memory.fluents.knows(wanted.event):
        none = _Refusing(memory, judge, until, back).fluents.of(wanted.event, wanted.fixed, 2 * until, ())
        return Absence(wanted, until, (), none.refusals, none.before, none.after, none.ended, none.answers)
    nearest = memory.find(wanted.event, wanted.fixed, BEGINNING, until, 1)
    return Absence(
        wanted,
        until,
        (),
        tuple(_Refusing(memory, judge, until, back).refusals(wanted, (wanted.event,))),
        nearest[-1] if nearest else None,
        memory.after(wanted.event, wanted.fixed, until),
    )


class _Refusing:
    def __init__(self, memory: Memory, judge: Judge, until: int, back: Back) -> None:
        self.memory = memory
        self.judge = judge
        self.until = until
        self.back = back
        self.fluents = FluentAbsences(memory, judge, lambda time: _Refusing(memory, judge, time, back))

    def refusals(self, wanted: EventQuestion, path: tuple[str, ...]) -> list[Refusal]:
        rules = [rule for rule in self.memory.engine.plan.rules.rules if rule.event == wanted.event]
        return [self.refusal(rule, wanted, path) for rule in rules]

    def refusal(self, rule: Rule, wanted: EventQuestion, path: tuple[str, ...]) -> Refusal:
        since = self.since(rule, wanted, len(path) - 1)
        bound = unified(rule, wanted.fixed, self.memory.engine)
        if bound is None:
            nothing = Attempt({}, 0, 0)
            return Refusal(rule, since, nothing, Failure("head", rule.body))

        def find(event: str, fixed: Mapping[int, Value]) -> list[Occurrence]:
            return self.memory.find(event, fixed, since, self.until, MOST)

        matcher = Matcher(find, self.judge, self.memory.schemas, self.until, self.memory.fluents.at)
        attempts = matcher.attempts(rule.body, bound)
        judged = [(attempt, attempt.failure or self.whole(rule, attempt, wanted)) for attempt in attempts]
        near = [(self.gives(rule, attempt, wanted), *_nearness(attempt, failed, wanted)) for attempt, failed in judged]
        attempt, failure = judged[near.index(max(near))]
        attempt = replace(attempt, judged=tuple((self.judge.detailed(j, b), b) for j, b in attempt.judged))
        event = None if failure.pattern is None else failure.pattern.properties().event
        if failure.kind not in ("missing", "unheld") or failure.pattern is None or event is None:
            return Refusal(rule, since, attempt, failure)
        if self.memory.fluents.knows(event):
            end = self.until if failure.kind != "unheld" else attempt.end if failure.time is None else failure.time
            none = self.fluents.of_table(event, fixed_of(failure.pattern, failure.values), 2 * end, path)
            return Refusal(rule, since, attempt, failure, none.before, none.after, none.refusals, none.ended)
        asked = EventQuestion(
            event, fixed_of(failure.pattern, failure.values), wanted.since, wanted.until, _twice(failure.pattern)
        )
        before = self.memory.find(asked.event, asked.fixed, BEGINNING, self.until, 1)
        because: list[Refusal] = []
        if asked.event in self.memory.engine.plan.derived and asked.event not in path and len(path) <= DEEPEST:
            because = self.refusals(asked, (*path, asked.event))
        after = self.memory.after(asked.event, asked.fixed, self.until)
        return Refusal(rule, since, attempt, failure, before[-1] if before else None, after, tuple(because))

    def whole(self, rule: Rule, attempt: Attempt, wanted: EventQuestion) -> Failure:
        """Explain why an attempt does not answer the question, although it matches the whole rule and all conditions
        hold.

        There are three possible reasons: the attempt derived another event than the requested one, it ended before the
        requested time, or the policy chose another attempt.
        """
        if not self.gives(rule, attempt, wanted):
            args = tuple(self.judge.value(argument, attempt.bound)[0] for argument in rule.arguments)
            return Failure("head", rule.body, arguments=args)
        before = _before(attempt, wanted)
        chosen = any(choice.name != "unrestricted" for choice in _policies(rule))
        return Failure("apart", rule.body, by=before) if before else Failure("policy" if chosen else "whole", rule.body)

    def gives(self, rule: Rule, attempt: Attempt, wanted: EventQuestion) -> bool:
        """Return True if the event that an attempt derives may be the event `wanted`, judging by its arguments.

        An argument whose variables are not bound yet may have any value.
        """
        for place, value in wanted.fixed.items():
            known = self.known(rule, attempt, place)
            if known is not None and not same(known[0], value):
                return False
        pairs = [[self.known(rule, attempt, place) for place in places] for places in wanted.same]
        return all(first is None or other is None or same(first[0], other[0]) for first, other in pairs)

    def known(self, rule: Rule, attempt: Attempt, place: int) -> TypedValue | None:
        """Return the value of one argument of the event that an attempt derives. `place`: the position of the argument.

        Returns None if variables of the argument are not bound.
        """
        argument = rule.arguments[place]
        if isinstance(argument, Variable):
            return attempt.bound.get(argument.name)
        known = all(name in attempt.bound for name in expression_variables(argument))
        return self.judge.value(argument, attempt.bound) if known else None

    def since(self, rule: Rule, wanted: EventQuestion, depth: int) -> int:
        if wanted.since == BEGINNING:
            return BEGINNING
        if isinstance(self.back, tuple) and 0 <= depth < len(self.back):
            return wanted.since - self.back[depth]
        if self.back is None and self.grows(rule):
            return BEGINNING
        lengths = [part.within or 0 for part in patterns(rule.body)]
        lengths += [part.properties().duration or 0 for part in patterns(rule.body)]
        return wanted.since - (self.back if isinstance(self.back, int) else max(DAY, *lengths))

    def grows(self, rule: Rule) -> bool:
        """Return True if a result of the rule may depend on all earlier occurrences of a group, as `LAST 3 EVENTS`."""
        plan = self.memory.engine.plan
        number = plan.rules.rules.index(rule)
        nodes = (node for node, users in zip(plan.nodes, plan.users, strict=True) if number in users)
        return any(node.properties().meeting is Meeting.GROUPS and node.window() is None for node in nodes)


def _twice(pattern: Pattern) -> tuple[tuple[int, int], ...]:
    arguments = pattern.properties().arguments
    names = [argument.name if isinstance(argument, Variable) else "_" for argument in arguments]
    again = [place for place, name in enumerate(names) if name[0] != "_" and name in names[:place]]
    return tuple((names.index(names[place]), place) for place in again)


def _policies(rule: Rule) -> list[PolicyChoice]:
    choices = [part.properties().policy for part in patterns(rule.body)]
    return [choice for choice in choices if choice is not None]


def _nearness(attempt: Attempt, failure: Failure, wanted: EventQuestion) -> tuple[int, ...]:
    """Return a sort key for attempts to derive the requested event. The closest attempt has the greatest key.

    The key compares, in this order:

    - the number of matched events,
    - True if the attempt touches the requested time,
    - the stage at which the attempt failed,
    - the number of conditions that hold,
    - the time by which the attempt misses the rule's limits and the requested time (negated: less is closer),
    - the attempt's end.
    """
    before = _before(attempt, wanted)
    short = before if failure.kind == "apart" else before + failure.by
    return attempt.held, not before, attempt.placed, attempt.holding, -short, attempt.end


def _before(attempt: Attempt, wanted: EventQuestion) -> int:
    return max(0, wanted.since - attempt.end)
