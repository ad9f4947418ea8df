"""Semi-naive evaluation: rules in rounds, each over what the last one found (Bancilhon 1986)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

New = TypeVar("New")


def rounds(new: New, follows: Callable[[New], New]) -> Iterator[New]:
    """What each round found, `new` first, until one finds nothing. `follows` runs the rules on what is new and all that
    is known, adds what they give, and returns what of it was not known before."""
    while new:
        yield new
        new = follows(new)
