"""Lowered patterns: the base class of all operators in rule bodies, and functions over patterns.

A pattern is a tree over the variables of one rule. Every option of an operator is a field of its class. Each operator
has its own subclass in `cep/operators/`. Passes read the `PatternProperties` of a pattern or call its methods, and name
no operator.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, cast

from cep.core.errors import NOWHERE, Span
from cep.plan.properties import WithProperties
from cep.rules.terms import AggregateResult, Condition, Constant, PolicyChoice, Variable, condition_variables

if TYPE_CHECKING:
    from cep.explain.formulas import FormulaExtent, FormulaReader
    from cep.explain.gaps import FormulaGaps, Gap
    from cep.explain.judging import BoundValues
    from cep.explain.matching import Attempt, Matcher
    from cep.plan.binarise import Binariser, Component
    from cep.plan.lint.ranges import Ranges, Searcher
    from cep.plan.safety import Checker


Omission = tuple["Pattern", Span, str, str]
"""A variant of a pattern in which one part is omitted: the variant, then the part's span, kind (`cep.plan.rule_edits`)
and text."""


@dataclass(frozen=True, slots=True)
class FluentDeadline:
    """A deadline of a fluent: `duration` microseconds after an initiation, the fluent ends or gets another value.

    - `value`: the initiated value to which the deadline applies. None means any value.
    - `becomes`: the value that the fluent has after the deadline. None means that the fluent ends.
    - `renewed`: True if the time restarts when the fluent is initiated again while it holds.
    - `span`: the position of the deadline in the program.
    """

    value: Constant | None
    duration: int
    becomes: Constant | None
    renewed: bool
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class PatternProperties:
    """The properties of a pattern, for passes.

    - `word`: the operator as the author writes it, for messages
    - `deadlines`: the deadlines of the fluent that the pattern derives
    - `parts`: the patterns directly inside this one that must occur; for a repetition, only the first of them
    - `negated`: the patterns directly inside this one that must be absent
    - `through`: the parts whose variables are bound for the rest of the rule
    - `binds`: further variables that the pattern binds for the rest of the rule
    - `mentions`: the variables that the operator itself mentions
    - `event`, `arguments`: the event and the arguments of an event pattern
    - `conditions`, `policy`, `results`: the WHERE, the policy and the aggregates that the author wrote on the
      pattern
    - `duration`: how long the pattern waits or looks back, in microseconds
    - `goal`: True if the pattern has state
    - `alternatives`: True if a match of one part is enough
    - `copies`: how often the pattern repeats its part
    - `whole`: for a repetition, an equivalent pattern without the repetition
    """

    parts: tuple[Pattern, ...] = ()
    negated: tuple[Pattern, ...] = ()
    through: tuple[Pattern, ...] = ()
    binds: tuple[str, ...] = ()
    mentions: tuple[Variable, ...] = ()
    event: str | None = None
    arguments: tuple[Variable | Constant, ...] = ()
    conditions: tuple[Condition, ...] = ()
    policy: PolicyChoice | None = None
    results: tuple[AggregateResult, ...] = ()
    duration: int | None = None
    goal: bool = False
    alternatives: bool = False
    copies: int = 1
    whole: Pattern | None = None
    word: str = ""
    deadlines: tuple[FluentDeadline, ...] = ()


class Pattern(WithProperties[PatternProperties]):
    """The base class of patterns. Subclasses are frozen dataclasses that have the fields `within` (microseconds) and
    `span`."""

    __slots__ = ()
    within: int | None
    span: Span

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        """Return a copy of the pattern in which variables have other names. `names`: the new name of each variable.

        This method renames the variables of the parts. Patterns that have variables of their own override it.
        """
        own: Any = self
        parts = {field.name: getattr(self, field.name) for field in fields(own)}
        pattern = replace(
            own, **{name: part.renamed(names) for name, part in parts.items() if isinstance(part, Pattern)}
        )
        return cast(Pattern, pattern)

    @abstractmethod
    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        """Add the pattern's node to the builder. Return the node's number and the column of each variable.

        - `components`: conditions on the pattern. Each is decided at the lowest possible node.
        - `bounded`: the WITHIN of a goal around this pattern, or None. The interval of that goal always covers the
          interval of this pattern, so the new node need not check this WITHIN again.
        """

    def decider(self) -> Pattern:
        """Return the pattern whose node checks the conditions that the author wrote on this pattern."""
        return self

    def belongs_below(self, component: Component) -> bool:
        """Return True if a pattern inside this one can check `component`, conditions on this pattern."""
        return False

    def check(self, checker: Checker, outside: frozenset[str]) -> None:
        """Report variables that are used but not bound. `outside`: if this pattern is negated, the variables of the
        rest of the rule."""

    def ranges(self, searcher: Searcher) -> Ranges:
        """Return the known ranges of the variables that the pattern binds."""
        return {}

    def shortest(self) -> tuple[int, str] | None:
        """Return the least duration of a match in microseconds, and the reason in words."""
        return None

    def omissions(self) -> Iterator[Omission]:
        """Yield copies of the pattern, each without one of its own conditions, absences or windows."""
        yield from ()

    def changes(self) -> Iterator[tuple[Pattern, str]]:
        """Yield copies of the pattern for mutation testing, each with a description. In each copy, one detail of the
        operator is different, for example its duration, its policy or a shared variable."""
        yield from ()

    @abstractmethod
    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        """Return all matches of the pattern, for explanations. If a part has no match, return the best attempts without
        this part (see `cep.explain.matching.Attempt.rank`).

        - `matcher`: a `cep.explain.matching.Matcher`, which creates the attempts.
        - `bound`: the values of variables that are already known.
        """

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        """Return the values and times for which a formula holds, for explanations.

        - `reader`: a `cep.explain.formulas.FormulaReader`, which creates the extents.
        - `bound`: the values of variables that are already known.
        """
        raise AssertionError("it is not a formula")

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, code: int) -> list[Gap]:
        """Return the reasons why a formula does not hold at a time, for explanations.

        - `gaps`: a `cep.explain.gaps.FormulaGaps`.
        - `bound`: the values of variables that are already known.
        - `code`: the time, as a code of `cep.core.interval_sets`.
        """
        raise AssertionError("it is not a formula")

    def reaches(self, first: int, last: int) -> tuple[int, int]:
        """Return the first and last time at which the parts of a formula can affect the formula's value between `first`
        and `last`.

        All times are codes of `cep.core.interval_sets`.
        """
        return first, last


class FormulaPattern(Pattern):
    """The base class of formula operators that have one operand, the first of their `parts`."""

    __slots__ = ()

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.attempts(self.properties().parts[0], bound)

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, code: int) -> list[Gap]:
        return gaps.lacks(self.properties().parts[0], bound, code)


class DelayedPattern(Pattern):
    """The base class of formula operators whose results may be known later than the time to which they refer."""

    __slots__ = ()

    @abstractmethod
    def known_later(self, delay: int) -> Pattern:
        """Return a copy of the pattern whose results are known `delay` microseconds later."""


# --- walks ------------------------------------------------------------------------------------------------------------


def parts(pattern: Pattern) -> list[Pattern]:
    """Return the patterns directly inside a pattern, without negated ones. For a TIMES, return only its first part."""
    return list(pattern.properties().parts)


def absent(pattern: Pattern) -> list[Pattern]:
    return list(pattern.properties().negated)


def patterns(pattern: Pattern) -> list[Pattern]:
    properties = pattern.properties()
    return [pattern, *(pattern for part in (*properties.parts, *properties.negated) for pattern in patterns(part))]


def atoms(pattern: Pattern) -> list[Pattern]:
    return [pattern for pattern in patterns(pattern) if pattern.properties().event is not None]


def events(pattern: Pattern) -> Iterator[str]:
    """Yield the names of the events in a pattern, including negated ones. A name can occur several times."""
    for part in patterns(pattern):
        name = part.properties().event
        if name is not None:
            yield name


def variables(pattern: Pattern) -> frozenset[str]:
    """Return the variables that a pattern binds for the rest of the rule."""
    properties = pattern.properties()
    return frozenset(properties.binds).union(*(variables(part) for part in properties.through))


def mentioned(pattern: Pattern) -> list[Variable]:
    """Return all variables in a pattern except `_` and except the variables of policies. A variable can occur several
    times."""
    return [variable for pattern in patterns(pattern) for variable in pattern.properties().mentions]


def conditions(pattern: Pattern) -> list[Condition]:
    return [condition for pattern in patterns(pattern) for condition in pattern.properties().conditions]


def policies(pattern: Pattern) -> Iterator[PolicyChoice]:
    """Yield the policies of all goals of a pattern."""
    for part in patterns(pattern):
        policy = part.properties().policy
        if policy is not None:
            yield policy


def levels(pattern: Pattern) -> int:
    """Return the nesting depth of a pattern: the greatest number of goals around one of its events."""
    properties = pattern.properties()
    inner = properties.parts if properties.whole is None else (properties.whole,)
    return properties.goal + max(map(levels, inner), default=0)


def size(pattern: Pattern) -> int:
    """Count the events of a pattern. `a TIMES 3` counts as three events."""
    properties = pattern.properties()
    inner = (*properties.parts, *properties.negated)
    return properties.copies * sum(map(size, inner)) if inner else 1


def names_in(pattern: Pattern) -> set[str]:
    """Return the names of all variables in a pattern, including `_`."""
    properties = pattern.properties()
    own = {argument.name for argument in properties.arguments if isinstance(argument, Variable)}
    own |= {mention.name for mention in properties.mentions}
    own |= {name for condition in properties.conditions for name in condition_variables(condition)}
    inner = (*properties.parts, *properties.negated) if properties.whole is None else (properties.whole,)
    return own.union(*map(names_in, inner))


def renamer(names: Mapping[str, str]) -> Callable[[Variable], Variable]:
    """Return a function that renames a variable. `names`: the new name of each variable."""
    return lambda variable: Variable(names.get(variable.name, variable.name), variable.span)


def rechosen(policy: PolicyChoice, names: Mapping[str, str]) -> PolicyChoice:
    return replace(policy, by=names.get(policy.by, policy.by)) if policy.by else policy
