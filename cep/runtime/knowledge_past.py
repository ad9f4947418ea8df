"""What is known now and what was known before, as the tables that conditions ask."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import polars as pl

from cep.core.values import MISSING, Pool
from cep.plan.algebra import Rules
from cep.rules.static.datalog import Statics
from cep.rules.static.materialized import MaterializedRelation
from cep.runtime.knowledge_source import KnowledgeSource, ProgramKnowledge
from cep.runtime.knowledge_tables import KnowledgeTables
from cep.runtime.prepared_change import PastChange, PreparedChange

_FIRST = -(2**62)

STATES = 4
"""States of the past that are held when they have been asked for."""
TABLES = 64
"""Of so many of the last changes of the past the tables are held where they were asked for."""


@dataclass(slots=True)
class KnowledgePast:
    """`facts`: the tables given from outside. The types of all tables stay what they were when the program was read.
    `past`: where it is remembered, what changed when, up to now; the first is the sum of all before it. `late`: how
    long before the watermark goals ask what is known, None: no goal follows it.
    """

    rules: Rules
    loaded: KnowledgeSource
    known: ProgramKnowledge
    statics: Statics
    facts: Mapping[str, pl.DataFrame]
    pool: Pool
    touched: set[str] = field(default_factory=set)  # tables that are not what they were at first
    past: list[PastChange] = field(default_factory=list)
    late: int | None = None
    kept_since: int | None = None  # what was known from then on may be asked again; None: `_remember` alone counts
    _times: list[int] = field(default_factory=list)  # of changes that goals may still ask for
    _seen: dict[int, tuple[KnowledgeSource, PreparedChange]] = field(default_factory=dict)  # of the past, by place
    _remember: int = 0
    _shown: int | None = None  # which of `past` the tables are of, None: of the last
    _tables: KnowledgeTables = field(init=False)

    def __post_init__(self) -> None:
        self._tables = KnowledgeTables(self.rules, self.known, self.statics, self.facts, self.pool)

    def remember(self, ticks: int) -> None:
        """From now on keep what was known in the last so many microseconds."""
        if not self.past:
            self.past = [PastChange(_FIRST, self.loaded.merge([]))]
        self._remember = max(ticks, self._remember)

    def follow(self, late: int) -> None:
        """See `cep.operators.goals.contract.KnowledgeOverTime`."""
        self.late = max(late, self.late or 0)
        if late:
            self.remember(min(late, -_FIRST))

    def changed(self, after: int, until: int) -> list[int]:
        """See `cep.operators.goals.contract.KnowledgeOverTime`."""
        return self._times[bisect_right(self._times, after) : bisect_right(self._times, until)]

    def known_at(self, time: int) -> AbstractContextManager[None]:
        """See `cep.operators.goals.contract.KnowledgeOverTime`."""
        return self.at(self.place(time)) if self.late else nullcontext()

    def place(self, time: int) -> int:
        """Which of `past` a time belongs to; the first where it was before all."""
        return max(0, bisect_right(self.past, time, key=lambda each: each.time) - 1)

    def background(self, place: int) -> KnowledgeSource:
        """What was known from a time of `past` on."""
        return self._then(place)[0]

    @contextmanager
    def at(self, place: int) -> Iterator[None]:
        """In the block that is known which was known from a time of `past` on. No step is made there."""
        if place == (len(self.past) - 1 if self._shown is None else self._shown):
            yield
            return
        then, before = self.past[place].whole or self._then(place)[1], self._shown
        with self.put_back():
            self._shown = place
            self._show(then)
            try:
                yield
            finally:
                self._shown = before

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """After the block the tables are what they were."""
        offers = {name: each.relation for name, each in self.known.offers.items()}
        tables = {name: self._stored(name).rows() for name in self._names}
        areas = self.pool.areas
        try:
            yield
        finally:
            for name, rows in tables.items():
                self._stored(name).take_on(rows)
            self._show(PreparedChange(0, b"", {}, offers, areas))

    @property
    def _names(self) -> list[str]:
        """The tables that a change may touch."""
        made = dict.fromkeys(rule.name for rule in self.rules.statics)
        return [*self.rules.asked, *(n for n in made if isinstance(self.statics.relations[n], MaterializedRelation))]

    def _then(self, place: int) -> tuple[KnowledgeSource, PreparedChange]:
        if place not in self._seen:
            if len(self._seen) == STATES:
                del self._seen[next(iter(self._seen))]
            time, change = self.past[place].time, self.loaded.merge([each.change for each in self.past[: place + 1]])
            background = self.loaded.fork(apart=True)
            background.apply(change)
            self._seen[place] = background, self._tables.whole(time, change, background)
        return self._seen[place]

    def _pass(self, time: int, change: bytes) -> None:
        if self.late is not None and time != MISSING:
            kept = [each for each in self._times if each > time - self.late and each < time]
            self._times = [*kept, time]
        if not self.past:
            return
        self._seen.clear()
        if time == MISSING:  # a snapshot's: of what was before it only the sum is known
            self.past = [PastChange(_FIRST, change)]
            return
        self.past.append(PastChange(time, change))
        self.keep_from(time, self.kept_since)

    def keep_from(self, now: int, since: int | None) -> None:
        """What was known before `since`, and longer ago than it is remembered, is not asked for any more."""
        self.kept_since = since
        until = now - self._remember
        until = until if since is None else min(until, since - (self.late or 0))
        while len(self.past) > 1 and self.past[1].time <= until:
            first, second = self.past[:2]
            both = self.loaded.merge([first.change, second.change])
            self.past[:2] = [PastChange(second.time, both, second.whole)]
            self._seen.clear()
        for each in self.past[:-TABLES]:
            each.whole = None

    # --- what was known otherwise ---

    @contextmanager
    def going_by(self, past: list[PastChange]) -> Iterator[None]:
        """In the block this is what was known when; `show` chooses a time. Nothing comes there."""
        before = self.past, self._times, self._seen, self._shown
        with self.put_back():
            self.past, self._times, self._seen, self._shown = past, [], {}, -1
            try:
                yield
            finally:
                self.past, self._times, self._seen, self._shown = before

    def show(self, place: int) -> None:
        """In a block of `going_by`: that is known which was known from a time of `past` on, and nothing later."""
        moment = self.past[place]
        assert moment.whole is not None, "it was prepared"
        self._times = sorted({each.time for each in self.past[1 : place + 1]})
        if place != self._shown:
            self._show(moment.whole)
            self._shown = place

    def prepare(self, past: Sequence[PastChange], first: int, last: int) -> None:
        """Have the tables of these places of a past. Raises CepError where one cannot be."""
        background: KnowledgeSource | None = None
        for place in range(first, last + 1):
            moment = past[place]
            if moment.whole is not None:
                background = None
                continue
            if background is None:
                background = self.loaded.fork(apart=True)
                background.apply(self.loaded.merge([each.change for each in past[: place + 1]]))
            else:
                background.apply(moment.change)
            moment.whole = self._tables.whole(moment.time, moment.change, background)

    # --- tables ---

    def _show(self, moment: PreparedChange) -> None:
        for name, rows in moment.tables.items():
            self._stored(name).replace(*rows)
        for name, (gone, new) in moment.edits.items():
            stored = self._stored(name)
            stored.edit(gone, new, self.pool)
            stored.settle()
        self.touched.update(moment.tables, moment.edits)
        for name, offered in self.known.offers.items():
            offered.relation = moment.offers[name]
        self.pool.areas = moment.areas

    def _stored(self, name: str) -> MaterializedRelation:
        stored = self.known.tables.get(name) or self.statics.relations[name]
        assert isinstance(stored, MaterializedRelation), "only tables are replaced"
        return stored

    def _types(self, name: str) -> Sequence[str | None]:
        return (self.known.tables.get(name) or self.statics.relations[name]).types
