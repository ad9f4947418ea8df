"""Lowered patterns: what every operator says of itself, and the walks over patterns that ask it.

A pattern is a tree over one rule's variables, in which every option is a field. Each operator has a class of them in
`cep/operators/`; what passes ask is in its `PatternProperties`, what only it can do are methods. No pass names an
operator.
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

    word: the operator as written, for messages
    deadlines: of the fluent that the pattern derives
    parts: the patterns directly inside that occur; of a repetition, the first
    negated: the patterns directly inside that must be absent
    through: the parts whose variables are bound outside as well
    binds: further variables that are bound outside
    mentions: the variables written here
    event, arguments: of an event pattern
    conditions, policy, results: as written on the pattern
    duration: how long it waits or looks back, in microseconds
    goal: it has state
    alternatives: one of its parts is enough
    copies: how often it repeats its part
    whole: the repetition written out
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
    """A pattern of some operator: a frozen dataclass with the fields `within` (microseconds) and `span`."""

    __slots__ = ()
    within: int | None
    span: Span

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        """The pattern with its variables renamed: those of its parts, where it names none itself."""
        own: Any = self
        parts = {each.name: getattr(self, each.name) for each in fields(own)}
        made = replace(own, **{name: part.renamed(names) for name, part in parts.items() if isinstance(part, Pattern)})
        return cast(Pattern, made)

    @abstractmethod
    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        """Its node, on which `components` are decided as low as they can, and the columns of its variables (M4).

        `bounded`: the WITHIN of a goal above whose interval covers this one's, so that it need not be checked here too.
        """

    def decider(self) -> Pattern:
        """The pattern that decides the conditions written on this one."""
        return self

    def belongs_below(self, component: Component) -> bool:
        """Return True if conditions written on it belong to something inside it."""
        return False

    def check(self, checker: Checker, outside: frozenset[str]) -> None:
        """Report what is unsafe here. `outside`: the variables of the rest of the rule, where it is negated."""

    def ranges(self, searcher: Searcher) -> Ranges:
        """Return the known ranges of the variables that it binds."""
        return {}

    def shortest(self) -> tuple[int, str] | None:
        """How long it lasts at least, in microseconds, and what makes it so."""
        return None

    @abstractmethod
    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        """Everything that matches, and where nothing does at a place, the best without it: for explanations.

        `matcher`: a `cep.explain.matching.Matcher`; gives its attempts.
        """

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        """For which values, with those `bound`, it ever holds as a formula, and when: for explanations.

        `reader`: a `cep.explain.formulas.FormulaReader`; gives its extents.
        """
        raise AssertionError("it is not a formula")

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, at: int) -> list[Gap]:
        """Return what is missing of the formula at a time, a code of `cep.core.interval_sets`, for explanations.

        `gaps`: a `cep.explain.gaps.FormulaGaps`.
        """
        raise AssertionError("it is not a formula")

    def reaches(self, first: int, last: int) -> tuple[int, int]:
        """The times of its parts on which it depends as a formula at these times, codes of `cep.core.interval_sets`."""
        return first, last


class FormulaPattern(Pattern):
    """A pattern of a formula over another one, which is the first part in its properties."""

    __slots__ = ()

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.attempts(self.properties().parts[0], bound)

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, at: int) -> list[Gap]:
        return gaps.lacks(self.properties().parts[0], bound, at)


class DelayedPattern(Pattern):
    """A pattern of a formula whose rows can say that they are known later than they are."""

    __slots__ = ()

    @abstractmethod
    def known_later(self, delay: int) -> Pattern:
        """The same, where its rows are known so many microseconds later."""


# --- walks ------------------------------------------------------------------------------------------------------------


def parts(pattern: Pattern) -> list[Pattern]:
    """The patterns directly inside one that occur; of a TIMES the first."""
    return list(pattern.properties().parts)


def absent(pattern: Pattern) -> list[Pattern]:
    """Return the patterns that a pattern negates directly."""
    return list(pattern.properties().negated)


def patterns(pattern: Pattern) -> list[Pattern]:
    """A pattern and all inside it, as written."""
    properties = pattern.properties()
    return [pattern, *(each for part in (*properties.parts, *properties.negated) for each in patterns(part))]


def atoms(pattern: Pattern) -> list[Pattern]:
    """All event patterns of a pattern, what is negated included."""
    return [each for each in patterns(pattern) if each.properties().event is not None]


def events(pattern: Pattern) -> Iterator[str]:
    """The events of a pattern, what is negated included, as often as they are written."""
    for each in patterns(pattern):
        name = each.properties().event
        if name is not None:
            yield name


def variables(pattern: Pattern) -> frozenset[str]:
    """The variables a pattern binds for what is around it."""
    properties = pattern.properties()
    return frozenset(properties.binds).union(*(variables(part) for part in properties.through))


def mentioned(pattern: Pattern) -> list[Variable]:
    """Every variable of a pattern as often as it is written, but the anonymous; those of policies left out."""
    return [variable for each in patterns(pattern) for variable in each.properties().mentions]


def conditions(pattern: Pattern) -> list[Condition]:
    """The conditions of all WHEREs in a pattern."""
    return [condition for each in patterns(pattern) for condition in each.properties().conditions]


def policies(pattern: Pattern) -> Iterator[PolicyChoice]:
    """The policies of all goals of a pattern."""
    for each in patterns(pattern):
        policy = each.properties().policy
        if policy is not None:
            yield policy


def levels(pattern: Pattern) -> int:
    """How many goals are between a pattern and its events, at most."""
    properties = pattern.properties()
    inner = properties.parts if properties.whole is None else (properties.whole,)
    return properties.goal + max(map(levels, inner), default=0)


def size(pattern: Pattern) -> int:
    """The events of a pattern, each TIMES written out."""
    properties = pattern.properties()
    inner = (*properties.parts, *properties.negated)
    return properties.copies * sum(map(size, inner)) if inner else 1


def names_in(pattern: Pattern) -> set[str]:
    """The names of all variables of a pattern, the anonymous too."""
    properties = pattern.properties()
    own = {each.name for each in properties.arguments if isinstance(each, Variable)}
    own |= {each.name for each in properties.mentions}
    own |= {name for condition in properties.conditions for name in condition_variables(condition)}
    inner = (*properties.parts, *properties.negated) if properties.whole is None else (properties.whole,)
    return own.union(*map(names_in, inner))


def renamer(names: Mapping[str, str]) -> Callable[[Variable], Variable]:
    """Return a function that renames variables."""
    return lambda variable: Variable(names.get(variable.name, variable.name), variable.span)


def rechosen(policy: PolicyChoice, names: Mapping[str, str]) -> PolicyChoice:
    """A policy under other names of the variables."""
    return replace(policy, by=names.get(policy.by, policy.by)) if policy.by else policy
