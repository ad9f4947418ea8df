"""The options of an engine. Python, the command line and Spark all use this declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from cep.core.time import FARTHEST

if TYPE_CHECKING:
    from cep.runtime.prior_state import PriorState

MOST_DERIVATIONS = 1_000_000
"""The default limit for the number of events that a recursion may derive at one instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """The options of an engine.

    - `lateness`: how far out of order input may arrive, in microseconds. If it is None, only `advance` moves the
      watermark.
    - `lateness_by`: an attribute whose values have separate clocks, which decide which rows are late (see
      `cep.runtime.key_clocks`). If it is None, there is one clock for all input.
    - `explain`: True to add lineage to the output.
    - `remember`: for `cep.explain`, keep everything that ended in the last `remember` microseconds, and its lineage.
    - `fast_recursion`: True to run linear recursion in a specialized compiled kernel.
    - `max_derivations`: how many events a recursion may derive at one instant.
    - `stage`: the only stage of `cep.plan.partition` to run, counted from 1 (see `cep.runtime.buckets`). With 0, the
      engine runs only the ALERT statements, over derived events.
    - `before`: the state of another program. Goals with the same meaning continue from it.
    - `changes`: True to output each beginning and end of a fluent when it becomes known, instead of intervals. The
      columns are `@edge`, `time`, the attributes and `bounds`.
    - `begins`: True to output an interval also when it begins, without an end. An interval that ends in the same step
      is output only once.
    - `until`: the time in microseconds up to which endless recursion runs at the end of the input. By default, this is
      the latest time of the input.
    - `start`: the time in microseconds down to which endless recursion into the past runs. By default, this is the
      first time of the input.
    - `revise`: how far behind the watermark records may still arrive, be corrected or be withdrawn, in microseconds.
      Results are output at once and corrected later (see `cep.runtime.revision`). If it is None, all output is final.
    - `final`: True to output only final results, `revise` microseconds later. This requires `revise`.
    - `corrected`: True if the input has already been corrected. KEYs are then ignored.

    Raises ValueError if `lateness` or `revise` is out of range, or if options exclude each other.
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
            raise ValueError("lateness must be 0 to 2**60 microseconds, or None: then only `advance` moves the time")
        if self.changes and self.begins:
            raise ValueError(
                "use either `changes`, which returns when fluents begin and end, or `begins`, which adds intervals"
            )
        if self.revise is None:
            if self.final:
                raise ValueError("`final` needs `revise`, the time by which records may be late")
            return
        if not 0 <= self.revise <= FARTHEST:
            raise ValueError("revise must be 0 to 2**60 microseconds")


class UntimedEngineKeywords(TypedDict, total=False):
    """The fields of `EngineKeywords` without `lateness` and `revise`, for functions whose `lateness` and `revise` have
    another type."""

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
