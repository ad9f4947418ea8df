"""The reason why one rule did not derive a requested event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cep.events import Value
from cep.explain.gaps import Gap
from cep.explain.matching import Attempt, Failure
from cep.explain.nodes import Turn
from cep.explain.occurrences import Occurrence
from cep.plan.algebra import Rule
from cep.plan.pattern import Pattern
from cep.rules.terms import Constant


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule that did not derive the event: the closest attempt and its failure.

    `since`: the earliest time of the occurrences considered. If the attempt lacks an event, `before` is the latest such
    event up to the requested time, and `after` is the first later event. `because` then explains why no rule derived
    the lacking event. If it lacks a fluent, `ended` is why the fluent last ended. `gaps`: the parts of a formula that
    are not met at the code of time `moment` (`cep.core.interval_sets`).
    """

    rule: Rule
    since: int
    attempt: Attempt
    failure: Failure
    before: Occurrence | None = None
    after: Occurrence | None = None
    because: tuple[Refusal, ...] = ()
    ended: Turn | None = None
    gaps: tuple[Gap, ...] = ()
    moment: int = 0


def fixed_of(atom: Pattern, values: Mapping[str, Value]) -> dict[int, Value]:
    """Return the known arguments of an event pattern, by position."""
    fixed: dict[int, Value] = {}
    for place, argument in enumerate(atom.properties().arguments):
        if isinstance(argument, Constant):
            fixed[place] = argument.value
        elif argument.name in values:
            fixed[place] = values[argument.name]
    return fixed
