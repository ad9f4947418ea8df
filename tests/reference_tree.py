"""The syntax tree of the reference interpreter: plain tuples of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any

SECOND = 1_000_000
UNITS = {"ms": 1_000, "s": SECOND, "min": 60 * SECOND, "h": 3600 * SECOND, "d": 86400 * SECOND}


@dataclass(frozen=True)
class Ticks:
    """A time or a duration as a value, in microseconds."""

    kind: str  # time | duration
    n: int


# Expressions.
@dataclass(frozen=True)
class Var:
    name: str


@dataclass(frozen=True)
class Const:
    value: Any


@dataclass(frozen=True)
class Call:
    function: str
    arguments: tuple[Any, ...]


# Conditions.
@dataclass(frozen=True)
class Comparison:
    operator: str  # = != < <= > >=
    left: Any
    right: Any


@dataclass(frozen=True)
class Predicate:
    name: str
    arguments: tuple[Any, ...]
    negated: bool = False
    graph: tuple[tuple[str, str], ...] | None = None  # the prefixes of a graph pattern, whose text is the name


@dataclass(frozen=True)
class Or:
    """Alternatives, each a conjunction; `local`: the variables that some alternatives alone speak of (put in later)."""

    alternatives: tuple[tuple[Any, ...], ...]
    local: tuple[str, ...] = ()


# Patterns. `filters` are the components of conditions decided there (put in later).
class Pattern:
    """Fields that are patterns are the parts of a pattern."""

    def parts(self) -> list[Any]:
        values = (getattr(self, each.name) for each in fields(self))  # type: ignore[arg-type]
        return [value for value in values if isinstance(value, Pattern)]


@dataclass
class Atom(Pattern):
    name: str
    arguments: tuple[Any, ...]
    names: tuple[str, ...] | None = None
    filters: list[Any] = field(default_factory=list)


@dataclass
class Point(Pattern):
    ticks: int
    filters: list[Any] = field(default_factory=list)


@dataclass
class Pair(Pattern):
    operator: str  # one of PAIRINGS, or cnot
    left: Any
    right: Any
    filters: list[Any] = field(default_factory=list)
    gap: tuple[int, int] | None = None  # of SEQ[g, h]


@dataclass
class Not(Pattern):
    absent: Any
    left: Any
    right: Any
    filters: list[Any] = field(default_factory=list)

    @classmethod
    def read(cls, reader: Any) -> Not:
        reader.take("(")
        absent = reader.pattern()
        for mark in ").[":
            reader.take(mark)
        left = reader.pattern()
        reader.take(",")
        right = reader.pattern()
        reader.take("]")
        return cls(absent, left, right)


@dataclass
class Times(Pattern):
    pattern: Any
    count: int
    filters: list[Any] = field(default_factory=list)


@dataclass
class Within(Pattern):
    pattern: Any
    duration: int


@dataclass
class Where(Pattern):
    pattern: Any
    conditions: tuple[Any, ...]
    filters: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Choice:
    name: str = "unrestricted"
    tie: str | None = None  # longest | shortest | by
    by: str | None = None


@dataclass
class Policy(Pattern):
    pattern: Any
    choice: Choice


class Operator(Pattern, ABC):
    """The base class of operators that say themselves how they are read, which variables they hand up, and what they
    mean. `decides`: the part that decides conditions on the whole, if there is one."""

    decides: str | None = None
    filters: list[Any]

    def uses(self) -> set[str]:
        """The variables that the operator itself mentions."""
        return set()

    def binds(self, parts: list[set[str]]) -> set[str]:
        """The variables it hands up; `parts` are those of each part."""
        return set().union(*parts)

    @abstractmethod
    def node(self, run: Any, parts: list[Any], shared: set[str], within: int | None) -> Any:
        """The node over those of the parts; `shared`: the variables that all parts bind."""


# Statements.
@dataclass
class Declaration:
    name: str
    attributes: list[tuple[str, str]]  # name, type
    distinct: bool = False


@dataclass
class EventRule:
    name: str
    arguments: tuple[Any, ...]
    body: Any
    policy: Choice
    names: tuple[str, ...] | None = None


@dataclass
class StaticRule:
    name: str
    arguments: tuple[Any, ...]
    conditions: tuple[Any, ...]


@dataclass
class Program:
    declarations: dict[str, Declaration]
    event_rules: list[EventRule]
    static_rules: list[StaticRule]
