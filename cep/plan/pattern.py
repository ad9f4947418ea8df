"""Lowered patterns: the base class of all operators in rule bodies, and functions over trees of patterns.

A pattern is a tree over the variables of one rule, in which every option is a field. Each operator has its own subclass
in `cep/operators/`. Passes read its `PatternProperties` or call its methods, and name no operator.
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


@dataclass(frozen=True, slots=True)
class FluentDeadline:
    """A deadline: a fluent initiated with `value` (None: any) ends after `duration` microseconds, or `becomes` another
    value.

    `renewed`: initiations while it holds restart the time. `span`: its position in the program.
    """

    value: Constant | None
    duration: int
    becomes: Constant | None
    renewed: bool
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class PatternProperties:
    """The properties of a pattern, for passes.

    - `word`: the operator as written, for messages
    - `deadlines`: the deadlines of the fluent that the pattern derives
    - `parts`: the patterns directly inside that must occur; for a repetition, only the first
    - `negated`: the patterns directly inside that must be absent
    - `through`: the parts whose variables the pattern binds for the patterns around it
    - `binds`: further variables that the pattern binds for the patterns around it
    - `mentions`: the variables that the operator itself mentions
    - `event`, `arguments`: the event and the arguments of an event pattern
    - `conditions`, `policy`, `results`: as written on the pattern
    - `duration`: how long the pattern waits or looks back, in microseconds
    - `goal`: the pattern has state
    - `alternatives`: a match of one part is enough
    - `copies`: how often the pattern repeats its part
    - `whole`: the repetition written out
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
    """The base class of patterns. Subclasses are frozen dataclasses with the fields `within` (microseconds) and
    `span`."""

    __slots__ = ()
    within: int | None
    span: Span

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        """Return the pattern with its variables renamed. The default renames only inside the
        parts; patterns with variables of their own override it."""
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
        """Add its node to the builder, with `components` decided as low as possible. Return the node's number and the
        column of each variable.

        `bounded`: the WITHIN of an enclosing goal whose interval covers this one, so that it need not be checked here
        too.
        """

    def decider(self) -> Pattern:
        """Return the pattern that decides the conditions written on this one."""
        return self

    def belongs_below(self, component: Component) -> bool:
        """Return True if conditions written on this pattern belong to a pattern inside it."""
        return False

    def check(self, checker: Checker, outside: frozenset[str]) -> None:
        """Report unsafe variables. `outside`: the variables of the rest of the rule, if this pattern is negated."""

    def ranges(self, searcher: Searcher) -> Ranges:
        """Return the known ranges of the variables that it binds."""
        return {}

    def shortest(self) -> tuple[int, str] | None:
        """Return the least duration of a match in microseconds, and the reason in words."""
        return None

    @abstractmethod
    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        """Return all matches, for explanations. If a part has no match, return the best attempts without it.

        `matcher`: a `cep.explain.matching.Matcher`, which creates the attempts.
        """

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        """Return the values for which the pattern holds as a formula, and when, for explanations. `bound`: values
        already known.

        `reader`: a `cep.explain.formulas.FormulaReader`, which creates the extents.
        """
        raise AssertionError("it is not a formula")

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, code: int) -> list[Gap]:
        """Return what is missing for the formula to hold at time `code`, for explanations. Times are codes of
        `cep.core.interval_sets`.

        `gaps`: a `cep.explain.gaps.FormulaGaps`.
        """
        raise AssertionError("it is not a formula")

    def reaches(self, first: int, last: int) -> tuple[int, int]:
        """Return the first and last time at which the parts of a formula affect its value between `first` and `last`.

        Times are codes of `cep.core.interval_sets`.
        """
        return first, last


class FormulaPattern(Pattern):
    """The base class of patterns of a formula over one other pattern, the first part in its properties."""

    __slots__ = ()

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.attempts(self.properties().parts[0], bound)

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, code: int) -> list[Gap]:
        return gaps.lacks(self.properties().parts[0], bound, code)


class DelayedPattern(Pattern):
    """The base class of formula patterns whose rows can become known later than the time they are about."""

    __slots__ = ()

    @abstractmethod
    def known_later(self, delay: int) -> Pattern:
        """Return the same pattern with rows that become known `delay` microseconds later."""


# --- walks ------------------------------------------------------------------------------------------------------------


def parts(pattern: Pattern) -> list[Pattern]:
    """Return the patterns directly inside a pattern, except negated ones. A TIMES returns its first part."""
    return list(pattern.properties().parts)


def absent(pattern: Pattern) -> list[Pattern]:
    """Return the patterns that a pattern negates directly."""
    return list(pattern.properties().negated)


def patterns(pattern: Pattern) -> list[Pattern]:
    """Return a pattern and all patterns inside it, in the order in which they are written."""
    properties = pattern.properties()
    return [pattern, *(pattern for part in (*properties.parts, *properties.negated) for pattern in patterns(part))]


def atoms(pattern: Pattern) -> list[Pattern]:
    """Return all event patterns of a pattern, including negated ones."""
    return [pattern for pattern in patterns(pattern) if pattern.properties().event is not None]


def events(pattern: Pattern) -> Iterator[str]:
    """Yield the events of a pattern, including negated ones, with repetitions."""
    for part in patterns(pattern):
        name = part.properties().event
        if name is not None:
            yield name


def variables(pattern: Pattern) -> frozenset[str]:
    """Return the variables that a pattern binds for the patterns around it."""
    properties = pattern.properties()
    return frozenset(properties.binds).union(*(variables(part) for part in properties.through))


def mentioned(pattern: Pattern) -> list[Variable]:
    """Return every variable of a pattern except `_`, with repetitions. Variables of policies are not included."""
    return [variable for pattern in patterns(pattern) for variable in pattern.properties().mentions]


def conditions(pattern: Pattern) -> list[Condition]:
    """Return the conditions of all WHEREs in a pattern."""
    return [condition for pattern in patterns(pattern) for condition in pattern.properties().conditions]


def policies(pattern: Pattern) -> Iterator[PolicyChoice]:
    """Yield the policies of all goals of a pattern."""
    for part in patterns(pattern):
        policy = part.properties().policy
        if policy is not None:
            yield policy


def levels(pattern: Pattern) -> int:
    """Return the greatest number of goals between a pattern and its events."""
    properties = pattern.properties()
    inner = properties.parts if properties.whole is None else (properties.whole,)
    return properties.goal + max(map(levels, inner), default=0)


def size(pattern: Pattern) -> int:
    """Count the events of a pattern, with each TIMES written out."""
    properties = pattern.properties()
    inner = (*properties.parts, *properties.negated)
    return properties.copies * sum(map(size, inner)) if inner else 1


def names_in(pattern: Pattern) -> set[str]:
    """Return the names of all variables of a pattern, including `_`."""
    properties = pattern.properties()
    own = {argument.name for argument in properties.arguments if isinstance(argument, Variable)}
    own |= {mention.name for mention in properties.mentions}
    own |= {name for condition in properties.conditions for name in condition_variables(condition)}
    inner = (*properties.parts, *properties.negated) if properties.whole is None else (properties.whole,)
    return own.union(*map(names_in, inner))


def renamer(names: Mapping[str, str]) -> Callable[[Variable], Variable]:
    """Return a function that renames variables."""
    return lambda variable: Variable(names.get(variable.name, variable.name), variable.span)


def rechosen(policy: PolicyChoice, names: Mapping[str, str]) -> PolicyChoice:
    """Return a policy with its variable renamed."""
    return replace(policy, by=names.get(policy.by, policy.by)) if policy.by else policy
