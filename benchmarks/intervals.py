"""Conversion between maximal intervals and changes, for benchmarks and tests of temporal operators."""

from __future__ import annotations

import numpy as np

from cep.core.interval_sets import INFINITE, Intervals
from cep.core.stable_order import stable_order
from cep.operators.goals.fluents.changes import Changes


def changes_of(held: Intervals) -> Changes:
    """Return the changes at which maximal intervals begin and end."""
    ending = held.end < INFINITE
    key = np.concatenate([held.key, held.key[ending]])
    code = np.concatenate([held.start, held.end[ending] + 1])
    begins = np.concatenate([np.ones(len(held.key), np.int64), np.zeros(int(ending.sum()), np.int64)])
    order = np.lexsort((key, code))
    return Changes(key[order], code[order], begins[order])


def intervals_of(changes: Changes) -> Intervals:
    """Return the maximal intervals of some tuples. `changes`: all their changes, from the first one on.

    An interval without an end lasts for ever.
    """
    order = stable_order(changes.key)
    key, code, begins = (column[order] for column in changes)
    starts = np.flatnonzero(begins)
    following = np.minimum(starts + 1, max(len(key) - 1, 0))
    ended = (following > starts) & (key[following] == key[starts])
    return Intervals(key[starts], code[starts], np.where(ended, code[following] - 1, INFINITE))
