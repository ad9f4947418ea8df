"""Which columns hold codes of the pool."""

from __future__ import annotations

from collections.abc import Sequence

from cep.core.schema import CODED


def others(keys: Sequence[tuple[int, str]], types: Sequence[str]) -> list[str]:
    """The types of the key columns that are converted, which are appended."""
    return [type for column, type in keys if types[column] != type]


def codes_of(types: Sequence[str]) -> tuple[int, ...]:
    return tuple(i for i, type in enumerate(types) if type in CODED)
