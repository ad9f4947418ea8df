"""Why one rule did not give what is asked for."""

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
    """One rule that did not give the event: the nearest attempt and its failure.

    `since`: from then on occurrences were looked at. Of a missing event, `before` is the latest that ended before,
    `after` the first that ended later, and `because` says why the rules for it gave none; of a fluent `ended` what
    ended it last. `gaps`: what is missing of a formula at a time, the code `at` (`cep.core.interval_sets`).
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
    at: int = 0


def fixed_of(atom: Pattern, values: Mapping[str, Value]) -> dict[int, Value]:
    """The arguments of an event pattern that are known."""
    found: dict[int, Value] = {}
    for place, argument in enumerate(atom.properties().arguments):
        if isinstance(argument, Constant):
            found[place] = argument.value
        elif argument.name in values:
            found[place] = values[argument.name]
    return found
