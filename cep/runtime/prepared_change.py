"""What is known from a moment on, and over a stretch of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cep.core.relation import Column
from cep.core.values import Areas, Ints
from cep.rules.conditions.relations import Relation
from cep.rules.static.materialized import CountedColumns


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """A change, and what there is from its time on: tables by predicate, the predicates offered besides, areas.
    `edits`: of further tables the rows that go and those that come."""

    time: int
    change: bytes
    tables: Mapping[str, CountedColumns]
    offers: Mapping[str, Relation]
    areas: Areas | None
    edits: Mapping[str, tuple[CountedColumns, CountedColumns]] = field(default_factory=dict)


@dataclass(slots=True)
class PastChange:
    """A change whose time has come; the first of several is the sum of all before it. `whole`: what there was from its
    time on, once that has been asked for."""

    time: int
    change: bytes
    whole: PreparedChange | None = None


@dataclass(frozen=True, slots=True)
class TimedTable:
    """A table's rows, each with from when until when it holds. Equal rows lie apart in time."""

    columns: tuple[Column, ...]
    since: Ints
    until: Ints

    def at(self, time: int) -> CountedColumns:
        """The rows that hold at a time."""
        there = np.flatnonzero((self.since <= time) & (time < self.until))
        return tuple(column[there] for column in self.columns), len(there)
