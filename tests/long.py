"""Which long tests run: `--long all` (as where nothing is said), `none`, or `2/3`, the second of three shares.

A long test is marked `long`: kills, signals, runs on Spark from beginning to end, installations. They are dealt to the
shares by turns, in their order. Properties that Hypothesis tries with random programs (`examples`) always run, but
with few examples where they are not in the share, which goes by their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from zlib import crc32

from hypothesis import settings

from cep.core.room import CHECKED

FEW = 6
"""How many times fewer examples a property has where it is not among the long ones that run."""
_LEAST = 6

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Share:
    """Share `number`, from 1, of so many; of 0, nothing."""

    number: int
    of: int

    @classmethod
    def read(cls, text: str) -> Share:
        """What an option says. ValueError: nothing that is understood."""
        if text in ("all", "none"):
            return cls(1, 1) if text == "all" else cls(1, 0)
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise ValueError(f"`--long {text}` is none of `all`, `none` and shares as `1/3`, `2/3`, `3/3`")
        return cls(int(found[1]), int(found[2]))

    def dealt(self, tests: Sequence[T]) -> Sequence[T]:
        """Of long tests those that run: by turns, since neighbours take about as long."""
        return tests[self.number - 1 :: self.of] if self.of else []

    def holds(self, name: str) -> bool:
        """Whether a property of this name is tried with all its examples."""
        return self.of > 0 and crc32(name.encode()) % self.of == self.number - 1

    def __str__(self) -> str:
        if self.of < 2:
            return "all" if self.of else "none"
        return f"{self.number}/{self.of}"


_chosen = Share(1, 1)
_fuzz = 0


def choose(share: Share, fuzz: int) -> None:
    """Before tests are collected: the share, and how many times as many new examples are asked for (0: the usual)."""
    global _chosen, _fuzz
    _chosen, _fuzz = share, fuzz


def examples(number: int) -> Callable[[Any], Any]:
    """So many, or a third of them in the checked run, or a sixth where long tests are left out."""

    def limited(test: Any) -> Any:
        name = f"{test.__module__}.{test.__qualname__}"
        return settings(max_examples=_count(name, number))(test)

    return limited


def _count(name: str, number: int) -> int:
    if _fuzz:
        return number * _fuzz
    if CHECKED:
        return number // 3
    return number if _chosen.holds(name) else min(number, max(_LEAST, number // FEW))
