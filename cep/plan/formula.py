"""Formulas that define fluents, `head WHILE formula`: the base class of their operators, and functions over trees.

A formula is a tree with the structure that the author wrote. Each operator has its own subclass in `cep/operators/`,
next to the pattern that it is lowered to (`cep.plan.pattern`). The language works on formulas through these methods and
names no operator.
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
"""Precedence of formulas. WHOLE is the weakest: the operator takes everything to its left. UNARY binds the tightest."""


class FluentLateness(Protocol):
    """The delays with which fluents and formulas become known. A formula computes its own delay from the delays of its
    parts."""

    @property
    def declared(self) -> Container[str]:
        """Return the names of fluents; all other names are events."""

    def late(self, name: str) -> int:
        """Return the delay in microseconds after which a fluent is known."""

    def late_of(self, formula: Formula) -> int:
        """Return the delay in microseconds after which a formula is known."""


class Lowering(Protocol):
    """Services for a formula while it is lowered to a pattern."""

    def late_of(self, formula: Formula, /) -> int:
        """Return the delay in microseconds after which a formula is known."""

    def error(self, message: str, span: Span, hint: str | None = None, code: str = "fluent") -> None:
        """Report a mistake."""

    def lowered(self, formula: Formula, keep: Names, outside: Names) -> Pattern:
        """Lower a part to a pattern that binds the part's variables in `keep`. `outside`: the names used around it."""

    def apart(self, parts: Sequence[Formula], make: Callable[[tuple[Formula, ...]], Formula]) -> list[Formula]:
        """Return the parts. In a recursion, the parts that are not on the cycle are combined into one by `make`."""

    def projected(self, pattern: Pattern, keep: Names, formula: Formula) -> Pattern:
        """Return the pattern of a formula with only the variables of `keep`."""

    def narrowed(self, pattern: Pattern, names: Iterable[str], late: int, span: Span) -> Pattern:
        """Return a pattern over these variables only. It holds while the given pattern holds for some values of the
        others."""

    def closed(self, pattern: Pattern, edge: str, formula: Formula) -> Pattern:
        """Return the pattern of a formula with one bound added to each of its intervals: the beginning or the end, as
        `edge` says."""

    def edges(self, name: str) -> str | None:
        """Return the table of a fluent's beginnings and ends, or None if the name is an event."""

    def conditions(self, conditions: Sequence[Condition]) -> tuple[Condition, ...]:
        """Return the conditions of a WHERE in the form in which they are evaluated."""

    def ask_knowledge(self, conditions: Sequence[Condition]) -> bool:
        """Return True if conditions query the knowledge."""


class Formula(ABC):
    """The base class of formulas. Subclasses are frozen dataclasses with the field `span`."""

    __slots__ = ()
    span: Span

    @abstractmethod
    def inside(self) -> tuple[Formula, ...]:
        """Return the formulas directly inside this one."""

    @abstractmethod
    def over(self, parts: tuple[Formula, ...]) -> Formula:
        """Return the same operator over other formulas."""

    def written(self) -> list[str]:
        """Return the variables that this operator itself mentions, with repetitions."""
        return []

    @abstractmethod
    def bound(self) -> Names:
        """Return the variables that the formula binds."""

    @abstractmethod
    def text(self) -> tuple[str, int]:
        """Return the text of the formula, and its precedence."""

    def late(self, lateness: FluentLateness) -> int:
        """Return the delay in microseconds after which the formula is known."""
        return max(map(lateness.late_of, self.inside()))

    def why_late(self) -> str | None:
        """Explain why the formula is known later than its parts, and what to write instead. None if it is not later."""
        return None

    def against_recursion(self, through: Callable[[Formula], bool]) -> list[tuple[str, Span, str]]:
        """Return why a cycle cannot pass through this formula, where, and what to write instead.

        `through`: a test that returns True if a part is on the cycle.
        """
        return []

    def spread(self) -> Formula:
        """Return an equivalent formula whose parts bind their own variables, instead of relying on another part
        (`And.spread`)."""
        inside = tuple(part.spread() for part in self.inside())
        return self.over(inside) if inside else self

    def loose(self) -> Names:
        """Return the variables that the formula uses but does not bind; the formula around it must bind them."""
        return frozenset()

    def tied(self) -> tuple[Formula, Formula | None]:
        """Split a formula with loose variables: the part that binds them, and the part that holds for any of their
        values."""
        raise AssertionError("it has no loose variables")

    def shifted(self, through: Callable[[Formula], bool]) -> Formula:
        """Return an equivalent formula that refers to formulas on a cycle (`through`) only by operators that shift
        time, or itself if none exists."""
        return self

    def ahead(self) -> str | None:
        """Return the operator's word if it looks ahead in time, else None."""
        return None

    def back(self) -> str | None:
        """Return the operator's word if it looks back in time, else None."""
        return None

    def asks_whole(self) -> list[tuple[Formula, str, Span]]:
        """Return the parts that the formula must know completely at a time, each with the reason and the position."""
        return []

    def looks_back(self) -> int:
        """Return the least number of microseconds by which the formula looks back on its parts; 0 if it may use the
        present."""
        return 0

    def long(self) -> tuple[Formula, int] | None:
        """Return the formula and the least length in microseconds if this operator selects maximal intervals by length,
        else None."""
        return None

    @abstractmethod
    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        """Lower the formula to a pattern that binds the formula's variables in `keep`. `outside`: the names used around
        it."""


class OverOne(Formula):
    """The base class of operators over one formula, the field `formula`."""

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
    """The base class of operators over several formulas, the field `parts`."""

    __slots__ = ()
    parts: tuple[Formula, ...]

    def inside(self) -> tuple[Formula, ...]:
        return self.parts

    def over(self, parts: tuple[Formula, ...]) -> Self:
        whole: Any = self
        return cast(Self, replace(whole, parts=parts))


# --- walks ---


def formulas(formula: Formula) -> list[Formula]:
    """Return a formula and all formulas inside it, in the order in which they are written."""
    return [formula, *(formula for part in formula.inside() for formula in formulas(part))]


def asked_now(formula: Formula) -> list[Formula]:
    """Return a formula and all formulas inside it on whose value at the same time its own value may depend."""
    inside = () if formula.looks_back() else formula.inside()
    return [formula, *(asked for part in inside for asked in asked_now(part))]


def formula_variables(formula: Formula) -> list[str]:
    """Return the names of the variables of a formula, with repetitions."""
    return [*(name for part in formula.inside() for name in formula_variables(part)), *formula.written()]


def asked(conditions: Sequence[Condition]) -> Names:
    """Return the variables of conditions."""
    return frozenset(name for condition in conditions for name in condition_variables(condition) if name != "_")


def print_formula(formula: Formula) -> str:
    """Return the text of a formula."""
    return formula.text()[0]


def placed(formula: Formula, place: int) -> str:
    """Return the text of a formula, in parentheses if its precedence is lower than `place` requires."""
    text, holds = formula.text()
    return text if holds >= place else f"({text})"
