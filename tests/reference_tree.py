"""The syntax tree of the reference interpreter: plain tuples of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
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
@dataclass
class Atom:
    name: str
    arguments: tuple[Any, ...]
    names: tuple[str, ...] | None = None
    filters: list[Any] = field(default_factory=list)


@dataclass
class Point:
    ticks: int
    filters: list[Any] = field(default_factory=list)


@dataclass
class Pair:
    operator: str  # one of PAIRINGS, or cnot
    left: Any
    right: Any
    filters: list[Any] = field(default_factory=list)
    gap: tuple[int, int] | None = None  # of SEQ[g, h]


@dataclass
class Not:
    absent: Any
    left: Any
    right: Any
    filters: list[Any] = field(default_factory=list)


@dataclass
class Unless:
    left: Any
    absent: Any
    duration: int
    filters: list[Any] = field(default_factory=list)


@dataclass
class Times:
    pattern: Any
    count: int
    filters: list[Any] = field(default_factory=list)


@dataclass
class Within:
    pattern: Any
    duration: int


@dataclass
class Where:
    pattern: Any
    conditions: tuple[Any, ...]
    filters: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Choice:
    name: str = "unrestricted"
    tie: str | None = None  # longest | shortest | by
    by: str | None = None


@dataclass
class Policy:
    pattern: Any
    choice: Choice


@dataclass
class Aggregate:
    pattern: Any
    results: tuple[tuple[str, str, bool, Any, Any], ...]  # variable, function, distinct, argument, parameter
    events: int | None
    duration: int | None
    by: tuple[str, ...]
    form: str = ""  # each, session, every
    step: int = 0  # their length
    origin: int = 0
    zone: str = ""
    filters: list[Any] = field(default_factory=list)


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
