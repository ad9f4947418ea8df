"""Order labels: numbers that sort like values. With them, a kernel that sees only codes can compare values.

The label of a new value lies between the labels of its neighbours, so that other labels stay the same. If there is no
number between them, all values get new labels.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np

from cep.core.values import Pool
from cep.operators.goals.contract import Ints
from cep.operators.goals.keys import MISSING
from cep.rules.expressions.value_order import sort_key

APART = 2**40
FARTHEST = 2**61


class Labels:
    """The labels of all values seen so far. A value is identified by its pool code."""

    def __init__(self, pool: Pool) -> None:
        self._key = sort_key(["any"], pool)
        self._keys: list[Any] = []
        self._codes: list[int] = []
        self._of: dict[int, int] = {}
        self._at: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def codes(self) -> Ints:
        """Return the pool codes of all values that have a label."""
        return np.array(self._codes, np.int64)

    def meet(self, codes: Ints) -> bool:
        """Give new values a label. Return True if labels of earlier values have changed."""
        moved = False
        for code in np.unique(codes[codes != MISSING]).tolist():
            if code not in self._of:
                moved |= self._enter(code)
        return moved

    def of(self, codes: Ints) -> Ints:
        """Return the labels of values that have one. The label of a missing value is MISSING."""
        known, places = np.unique(codes, return_inverse=True)
        numbers = np.array([self._of.get(code, MISSING) for code in known.tolist()], np.int64)
        labels: Ints = numbers[places.reshape(-1)] if len(known) else np.empty(0, np.int64)
        return labels

    def codes_of(self, numbers: Ints) -> Ints:
        """Return the pool codes of the values that have the labels `numbers`. The code for MISSING is MISSING."""
        known, places = np.unique(numbers, return_inverse=True)
        codes = np.array([self._at.get(number, MISSING) for number in known.tolist()], np.int64)
        coded: Ints = codes[places.reshape(-1)] if len(known) else np.empty(0, np.int64)
        return coded

    def _enter(self, code: int) -> bool:
        key = self._key(np.array([code], np.int64))
        position = bisect_left(self._keys, key)
        self._keys.insert(position, key)
        self._codes.insert(position, code)
        low = self._of[self._codes[position - 1]] if position else None
        high = self._of[self._codes[position + 1]] if position + 1 < len(self._codes) else None
        if low is None or high is None:
            number = 0 if low is None and high is None else low + APART if low is not None else (high or 0) - APART
        else:
            number = (low + high) // 2
        self._of[code] = number
        self._at[number] = code
        if number in (low, high) or abs(number) > FARTHEST:
            middle = len(self._codes) // 2
            self._of = {known_code: (place - middle) * APART for place, known_code in enumerate(self._codes)}
            self._at = {number: known_code for known_code, number in self._of.items()}
            return True
        return False
