"""The tree of a LARS program: rules over windows, as they are written, with positions.

Both notations, Ticker's files and Laser's rule strings, are read to it. Ticks are whole numbers. Source: Beck, Eiter
and Folie, Ticker (2017), plain LARS programs, Definitions 1 to 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cep.core.errors import NOWHERE, Span
from cep.language.syntax import ast
from cep.rules.terms import Comparison, Expression, Graph

NOW, SOME, EVERY, AT = "now", "some", "every", "at"
"""Modalities of an atom: it holds now (without a window), at some tick of the window (`in`, ◇), at every tick of it
(`always in`, □), at a tick that is given or found (`at T in`, @)."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """`[n]`: the ticks from t - n to t, n + 1 of them, or fewer near the first tick of the stream. `step`: what t is
    counted as: the last multiple of it."""

    ticks: int
    step: int = 1
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class TupleWindow:
    """`[n #]`: the last `atoms` input atoms by arrival. `by`: of those of the literal's predicate that have its values
    of these variables; None: of all predicates."""

    atoms: int
    by: tuple[str, ...] | None = None
    span: Span = field(default=NOWHERE, compare=False)


Window = TimeWindow | TupleWindow


@dataclass(frozen=True, slots=True)
class LarsAtom:
    """`p(X, 1)`; `p` has no arguments."""

    predicate: str
    arguments: tuple[Expression, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class LarsLiteral:
    """`not p(X) at T in [5 sec]`. `modality`: NOW, SOME, EVERY or AT; `at`: the tick of AT, an expression over
    variables; a variable that nothing else binds is bound by it. `window`: None with NOW, and with `p at T`, which asks
    all ticks from the first on."""

    atom: LarsAtom
    modality: str = NOW
    at: Expression | None = None
    window: Window | None = None
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


BodyLiteral = LarsLiteral | Comparison | Graph
"""`S = T + 1` binds S where T is bound; a graph pattern asks the background knowledge."""


@dataclass(frozen=True, slots=True)
class LarsRule:
    """`head at T :- body.` `head`: None of a constraint; `at`: None, or the tick at which the head is put."""

    head: LarsAtom | None
    at: Expression | None
    body: tuple[BodyLiteral, ...]
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def is_fact(self) -> bool:
        """True if it holds at all ticks."""
        return self.head is not None and self.at is None and not self.body


@dataclass(frozen=True, slots=True)
class LarsProgram:
    """`tick`: microseconds of one; `declarations`: what `event`, `prefix` and the like say, in our own syntax.

    Of a program of several files, `elsewhere`: what others declare or derive of that; `made`: the events that rules of
    others derive.
    """

    rules: tuple[LarsRule, ...]
    declarations: tuple[ast.Statement, ...]
    tick: int
    elsewhere: frozenset[str] = frozenset()
    made: frozenset[str] = frozenset()

    @property
    def derived(self) -> frozenset[str]:
        """The predicates of rule heads that are no facts; others come in, or are given."""
        return frozenset(each.head.predicate for each in self.rules if each.head is not None and not each.is_fact)
