"""Semi-naive evaluation: rules run in rounds, each on the results of the previous one (Bancilhon 1986)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

New = TypeVar("New")


def rounds(new: New, follows: Callable[[New], New]) -> Iterator[New]:
    """Yield the new facts of each round, `new` first, until a round derives nothing new.

    `follows` evaluates the rules on the new facts and all known facts, adds the results, and returns the new results.
    """
    while new:
        yield new
        new = follows(new)
