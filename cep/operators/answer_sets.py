"""Rules that are evaluated as an answer set program: what a solver is given of them, whatever solver that is.

A program of LARS whose negation goes in circles has no, one or several answer streams at a tick (Beck, Eiter, Folie,
*Ticker*, 2017, Definition 4). Its rules are text for the solver; what else they ask comes in as facts.
"""

from __future__ import annotations

from dataclasses import dataclass

from cep.core.errors import NOWHERE, Span
from cep.events import Iri, Value
from cep.rules.terms import Comparison, Expression


@dataclass(frozen=True, slots=True)
class DerivedPredicate:
    """One that the rules derive, in the solver's text `d0`, `d1`, ... `timed`: some rule puts it at ticks, so its atoms
    carry the tick as one more argument."""

    name: str
    arity: int
    timed: bool


@dataclass(frozen=True, slots=True)
class AskedWindow:
    """A time window over what the rules themselves derive, of `ticks` ticks before the last multiple of `step`."""

    ticks: int
    step: int

    def span(self, first: int, now: int) -> tuple[int, int]:
        """Its first and last tick at a tick; none where that is the other way round."""
        last = now // self.step * self.step
        return max(first, last - self.ticks), last


@dataclass(frozen=True, slots=True)
class Calculation:
    """What the rules calculate of values, in the solver's text `@c(number, ..)`: an expression, or whether a comparison
    is true. `ticks`: those of the variables that are ticks."""

    variables: tuple[str, ...]
    of: Expression | Comparison
    ticks: frozenset[str] = frozenset()
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class AnswerSetRules:
    """`text`: the rules. `inputs`: how many columns each relation has that they ask, `i0(..)`, `i1(..)`, ... in the
    text. `windows`: `w0(First, Last)` and so on, `n0` where the tick lies in one, `o0` where it is all of one; `now(N)`
    and `first(F)` are the tick and the first of the stream. `clocked`: whether the text asks these ticks."""

    text: str
    inputs: tuple[int, ...]
    derived: tuple[DerivedPredicate, ...]
    windows: tuple[AskedWindow, ...]
    calculations: tuple[Calculation, ...]
    clocked: bool

    @property
    def follows_ticks(self) -> bool:
        """Whether time alone changes what the rules say."""
        return self.clocked or bool(self.windows)


def symbol_text(value: Value) -> str:
    """A constant as the solver's text has it."""
    match value:
        case bool():
            return f"b({int(value)})"
        case int():
            return str(value) if abs(value) < 2**31 else f'l("{value}")'
        case float():
            return symbol_text(int(value)) if value.is_integer() else f'f("{value!r}")'
        case Iri():
            return f"r({_quoted(str(value))})"
        case _:
            return _quoted(str(value))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return f'"{escaped}"'
