"""The protocol of goals that may lie on a cycle of formulas, in addition to `step`: evaluation in rounds.

A cycle is evaluated stretch by stretch, where a stretch is a range of time codes. First `shrink` is called until no
further tuples may end in the stretch. Then `grow` is called until no further intervals follow. Rows are intervals here:
START and END are time codes (`cep.operators.goals.fluents.changes`). Afterwards `step` passes the final changes to
every goal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from cep.core.interval_sets import INFINITE
from cep.core.relation import Table
from cep.core.time import Frontier


class InRounds(ABC):
    """A goal of formulas that can be evaluated in rounds. Only the first three methods have no default.

    - `timed`: time alone changes its results; `follows`: changes of the knowledge do.
    - `late`: the delay of its results in microseconds.
    - `ahead`: its results depend on later times.
    - `holds_from`: its tuples hold from this code on only.
    """

    timed = False
    follows = False
    late = 0
    ahead = False
    holds_from = -INFINITE

    @abstractmethod
    def open_stretch(self, first: int, last: int, goes_on: bool = False) -> None:
        """Begin a stretch of time codes. Inputs start empty; tuples that hold before the stretch are in the state.

        `goes_on`: tuples that hold before the stretch continue through it, except those passed to `shrink`.
        """

    @abstractmethod
    def shrink(self, inputs: Sequence[Table]) -> Table:
        """Return the rows that possibly end in the stretch, given the rows of each input that possibly end.

        Each row is returned once.
        """

    @abstractmethod
    def grow(self, inputs: Sequence[Table]) -> Table:
        """Return what follows from new intervals of each input. Earlier results may be repeated."""

    def remaining(self) -> Table | None:
        """Return the rows of `shrink` that continue after all, because they have other support. None if it keeps no
        counts."""
        return None

    def settled(self) -> Table:
        """Return the final changes of a stretch, when no round adds anything any more. Every cycle has a goal that
        implements this."""
        raise AssertionError("its node does not settle")

    def bound(self, first: int) -> None:
        """Let nothing hold before this code (INFINITE: the code is not known yet)."""
        raise AssertionError("its node does not settle")

    def next_change(self) -> int:
        """Return the code at which time or the knowledge first changes its results, or INFINITE."""
        return INFINITE

    def held(self, changes: Table, first: int, last: int) -> Table:
        """Return the intervals of a stretch in which the goal's tuples held. `changes`: the changes that it has just
        returned."""
        raise AssertionError("cycles read goals that know what holds")

    def look_ahead(self, frontier: Frontier, ahead: Frontier) -> Table:
        """Return results up to `ahead`, which is later than `frontier`, the time up to which inputs are known.

        The operator looks back in time, so known inputs determine these results.
        """
        raise AssertionError("it looks back by nothing")
