"""Formulas of defined fluents, `head WHILE formula`: what every operator says of itself, and the walks that ask it.

A formula is a tree as it is written. Each operator has a class of them in `cep/operators/`, beside the pattern that it
is lowered to (`cep.plan.pattern`). The language folds over formulas and names no operator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

from cep.core.errors import Span
from cep.rules.terms import Condition, condition_variables

if TYPE_CHECKING:
    from cep.plan.pattern import Pattern

Names = frozenset[str]

WHOLE, OR, AND, BETWEEN, UNARY = range(5)
"""How tightly a formula holds together: what takes all to its left, least; what stands before one formula, most."""


class FluentLateness(Protocol):
    """How late fluents and formulas are given, in microseconds: what a formula asks for its own."""

    @property
    def declared(self) -> Container[str]:
        """The names of fluents; others are events."""

    def late(self, name: str) -> int:
        """Return how late a fluent is known, in microseconds."""

    def late_of(self, formula: Formula) -> int:
        """Return how late a formula is known, in microseconds."""


class Lowering(Protocol):
    """Services for a formula while it becomes a pattern."""

    def late_of(self, formula: Formula, /) -> int:
        """How late a formula is given, in microseconds."""

    def error(self, message: str, span: Span, hint: str | None = None, code: str = "fluent") -> None:
        """Report a mistake."""

    def lowered(self, formula: Formula, keep: Names, outside: Names) -> Pattern:
        """A part as a pattern that binds of its variables those to `keep`. `outside`: the names used around it."""

    def apart(self, parts: Sequence[Formula], make: Callable[[tuple[Formula, ...]], Formula]) -> list[Formula]:
        """The parts, in a recursion those that are not of the cycle as one."""

    def projected(self, pattern: Pattern, keep: Names, formula: Formula) -> Pattern:
        """The pattern of a formula with these variables alone."""

    def narrowed(self, pattern: Pattern, names: Iterable[str], late: int, span: Span) -> Pattern:
        """Return a pattern over these variables that holds while the given one does for some values of the others."""

    def closed(self, pattern: Pattern, edge: str, formula: Formula) -> Pattern:
        """The pattern of a formula with the ends at which it begins, or ends, as if they belonged to it."""

    def edges(self, name: str) -> str | None:
        """The table that says when a fluent begins and ends; None: it is an event."""

    def conditions(self, conditions: Sequence[Condition]) -> tuple[Condition, ...]:
        """The conditions of a WHERE as they are asked."""

    def ask_knowledge(self, conditions: Sequence[Condition]) -> bool:
        """Return True if conditions use the knowledge."""


class Formula(ABC):
    """A formula of some operator: a frozen dataclass with the field `span`."""

    __slots__ = ()
    span: Span

    @abstractmethod
    def inside(self) -> tuple[Formula, ...]:
        """The formulas directly inside it."""

    @abstractmethod
    def over(self, parts: tuple[Formula, ...]) -> Formula:
        """The same over other formulas."""

    def written(self) -> list[str]:
        """The variables written on it itself, with repetitions."""
        return []

    @abstractmethod
    def bound(self) -> Names:
        """The variables that it has values for."""

    @abstractmethod
    def text(self) -> tuple[str, int]:
        """The formula as it is read, and how tightly it holds together."""

    def late(self, lateness: FluentLateness) -> int:
        """How late it is given, in microseconds."""
        return max(map(lateness.late_of, self.inside()))

    def why_late(self) -> str | None:
        """Why it is given later than what is inside it, and what to write instead; None: it is not."""
        return None

    def against_recursion(self, through: Callable[[Formula], bool]) -> list[tuple[str, Span, str]]:
        """Why a cycle cannot go through it, where, and what to write instead. `through`: whether a part is on it."""
        return []

    def spread(self) -> Formula:
        """The same, where variables that only a part around one has are brought into it (`And.spread`)."""
        inside = tuple(part.spread() for part in self.inside())
        return self.over(inside) if inside else self

    def loose(self) -> Names:
        """The variables that it does not bind, and asks of what is around it."""
        return frozenset()

    def tied(self) -> tuple[Formula, Formula | None]:
        """For a formula with loose variables, return the part that binds them, and the part that holds for any of their
        values."""
        raise AssertionError("it has no loose variables")

    def shifted(self, through: Callable[[Formula], bool]) -> Formula:
        """Return an equivalent formula that refers to formulas on a cycle (`through`) only by operators that shift
        time; itself if there is none."""
        return self

    def ahead(self) -> str | None:
        """Its word, where it looks ahead in time for what is inside it."""
        return None

    def back(self) -> str | None:
        """Its word, where it looks back."""
        return None

    def asks_whole(self) -> list[tuple[Formula, str, Span]]:
        """The parts of which it must know all that holds at a time, and not only some, each with why and where."""
        return []

    def looks_back(self) -> int:
        """By how many microseconds at least it looks back on what is inside it; 0: it may ask what holds now."""
        return 0

    def long(self) -> tuple[Formula, int] | None:
        """The formula of whose maximal intervals it is those of a least length, in microseconds; None: it is not."""
        return None

    @abstractmethod
    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        """A pattern that binds of its variables those to `keep`. `outside`: the names used around it."""


class OverOne(Formula):
    """An operator over one formula, which is its field `formula`."""

    __slots__ = ()
    formula: Formula

    def inside(self) -> tuple[Formula, ...]:
        return (self.formula,)

    def over(self, parts: tuple[Formula, ...]) -> Self:
        whole: Any = self
        return cast(Self, replace(whole, formula=parts[0]))

    def bound(self) -> Names:
        return self.formula.bound()


class OverSeveral(Formula):
    """An operator over several, which are its field `parts`."""

    __slots__ = ()
    parts: tuple[Formula, ...]

    def inside(self) -> tuple[Formula, ...]:
        return self.parts

    def over(self, parts: tuple[Formula, ...]) -> Self:
        whole: Any = self
        return cast(Self, replace(whole, parts=parts))


# --- walks ---


def formulas(formula: Formula) -> list[Formula]:
    """A formula and all inside it, as written."""
    return [formula, *(each for part in formula.inside() for each in formulas(part))]


def asked_now(formula: Formula) -> list[Formula]:
    """A formula and of those inside it all that it may ask of the same time."""
    inside = () if formula.looks_back() else formula.inside()
    return [formula, *(each for part in inside for each in asked_now(part))]


def formula_variables(formula: Formula) -> list[str]:
    """Names of the variables of a formula, with repetitions."""
    return [*(name for part in formula.inside() for name in formula_variables(part)), *formula.written()]


def asked(conditions: Sequence[Condition]) -> Names:
    """The variables of conditions."""
    return frozenset(name for each in conditions for name in condition_variables(each) if name != "_")


def print_formula(formula: Formula) -> str:
    """The formula as it is read."""
    return formula.text()[0]


def placed(formula: Formula, place: int) -> str:
    """The text, in parentheses where it holds together less than its place asks for."""
    text, holds = formula.text()
    return text if holds >= place else f"({text})"
