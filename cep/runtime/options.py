"""The options of an engine, declared here for Python, the command line and Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from cep.core.time import FARTHEST

if TYPE_CHECKING:
    from cep.runtime.prior_state import PriorState

MOST_DERIVATIONS = 1_000_000
"""The default limit of events that a recursion may derive at one instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """`lateness`: microseconds, None: only `advance` moves the watermark. `lateness_by`: an attribute, for each value
    of which lateness is judged by its own latest time (`cep.runtime.key_clocks`); None: by that of all.

    `explain`: lineage is given; `remember`: for `cep.explain`, keep what ended in the last so many microseconds, and
    what led to it.

    `fast_recursion`: linear recursion runs in a kernel of its own; `max_derivations`: how many events a recursion may
    derive at one instant.

    `stage`: of the stages of `cep.plan.partition` run this one alone, from 1 (`cep.runtime.buckets` says how its rows
    come and go), 0: the ALERT statements alone, over what was derived.

    `before`: the state of another program, of which it takes over that of the goals that mean the same.

    `changes`: of fluents each beginning and end is given when it is known (columns `@edge`, `time`, the attributes,
    `bounds`), and not their intervals; `begins`: besides their intervals each is given when it begins, without an end,
    unless it ends in the same step.

    `until`: at the end of the input a recursion that never ends goes on to this time (microseconds), None: to the
    latest of the input. `start`: one that goes back goes back to this time, None: to the first of the input.

    `revise`: input may come, be corrected or withdrawn up to so many microseconds behind the watermark, and results
    come at once and are put right (`cep.runtime.revision`); None: what is given is final. `final`: only what is
    final is given, so much later. `corrected`: the input has been corrected, so that nobody looks at a KEY.

    Raises ValueError for a lateness that is none, and for a `revise` or `changes` that does not go with the
    others.
    """

    lateness: int | None = 0
    explain: bool = False
    remember: int | None = None
    fast_recursion: bool = True
    max_derivations: int = MOST_DERIVATIONS
    stage: int | None = None
    before: PriorState | None = None
    changes: bool = False
    begins: bool = False
    until: int | None = None
    start: int | None = None
    revise: int | None = None
    final: bool = False
    corrected: bool = False
    lateness_by: str | None = None

    def __post_init__(self) -> None:
        if self.lateness is not None and not 0 <= self.lateness <= FARTHEST:
            raise ValueError("lateness is 0 to 2**60 microseconds; None: only `advance` moves the time")
        if self.changes and self.begins:
            raise ValueError("either `changes`, when fluents begin and end, or `begins`, which gives intervals as well")
        if self.revise is None:
            if self.final:
                raise ValueError("`final` is of what is revised: with `revise`, how old that may be")
            return
        if not 0 <= self.revise <= FARTHEST:
            raise ValueError("revise is 0 to 2**60 microseconds")


class UntimedEngineKeywords(TypedDict, total=False):
    """Those of `EngineKeywords` but `lateness` and `revise`, which some take as texts."""

    explain: bool
    remember: int | None
    fast_recursion: bool
    max_derivations: int
    stage: int | None
    before: PriorState | None
    changes: bool
    begins: bool
    until: int | None
    start: int | None
    final: bool
    corrected: bool
    lateness_by: str | None


class EngineKeywords(UntimedEngineKeywords, total=False):
    """The fields of `EngineOptions` as keyword arguments, for type checkers."""

    lateness: int | None
    revise: int | None
