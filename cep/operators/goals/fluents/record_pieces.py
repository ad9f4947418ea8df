"""Pieces of what records of a fluent say holds: which of them end when, and what they are joined."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cep.core.interval_sets import INFINITE, coalesce
from cep.core.time import END_OF_TIME
from cep.operators.goals.contract import Bools, Ints

NEVER = 2 * END_OF_TIME


class Pieces(NamedTuple):
    """Columns of one length: the slot of the tuple, codes of the ends (INFINITE: open), the order of arrival and the
    name of the record."""

    slot: Ints
    start: Ints
    end: Ints
    order: Ints
    name: Ints

    def at(self, chosen: Ints | Bools) -> Pieces:
        return Pieces(*(column[chosen] for column in self))

    def with_(self, other: Pieces) -> Pieces:
        return Pieces(*(np.concatenate(both) for both in zip(self, other)))


NO_PIECES = Pieces(*(np.empty(0, np.int64) for _ in range(5)))


def time_by(end: Ints) -> Ints:
    """The time of an end by its code; of one that is open none that there is."""
    return np.where(end == INFINITE, NEVER, (end + 1) >> 1)


def time_of(code: int) -> int:
    """The same of one."""
    return NEVER if code == INFINITE else (code + 1) >> 1


def over(end: Ints, watermark: int) -> Bools:
    over: Bools = (end != INFINITE) & (time_by(end) <= watermark)
    return over


def _numbered(*columns: Ints) -> Ints:
    """A number for each row, in the order of their values and the same for equal ones."""
    order = np.lexsort(columns[::-1])
    changes = np.zeros(len(order), np.bool_)
    for column in columns:
        changes[1:] |= np.diff(column[order]) != 0
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(changes)
    return numbers


def closed(held: Pieces, new: Pieces, closers: Pieces) -> Pieces:
    """All pieces, where an open one ends that a record of its tuple and start closes: one that came at its instant, or
    of those that came later the one that ends first."""
    every = held.with_(new)
    is_open = every.end == INFINITE
    if not is_open.any() or not (len(closers.slot) or len(new.slot)):
        return every
    n = len(every.slot)
    both = every.with_(closers)
    number = _numbered(both.slot, both.start >> 1)
    first = np.full(int(number.max()) + 1, INFINITE)
    np.minimum.at(first, number[n:], closers.end)
    at_once = np.zeros(len(first), np.bool_)
    at_once[number[len(held.slot) : n][new.end != INFINITE]] = True
    end = np.where(is_open, first[number[:n]], every.end)
    return every._replace(end=end).at(~(is_open & at_once[number[:n]]))


def maximal(pieces: Pieces) -> Pieces:
    """The maximal intervals, each with the order and name of its first piece."""
    made = coalesce(pieces.slot, pieces.start, pieces.end)
    order = np.lexsort((pieces.order, pieces.start, pieces.slot))
    ordered = pieces.at(order)
    if len(made.key) == len(order):  # none meets another
        return Pieces(made.key, made.start, made.end, ordered.order, ordered.name)
    both = _numbered(np.concatenate([ordered.slot, made.key]), np.concatenate([ordered.start, made.start]))
    firsts = np.searchsorted(both[: len(order)], both[len(order) :])
    return Pieces(made.key, made.start, made.end, ordered.order[firsts], ordered.name[firsts])


def within(pieces: Pieces, whole: Pieces) -> Ints:
    """The maximal interval of each piece."""
    n = len(pieces.slot)
    if len(whole.slot) == n:  # each is one
        place = np.empty(n, np.int64)
        place[np.lexsort((pieces.start, pieces.slot))] = np.arange(n)
        return place
    both = _numbered(np.concatenate([pieces.slot, whole.slot]), np.concatenate([pieces.start, whole.start]))
    return np.searchsorted(both[n:], both[:n], side="right") - 1
