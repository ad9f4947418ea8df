"""Answer set programs, in a form that does not depend on the solver.

At each tick, a LARS program that has a cycle through negation has no, one or several answer streams (Beck, Eiter,
Folie, *Ticker*, 2017, Definition 4). Its rules are text in the solver's syntax. The input relations that the rules read
are passed to the solver as facts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cep.core.errors import NOWHERE, Span
from cep.events import Iri, Value
from cep.rules.terms import Comparison, Expression


@dataclass(frozen=True, slots=True)
class DerivedPredicate:
    """A predicate that the rules derive. In the solver's text its name is `d0`, `d1`, and so on.

    `timed`: True if a rule derives the predicate for certain ticks. Its atoms then have the tick as an additional
    argument.
    """

    name: str
    arity: int
    timed: bool


@dataclass(frozen=True, slots=True)
class AskedWindow:
    """A time window over derived atoms. The window ends at the last multiple of `step` up to the current tick, and
    begins `ticks` ticks before its end."""

    ticks: int
    step: int

    def span(self, first: int, now: int) -> tuple[int, int]:
        """Return the first and the last tick of the window at the tick `now`. If the first tick is greater than the
        last, the window is empty.

        `first`: the first tick of the stream.
        """
        last = now // self.step * self.step
        return max(first, last - self.ticks), last


@dataclass(frozen=True, slots=True)
class Calculation:
    """An expression or comparison that the engine calculates for the solver: `@c(number, ..)` in the solver's text."""

    variables: tuple[str, ...]
    types: tuple[str, ...]
    of: Expression | Comparison
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AnswerSetKeys:
    """The key by which an answer set program splits. The solver evaluates the program separately for each value of the
    key.

    - `derived`: for each derived predicate, its key columns.
    - `inputs`: for each input relation, the key columns by which its facts are partitioned. It is None if the facts
      belong to every value of the key.
    """

    derived: tuple[tuple[int, ...], ...]
    inputs: tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class AnswerSetRules:
    """The rules of an answer set program.

    - `text`: the rules in the solver's syntax.
    - `inputs`: the number of columns of each input relation. In the text, the relations are `i0(..)`, `i1(..)`,
      and so on.
    - `windows`: the time windows. In the text, `w0(First, Last)` contains the first and last tick of window 0.
      `n0` is true if window 0 contains the current tick, and `o0` is true if it contains no other tick.
    - `clocked`: True if the text uses the current tick, `now(N)`, or the first tick of the stream, `first(F)`.
    - `keys`: the key by which the rules can be split, or None if there is none.
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
        """Return True if the answer sets can change as time passes, without new input."""
        return self.clocked or bool(self.windows)

    @property
    def tells(self) -> tuple[str, ...]:
        """The atoms that describe the windows in the solver's text, such as `n0` and `o0`. Which of them are true
        depends on the current tick."""
        return tuple(f"{letter}{number}" for number in range(len(self.windows)) for letter in "no")

    def told(self, first: int, now: int) -> frozenset[str]:
        """Return those atoms of `tells` that are true at the tick `now`. `first`: the first tick of the stream."""
        atoms = []
        for number, window in enumerate(self.windows):
            begins, ends = window.span(first, now)
            atoms += [f"n{number}"] if begins <= now <= ends else []
            atoms += [f"o{number}"] if begins == now == ends else []
        return frozenset(atoms)


@dataclass(frozen=True, slots=True)
class AnswerSetTables:
    """The layout of the solver's input rows and output rows. Relations share columns that have the same type.

    An input row contains the number of its relation, then values. An output row has four parts:

    - a number: 2 p for an atom of predicate p, 2 p + 1 for an atom of predicate p that holds at a certain tick, or
      `COUNTED` for the number of answer sets
    - the tick, or the number of answer sets
    - the number of the answer set, from 1, if the user wants all answer sets
    - the values

    Fields:

    - `asked_types`, `given_types`: the types of the columns for values, in input rows and output rows.
    - `asked`, `derived`: for each relation, the positions of its values among these columns.
    - `tick`: the length of a tick in microseconds.
    """

    asked_types: tuple[str, ...]
    asked: tuple[tuple[int, ...], ...]
    given_types: tuple[str, ...]
    derived: tuple[tuple[int, ...], ...]
    tick: int


COUNTED = -1
"""The number in the first column of an output row that contains the number of answer sets."""
GIVEN_FIRST = 3
"""The number of columns before the values in an output row."""


def symbol_text(value: Value) -> str:
    """Return the text of a constant in the solver's syntax."""
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
