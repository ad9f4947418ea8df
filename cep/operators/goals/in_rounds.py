"""The contract of goals that may lie on a cycle of formulas, beside `step`: intervals, found in rounds.

A stretch of codes is opened; `shrink` says what of that which holds may not go on, `grow` what follows of intervals
that are new, until nothing is. Rows are then intervals, whose START and END are codes
(`cep.operators.goals.fluents.changes`). What the rounds come to is given to every goal by `step`, once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from cep.core.interval_sets import INFINITE
from cep.core.relation import Table
from cep.core.time import Frontier


class InRounds(ABC):
    """A goal of formulas. All but the first three methods have a default.

    - `timed`: time alone changes what it gives; `follows`: the knowledge does.
    - `late`: how late it gives that, in microseconds.
    - `ahead`: it asks what holds later.
    - `holds_from`: its tuples hold from this code on alone.
    """

    timed = False
    follows = False
    late = 0
    ahead = False
    holds_from = -INFINITE

    @abstractmethod
    def open_stretch(self, first: int, last: int, goes_on: bool = False) -> None:
        """Open a stretch of codes. All inputs are then given from nothing on; what holds before it is the state.

        `goes_on`: what holds before it goes on through it, but for what `shrink` is told; inputs are given besides.
        """

    @abstractmethod
    def shrink(self, inputs: Sequence[Table]) -> Table:
        """Return what may not go on in the stretch, now that these of each input may not: each row once."""

    @abstractmethod
    def grow(self, inputs: Sequence[Table]) -> Table:
        """Return what follows of intervals that are new on each input; what follows of others may come again."""

    def remaining(self) -> Table | None:
        """Return what `shrink` gave and goes on nonetheless, as something else supports it; None: it does not count."""
        return None

    def settled(self) -> Table:
        """Return the changes that a stretch comes to. Every cycle goes through a goal that can."""
        raise AssertionError("its node does not settle")

    def bound(self, first: int) -> None:
        """Make nothing hold before this code (INFINITE: the code is not known yet)."""
        raise AssertionError("its node does not settle")

    def next_change(self) -> int:
        """Return the code at which time or the knowledge changes first what it gives; INFINITE: neither does."""
        return INFINITE

    def held(self, changes: Table, first: int, last: int) -> Table:
        """Return when its tuples held in a stretch whose changes it has just given."""
        raise AssertionError("cycles read goals that know what holds")

    def look_ahead(self, frontier: Frontier, ahead: Frontier) -> Table:
        """Return what is known up to `ahead` as it looks back, when its inputs are known up to `frontier`."""
        raise AssertionError("it looks back by nothing")
