"""Formulas that define fluents, `head WHILE formula`: the base class of their operators, and functions over formulas.

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
"""Precedence of formulas, from weakest to strongest. WHOLE: the operator takes everything to its left."""


class FluentLateness(Protocol):
    """The delays after which fluents and formulas are known. A formula computes its own delay from the delays of its
    parts."""

    @property
    def declared(self) -> Container[str]:
        """The names of fluents. All other names are events."""

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
        """Lower a formula to a pattern.

        `keep`: the variables of the formula that the pattern must bind. `outside`: the names that are used around the
        formula.
        """

    def apart(self, parts: Sequence[Formula], make: Callable[[tuple[Formula, ...]], Formula]) -> list[Formula]:
        """Return the parts of a formula. In a recursion, combine all parts that are not on the cycle into one.

        `make`: a function that combines parts.
        """

    def projected(self, pattern: Pattern, keep: Names, formula: Formula) -> Pattern:
        """Return a formula's pattern, reduced to the variables in `keep`."""

    def narrowed(self, pattern: Pattern, names: Iterable[str], late: int, span: Span) -> Pattern:
        """Return a pattern that has only the variables `names`. It holds whenever `pattern` holds for some values of
        the other variables.

        `late`: the delay in microseconds after which the pattern is known.
        """

    def closed(self, pattern: Pattern, edge: str, formula: Formula) -> Pattern:
        """Return a formula's pattern with one bound added to each interval. `edge`: the beginning or the end."""

    def edges(self, name: str) -> str | None:
        """Return the table of a fluent's beginnings and ends, or None if the name is an event."""

    def conditions(self, conditions: Sequence[Condition]) -> tuple[Condition, ...]:
        """Return the conditions of a WHERE in the form in which they are evaluated."""

    def ask_knowledge(self, conditions: Sequence[Condition]) -> bool:
        """Return True if at least one condition queries the knowledge."""


class Formula(ABC):
    """The base class of formulas. Subclasses are frozen dataclasses with the field `span`."""

    __slots__ = ()
    span: Span

    @abstractmethod
    def inside(self) -> tuple[Formula, ...]:
        """Return the formulas directly inside this one."""

    @abstractmethod
    def over(self, parts: tuple[Formula, ...]) -> Formula:
        """Return a formula that has the same operator and these parts."""

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
        """Explain why the formula is known later than its parts, and what to write instead. Return None if it is not
        later."""
        return None

    def against_recursion(self, through: Callable[[Formula], bool]) -> list[tuple[str, Span, str]]:
        """Explain why a cycle cannot pass through this formula.

        Each item has the reason, the position, and what to write instead. `through`: a function that returns True if a
        part is on the cycle.
        """
        return []

    def spread(self) -> Formula:
        """Return an equivalent formula in which each part binds its own variables and relies on no other part
        (`And.spread`)."""
        inside = tuple(part.spread() for part in self.inside())
        return self.over(inside) if inside else self

    def loose(self) -> Names:
        """Return the variables that the formula uses but does not bind. The formula around it must bind them."""
        return frozenset()

    def tied(self) -> tuple[Formula, Formula | None]:
        """Split a formula that has loose variables (`loose`).

        Returns the part that binds them, and the part that holds for any of their values, or None.
        """
        raise AssertionError("it has no loose variables")

    def shifted(self, through: Callable[[Formula], bool]) -> Formula:
        """Return an equivalent formula that refers to formulas on a cycle only through operators that shift time.

        Return the formula itself if there is none. `through`: a function that returns True if a formula is on the
        cycle.
        """
        return self

    def ahead(self) -> str | None:
        """Return the operator's word if it looks ahead in time, otherwise None."""
        return None

    def back(self) -> str | None:
        """Return the operator's word if it looks back in time, otherwise None."""
        return None

    def asks_whole(self) -> list[tuple[Formula, str, Span]]:
        """Return the parts whose results the formula needs completely at a time, each with the reason and the
        position."""
        return []

    def looks_back(self) -> int:
        """Return the least time in microseconds by which the formula looks back on its parts. 0: it may use their
        present value."""
        return 0

    def long(self) -> tuple[Formula, int] | None:
        """Return the formula and the least length in microseconds, if this operator selects maximal intervals by
        length. Otherwise return None."""
        return None

    @abstractmethod
    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        """Lower a formula to a pattern.

        `keep`: the variables of the formula that the pattern must bind. `outside`: the names that are used around the
        formula.
        """


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
    """Return a formula, and all formulas inside it that can affect its value without a delay.

    Formulas inside an operator that looks back by a minimum time are left out.
    """
    inside = () if formula.looks_back() else formula.inside()
    return [formula, *(asked for part in inside for asked in asked_now(part))]


def formula_variables(formula: Formula) -> list[str]:
    """Return the names of the variables of a formula, with repetitions."""
    return [*(name for part in formula.inside() for name in formula_variables(part)), *formula.written()]


def asked(conditions: Sequence[Condition]) -> Names:
    """Return the names of the variables that conditions use."""
    return frozenset(name for condition in conditions for name in condition_variables(condition) if name != "_")


def print_formula(formula: Formula) -> str:
    """Return the text of a formula."""
    return formula.text()[0]


def placed(formula: Formula, place: int) -> str:
    """Return the text of a formula, in parentheses if its precedence is lower than `place`."""
    text, holds = formula.text()
    return text if holds >= place else f"({text})"
