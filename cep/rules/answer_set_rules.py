"""Answer set programs in the form that any solver can evaluate.

A LARS program with a cycle through negation has no, one or several answer streams at a tick (Beck, Eiter, Folie,
*Ticker*, 2017, Definition 4). Its rules are text for the solver. The other relations that they read are passed as
facts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cep.core.errors import NOWHERE, Span
from cep.events import Iri, Value
from cep.rules.terms import Comparison, Expression


@dataclass(frozen=True, slots=True)
class DerivedPredicate:
    """A predicate that the rules derive, `d0`, `d1`, ... in the solver's text.

    `timed`: a rule derives it for ticks, so its atoms have the tick as an additional argument.
    """

    name: str
    arity: int
    timed: bool


@dataclass(frozen=True, slots=True)
class AskedWindow:
    """A time window over derived atoms, from `ticks` ticks before the last multiple of `step` up to that multiple."""

    ticks: int
    step: int

    def span(self, first: int, now: int) -> tuple[int, int]:
        """Return the window's first and last tick at the tick `now`. If the first is greater, the window is empty."""
        last = now // self.step * self.step
        return max(first, last - self.ticks), last


@dataclass(frozen=True, slots=True)
class Calculation:
    """A calculation, `@c(number, ..)` in the solver's text. It is an expression, or the truth of a comparison.

    `types`: the types of its variables.
    """

    variables: tuple[str, ...]
    types: tuple[str, ...]
    of: Expression | Comparison
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AnswerSetKeys:
    """The columns of a key. The solver evaluates each value of the key separately.

    `derived`: the key columns of each derived predicate. `inputs`: the key columns of each input, by which its facts
    are partitioned; None: the facts belong to every value of the key.
    """

    derived: tuple[tuple[int, ...], ...]
    inputs: tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class AnswerSetRules:
    """The rules of a program.

    `text`: the rules in the solver's syntax. `inputs`: the number of columns of each input relation, `i0(..)`, `i1(..)`
    etc. in the text. `windows`: in the text, `w0(First, Last)` are the ends of window 0. `n0` is true if window 0
    contains the current tick, and `o0` if it contains no other tick. `clocked`: the text uses the current tick `now(N)`
    or the stream's first tick `first(F)`. `keys`: the key by which the rules can be split, or None.
    """

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
        """The atoms without arguments that depend on the current tick."""
        return tuple(f"{letter}{number}" for number in range(len(self.windows)) for letter in "no")

    def told(self, first: int, now: int) -> frozenset[str]:
        """Return the atoms about windows, such as `n0` and `o0`, that are true at the tick `now` of a stream that began
        at `first`."""
        atoms = []
        for number, window in enumerate(self.windows):
            begins, ends = window.span(first, now)
            atoms += [f"n{number}"] if begins <= now <= ends else []
            atoms += [f"o{number}"] if begins == now == ends else []
        return frozenset(atoms)


@dataclass(frozen=True, slots=True)
class AnswerSetTables:
    """The layout of the solver's input rows and output rows. Relations use the same columns for values of the same
    type.

    An input row has the number of its relation, then values. `asked_types`: the types of the columns of values.
    `asked`: for each relation, the places of its values among these columns. An output row has four parts:

    - a number: 2 p for an atom of predicate p, 2 p + 1 for its atom at a tick, or `COUNTED` for the count of answer
      sets
    - the tick, or the count
    - the number of the answer set, from 1, if all are wanted
    - the values, with `given_types` and `derived` as for input rows

    `tick`: the length of a tick in microseconds.
    """

    asked_types: tuple[str, ...]
    asked: tuple[tuple[int, ...], ...]
    given_types: tuple[str, ...]
    derived: tuple[tuple[int, ...], ...]
    tick: int


COUNTED = -1
"""The first number of an output row that contains the count of answer sets."""
GIVEN_FIRST = 3
"""The number of columns before the values in an output row."""


def symbol_text(value: Value) -> str:
    """Return a constant in the solver's syntax."""
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
