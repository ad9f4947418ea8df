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
    """A rule that did not derive the requested event, its closest attempt, and the failure of this attempt.

    - `since`: the earliest time of the occurrences that were considered.
    - `before`, `after`: if the attempt lacks an event, the latest occurrence of this event up to the requested time,
      and the first occurrence after it.
    - `because`: why no rule derived the event that the attempt lacks.
    - `ended`: if the attempt lacks a fluent, why this fluent last ended.
    - `gaps`: the parts of a formula that do not hold at the time `moment` (a code of `cep.core.interval_sets`).
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
    """Return those arguments of an event pattern whose values are known, by position.

    `values`: the known values of variables.
    """
    fixed: dict[int, Value] = {}
    for place, argument in enumerate(atom.properties().arguments):
        if isinstance(argument, Constant):
            fixed[place] = argument.value
        elif argument.name in values:
            fixed[place] = values[argument.name]
    return fixed
