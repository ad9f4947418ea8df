"""Semi-naive evaluation. Rules run in rounds, and each round uses the results of the previous round (Bancilhon
1986)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

New = TypeVar("New")


def rounds(new: New, follows: Callable[[New], New]) -> Iterator[New]:
    """Yield the new facts of each round, beginning with `new`, until a round derives none.

    `follows`: a function that evaluates the rules on the new facts and all known facts, and adds the results to the
    known facts. It returns the results that are new.
    """
    while new:
        yield new
        new = follows(new)
