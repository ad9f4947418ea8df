"""Formulas that define fluents, `head WHILE formula`: the base class of their operators, and functions over formulas.

A formula is a tree that has the structure of the author's text. Each operator has its own subclass in `cep/operators/`,
next to the pattern to which it is lowered (see `cep.plan.pattern`). The code of the language only calls the methods of
this module, and names no operator.
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
"""Precedence of formulas, from weakest to strongest. WHOLE: the operand of the operator is the whole formula to its
left."""


class FluentLateness(Protocol):
    """The delay after which the values of each fluent and each formula are known. A formula computes its own delay from
    the delays of its parts."""

    @property
    def declared(self) -> Container[str]:
        """The names of the program's fluents. All other names are events."""

    def late(self, name: str) -> int:
        """Return the delay of a fluent: its value at a time is known this many microseconds later."""

    def late_of(self, formula: Formula) -> int:
        """Return the delay of a formula: its value at a time is known this many microseconds later."""


class Lowering(Protocol):
    """The methods that a formula can call while it is lowered to a pattern."""

    def late_of(self, formula: Formula, /) -> int:
        """Return the delay of a formula: its value at a time is known this many microseconds later."""

    def error(self, message: str, span: Span, hint: str | None = None, code: str = "fluent") -> None:
        """Report a mistake."""

    def lowered(self, formula: Formula, keep: Names, outside: Names) -> Pattern:
        """Lower a formula to a pattern.

        `keep`: the variables of the formula that the pattern must bind. `outside`: the variables that the rest of the
        rule uses.
        """

    def apart(self, parts: Sequence[Formula], make: Callable[[tuple[Formula, ...]], Formula]) -> list[Formula]:
        """Return `parts`, the parts of a formula. In a recursive rule, first combine all parts that use no fluent of
        the rule's cycle into one part.

        `make`: a function that combines several parts into one formula.
        """

    def projected(self, pattern: Pattern, keep: Names, formula: Formula) -> Pattern:
        """Return a formula's pattern, reduced to the variables in `keep`."""

    def narrowed(self, pattern: Pattern, names: Iterable[str], late: int, span: Span) -> Pattern:
        """Return a pattern that has only the variables `names`. It holds whenever `pattern` holds for some values of
        the other variables.

        `late`: the delay of the new pattern in microseconds.
        """

    def closed(self, pattern: Pattern, edge: str, formula: Formula) -> Pattern:
        """Return a copy of `pattern` whose intervals also contain the instant at which they begin or end.

        `edge`: `begin` or `end`, to select this instant. `formula`: the formula from which `pattern` was lowered.
        """

    def edges(self, name: str) -> str | None:
        """Return the table of the beginnings and ends of the fluent `name`. Return None if `name` is an event."""

    def conditions(self, conditions: Sequence[Condition]) -> tuple[Condition, ...]:
        """Lower the conditions of a WHERE."""

    def ask_knowledge(self, conditions: Sequence[Condition]) -> bool:
        """Return True if at least one condition queries the background knowledge."""


class Formula(ABC):
    """The base class of formulas. Subclasses are frozen dataclasses with the field `span`."""

    __slots__ = ()
    span: Span

    @abstractmethod
    def inside(self) -> tuple[Formula, ...]:
        """Return the formulas directly inside this one."""

    @abstractmethod
    def over(self, parts: tuple[Formula, ...]) -> Formula:
        """Return a copy of the formula that has `parts` instead of its own parts."""

    def written(self) -> list[str]:
        """Return the variables that this operator itself mentions, outside its parts. A variable can occur several
        times."""
        return []

    @abstractmethod
    def bound(self) -> Names:
        """Return the variables that the formula binds."""

    @abstractmethod
    def text(self) -> tuple[str, int]:
        """Return the text of the formula, and its precedence."""

    def late(self, lateness: FluentLateness) -> int:
        """Return the delay of the formula: its value at a time is known this many microseconds later."""
        return max(map(lateness.late_of, self.inside()))

    def why_late(self) -> str | None:
        """Explain why the formula has a longer delay than its parts, and what to write instead. Return None if its
        delay is not longer."""
        return None

    def against_recursion(self, through: Callable[[Formula], bool]) -> list[tuple[str, Span, str]]:
        """Explain why a cycle cannot pass through this formula. Return one item per reason: the reason, the position,
        and what to write instead.

        `through`: a function that returns True if a part is on the cycle.
        """
        return []

    def spread(self) -> Formula:
        """Return an equivalent formula in which no part needs a variable that only another part binds."""
        inside = tuple(part.spread() for part in self.inside())
        return self.over(inside) if inside else self

    def loose(self) -> Names:
        """Return the variables that the formula uses but does not bind. The formula that contains it must bind them."""
        return frozenset()

    def tied(self) -> tuple[Formula, Formula | None]:
        """Split a formula that uses variables which it does not bind (`loose`).

        Returns two formulas, which the caller joins by OR. The first one binds these variables. The second one holds
        for any of their values, or is None if the first one is enough.
        """
        raise AssertionError("it has no loose variables")

    def shifted(self, through: Callable[[Formula], bool]) -> Formula:
        """Return an equivalent formula that uses the formulas of a cycle only through operators that shift time. At a
        time, it then only depends on earlier or later values of these formulas.

        If there is no such formula, return this formula. `through`: a function that returns True if a formula is on the
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
        """Return the parts whose results at a time must be complete before the formula can be evaluated at this time.
        With each part, return the word and the position of the operator."""
        return []

    def looks_back(self) -> int:
        """Return the least distance in microseconds by which the formula looks back at its parts. Return 0 if it may
        use their current value."""
        return 0

    def long(self) -> tuple[Formula, int] | None:
        """If this operator selects maximal intervals by their length, return its part and the least length in
        microseconds. Otherwise return None."""
        return None

    @abstractmethod
    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        """Lower a formula to a pattern.

        `keep`: the variables of the formula that the pattern must bind. `outside`: the variables that the rest of the
        rule uses.
        """


class OverOne(Formula):
    """The base class of operators that have one part, which is the field `formula`."""

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
    """The base class of operators that have several parts, which are the field `parts`."""

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
    """Return `formula`, and each formula inside it whose current value can affect the current value of `formula`.

    An operator that looks back by a minimum time hides the formulas inside it.
    """
    inside = () if formula.looks_back() else formula.inside()
    return [formula, *(asked for part in inside for asked in asked_now(part))]


def formula_variables(formula: Formula) -> list[str]:
    """Return the names of the variables of a formula. A name can occur several times."""
    return [*(name for part in formula.inside() for name in formula_variables(part)), *formula.written()]


def asked(conditions: Sequence[Condition]) -> Names:
    return frozenset(name for condition in conditions for name in condition_variables(condition) if name != "_")


def print_formula(formula: Formula) -> str:
    return formula.text()[0]


def placed(formula: Formula, place: int) -> str:
    """Return the text of a formula, in parentheses if its precedence is lower than `place`."""
    text, holds = formula.text()
    return text if holds >= place else f"({text})"
