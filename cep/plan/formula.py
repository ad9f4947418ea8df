"""Formulas of defined fluents, `head WHILE formula`: what every operator says of itself, and the walks that ask it.

A formula is a tree as it is written. Each operator has a class of them in `cep/operators/`, beside the pattern that it
is lowered to (`cep.plan.pattern`). The language folds over formulas and names no operator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

from cep.core.errors import Span
from cep.rules.terms import Condition, condition_variables

if TYPE_CHECKING:
    from cep.language.formula_lowering import FormulaLowering
    from cep.language.lateness import Lateness
    from cep.plan.pattern import Pattern

Names = frozenset[str]

WHOLE, OR, AND, BETWEEN, UNARY = range(5)
"""How tightly a formula holds together: what takes all to its left, least; what stands before one formula, most."""


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

    def late(self, lateness: Lateness) -> int:
        """How late it is given, in microseconds."""
        return max(map(lateness.late_of, self.inside()))

    def why_late(self) -> str | None:
        """Why it is given later than what is inside it, and what to write instead; None: it is not."""
        return None

    def against_recursion(self, through: Callable[[Formula], bool]) -> list[tuple[str, Span, str]]:
        """Why a cycle cannot go through it, where, and what to write instead. `through`: whether a part is on it."""
        return []

    def long(self) -> tuple[Formula, int] | None:
        """The formula of whose maximal intervals it is those of a least length, in microseconds; None: it is not."""
        return None

    @abstractmethod
    def lowered(self, lowering: FormulaLowering, keep: Names, outside: Names) -> Pattern:
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
