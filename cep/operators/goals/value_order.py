"""The order of arrival of results that the passing of time completes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from cep.core.schema import CODED
from cep.core.value_hashes import PoolWords, hash_words, orders
from cep.core.values import Ints


class ValueOrder:
    """A function that computes the order of such results from their values (see `cep.core.value_hashes.orders`).

    - `types`: the types of the values that distinguish the results.
    - `events`: the names of the events that may complete the pattern.
    """

    def __init__(self, words: PoolWords, types: Sequence[str], events: Collection[str]) -> None:
        self.words, self.types, self.events = words, tuple(types), frozenset(events)

    def __call__(self, values: Ints) -> Ints:
        """Return the order of each result. `values`: the stored values, with a matrix row for each type."""
        words = (self._words(stored, type) for stored, type in zip(values, self.types))
        return orders(words, self.events, values.shape[1])

    def _words(self, stored: Ints, type: str) -> Ints:
        if type in CODED:
            return self.words.of(stored, type)
        return hash_words(pl.Series(stored.view(float)), type) if type == "float" else stored
