"""The protocol of goals that can be part of a cycle of formulas. It adds evaluation in rounds to `step`.

A cycle is evaluated stretch by stretch; a stretch is a range of time codes. First `shrink` is called until it finds no
further tuples that may end in the stretch. Then `grow` is called until no further intervals follow. In these calls,
START and END of a row are the time codes of an interval (see `cep.operators.goals.fluents.changes`). Afterwards `step`
passes the final changes to every goal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from cep.core.interval_sets import INFINITE
from cep.core.relation import Table
from cep.core.time import Frontier


class InRounds(ABC):
    """A goal of formulas that can be evaluated in rounds. Subclasses must define `open_stretch`, `shrink` and `grow`.

    - `timed`: True if the goal's results may change because time passes.
    - `follows`: True if the goal's results may change because the knowledge changes.
    - `late`: the delay of the goal's results in microseconds.
    - `ahead`: True if the goal's results depend on input at later times.
    - `holds_from`: the time code before which none of the goal's tuples hold.
    """

    timed = False
    follows = False
    late = 0
    ahead = False
    holds_from = -INFINITE

    @abstractmethod
    def open_stretch(self, first: int, last: int, goes_on: bool = False) -> None:
        """Begin a stretch of time codes. The goal's state then contains the tuples that hold before the stretch, and no
        input of the stretch.

        `goes_on`: True if tuples that hold before the stretch also hold in it, unless they are passed to `shrink`.
        """

    @abstractmethod
    def shrink(self, inputs: Sequence[Table]) -> Table:
        """Return the result rows that may end in the stretch.

        `inputs`: the rows of each input that may end. The goal returns a result row only once.
        """

    @abstractmethod
    def grow(self, inputs: Sequence[Table]) -> Table:
        """Return the results that follow from new intervals of each input. It may repeat earlier results."""

    def remaining(self) -> Table | None:
        """Return the rows that `shrink` has returned but that do not end, because they have another support.

        Return None if the goal does not count supports.
        """
        return None

    def settled(self) -> Table:
        """Return the final changes of a stretch, after the last round. Every cycle has a goal with this method."""
        raise AssertionError("its node does not settle")

    def bound(self, first: int) -> None:
        """Set the time code before which no tuple holds. INFINITE: the code is not known yet."""
        raise AssertionError("its node does not settle")

    def next_change(self) -> int:
        """Return the next time code at which time alone or a change of the knowledge changes the goal's results.

        Returns INFINITE if there is no such time code.
        """
        return INFINITE

    def held(self, changes: Table, first: int, last: int) -> Table:
        """Return the intervals inside a stretch in which the goal's tuples held.

        `changes`: the changes that the goal returned for this stretch.
        """
        raise AssertionError("cycles read goals that know what holds")

    def look_ahead(self, frontier: Frontier, ahead: Frontier) -> Table:
        """Return results up to the time `ahead`, although the inputs are only known up to `frontier`, which is earlier.

        The operator looks back in time, so the known inputs already determine these results.
        """
        raise AssertionError("it looks back by nothing")
