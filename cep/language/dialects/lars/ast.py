"""The syntax tree of a LARS program: rules over windows, with their positions in the text.

The tree represents both notations, Ticker's files and Laser's rule strings. Ticks are whole numbers. Source: Beck,
Eiter and Folie, Ticker (2017), plain LARS programs, Definitions 1 to 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cep.core.errors import NOWHERE, Span
from cep.language.syntax import ast
from cep.rules.terms import Comparison, Expression, Graph

NOW, SOME, EVERY, AT = "now", "some", "every", "at"
"""Modalities of a literal. They say at which ticks its atom must be true.

- NOW: at the current tick. The literal has no window.
- SOME: at some tick of the window (`in`, ◇).
- EVERY: at every tick of the window (`always in`, □).
- AT: at the tick T of the window (`at T in`, @).
"""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A window over time, `[n]`. At the tick t it contains the n + 1 ticks from t - n to t, without those before the
    beginning of the stream.

    `step`: the window moves only every `step` ticks. Then t is the evaluation tick, rounded down to a multiple of
    `step`.
    """

    ticks: int
    step: int = 1
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class TupleWindow:
    """A window over tuples, `[n #]`: the n input atoms that arrived last.

    `atoms`: the number n. `by`: None if the window counts all input atoms. Otherwise it contains variables of the
    literal, and the window counts only atoms that have the literal's predicate and the same values of these variables.
    """

    atoms: int
    by: tuple[str, ...] | None = None
    span: Span = field(default=NOWHERE, compare=False)


Window = TimeWindow | TupleWindow


@dataclass(frozen=True, slots=True)
class LarsAtom:
    """An atom, `p(X, 1)` or `p`."""

    predicate: str
    arguments: tuple[Expression, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class LarsLiteral:
    """A literal, `not p(X) at T in [5 sec]`.

    - `modality`: NOW, SOME, EVERY or AT.
    - `tick`: for AT, the expression of the tick. If the expression is a variable, the literal binds it.
    - `window`: the literal's window. It is None for NOW. It is also None for `p at T` without a window, which reaches
      back to the first tick.
    """

    atom: LarsAtom
    modality: str = NOW
    tick: Expression | None = None
    window: Window | None = None
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


BodyLiteral = LarsLiteral | Comparison | Graph
"""An element of a rule's body. `S = T + 1` binds S if T is bound. A graph pattern queries the background knowledge."""


@dataclass(frozen=True, slots=True)
class LarsRule:
    """A rule, `head at T :- body.` `head`: the head, or None for a constraint. `tick`: the tick at which the head is
    derived, or None for the current tick."""

    head: LarsAtom | None
    tick: Expression | None
    body: tuple[BodyLiteral, ...]
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def is_fact(self) -> bool:
        """True if the rule has no body, so that its head holds at all ticks."""
        return self.head is not None and self.tick is None and not self.body


@dataclass(frozen=True, slots=True)
class LarsProgram:
    """A LARS program.

    - `tick`: the length of a tick in microseconds.
    - `declarations`: the statements `event`, `fact` and `PREFIX`.
    - `elsewhere`: if the program has several files, the names that this file declares and other files also
      declare or derive.
    - `derived_elsewhere`: the events that rules of other files derive.
    """

    rules: tuple[LarsRule, ...]
    declarations: tuple[ast.Statement, ...]
    tick: int
    elsewhere: frozenset[str] = frozenset()
    derived_elsewhere: frozenset[str] = frozenset()

    @property
    def derived(self) -> frozenset[str]:
        """The predicates that rules with a body derive. All other predicates are input or facts."""
        return frozenset(rule.head.predicate for rule in self.rules if rule.head is not None and not rule.is_fact)
