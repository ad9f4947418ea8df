"""The selection of long tests: `--long all` (the default), `none`, or `2/3`, the second of three shares.

A long test is marked `long`: kills, signals, complete runs on Spark, installations. They are dealt to the shares in
turn. Properties that Hypothesis tries (`examples`) always run, but each share tries different examples. Of tests that
differ only in a seed (`seeds`), all but a few are long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from hypothesis import seed, settings

from cep.core.array_capacity import CHECKED

FEW = 12
"""How many times fewer examples a property has, and how many times fewer seeds a test, where no long ones run."""
_LEAST, _LEAST_SEEDS = 6, 2
TIMEOUT = 900
"""Seconds after which a long test is given up."""

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


def examples(number: int, few: int | None = None) -> Callable[[Any], Any]:
    """So many, or a third of them in the checked run, or in either their part in a share, of a seed of its own.

    Where long tests are left out these are `few`, which is a twelfth if nothing else is said, and no share tries fewer.
    """

    def limited(test: Any) -> Any:
        counted = settings(max_examples=_count(number, few))(test)
        return seed(_chosen.number)(counted) if _chosen.of > 1 and not _fuzz else counted

    return limited


def some(values: Iterable[Any]) -> list[Any]:
    """Values for `parametrize`: every twelfth, from the first on, always runs, and those between are long tests."""
    return [pytest.param(each, marks=[pytest.mark.long] if at % FEW else []) for at, each in enumerate(values)]


def seeds(number: int) -> list[Any]:
    """So many numbers from 0 on, for `parametrize`: of those behind the first twelfth each is a long test.

    Where `SEMCEP_FUZZ=n` asks for more they are n times as many.
    """
    number *= max(1, _fuzz)
    few = max(_LEAST_SEEDS, number // FEW)
    return [pytest.param(each, marks=[pytest.mark.long] if each >= few else []) for each in range(number)]


def _count(number: int, few: int | None) -> int:
    if _fuzz:
        return number * _fuzz
    if CHECKED and _chosen.of < 2:
        return number // 3
    least = min(number, max(_LEAST, number // FEW) if few is None else few)
    return max(least, number // _chosen.of) if _chosen.of else least
