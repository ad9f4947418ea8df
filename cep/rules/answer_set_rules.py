"""Rules that are evaluated as an answer set program: what a solver is given of them, whatever solver that is.

A program of LARS whose negation goes in circles has no, one or several answer streams at a tick (Beck, Eiter, Folie,
*Ticker*, 2017, Definition 4). Its rules are text for the solver; what else they ask comes in as facts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
    """A calculation of the rules, `@c(number, ..)` in the solver's text: an expression, or the truth of a comparison.

    `types`: of its variables.
    """

    variables: tuple[str, ...]
    types: tuple[str, ...]
    of: Expression | Comparison
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AnswerSetKeys:
    """The columns of a key, of which each value is answered by itself: of each derived predicate, and of each input
    those by which its facts are dealt to the values; None: they belong to all."""

    derived: tuple[tuple[int, ...], ...]
    inputs: tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class AnswerSetRules:
    """`text`: the rules. `inputs`: how many columns each relation has that they ask, `i0(..)`, `i1(..)`, ... in the
    text. `windows`: `w0(First, Last)` and so on, `n0` where the tick lies in one, `o0` where it is all of one; `now(N)`
    and `first(F)` are the tick and the first of the stream. `clocked`: whether the text asks these ticks. `keys`: what
    keeps the rules apart, None: nothing."""

    text: str
    inputs: tuple[int, ...]
    derived: tuple[DerivedPredicate, ...]
    windows: tuple[AskedWindow, ...]
    calculations: tuple[Calculation, ...]
    clocked: bool
    keys: AnswerSetKeys | None = field(default=None, compare=False)

    @property
    def follows_ticks(self) -> bool:
        """Return True if the passing of time alone changes the answers."""
        return self.clocked or bool(self.windows)

    @property
    def tells(self) -> tuple[str, ...]:
        """The atoms without arguments that are about the tick."""
        return tuple(f"{letter}{number}" for number in range(len(self.windows)) for letter in "no")

    def told(self, first: int, now: int) -> frozenset[str]:
        """Return the atoms that are true at a tick of a stream that began at `first`."""
        found = []
        for number, window in enumerate(self.windows):
            begins, ends = window.span(first, now)
            found += [f"n{number}"] if begins <= now <= ends else []
            found += [f"o{number}"] if begins == now == ends else []
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class AnswerSetTables:
    """The layout of the rows that are read and written. A row that is asked has the number of its input, then places by
    type (`asked_types`): of each input (`asked`) those of its columns. A row that is given has a number, twice that of
    its predicate, one more of an atom at a tick, or that of a count of answer sets (`COUNTED`); the tick, or the count;
    the number of the answer set, from 1 on, where all are given; and then places likewise. `tick`: microseconds."""

    asked_types: tuple[str, ...]
    asked: tuple[tuple[int, ...], ...]
    given_types: tuple[str, ...]
    given: tuple[tuple[int, ...], ...]
    tick: int


COUNTED = -1
"""The number of the row that says how many answer sets there are."""
GIVEN_FIRST = 3
"""The number of columns of an input row before its places."""


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
