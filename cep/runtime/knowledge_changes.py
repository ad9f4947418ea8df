"""Knowledge that changes: what is known from when on, ready in tables before its time comes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa

from cep.core.errors import CepError
from cep.core.schema import CODED
from cep.core.values import MISSING, Ints, Pool
from cep.plan.algebra import Rules
from cep.rules.static.datalog import Statics
from cep.rules.static.materialized import ALWAYS, NEVER, MaterializedRelation
from cep.runtime.knowledge_source import KnowledgeSource, ProgramKnowledge
from cep.runtime.knowledge_tables import KnowledgeTables, refitted
from cep.runtime.prepared_change import PreparedChange, TimedTable

_FIRST = -(2**62)

COMPACT = 64
"""Changes that are kept one by one before they are put together."""
STATES = 4
"""States of the past that are held when they have been asked for."""


@dataclass(slots=True)
class KnowledgeChanges:
    """The changes of the knowledge of one engine: those applied, and those whose time has not come.

    `facts`: the tables given from outside. The types of all tables stay what they were when the program was read.
    `past`: where it is remembered, what changed when, up to now; the first is the sum of all before it. `news`: what
    changed since whoever follows has taken it, None: nobody follows. `over`: the tables from now until after all
    pending changes, where that is known of all of them at once; their moments then hold no tables. `late`: how long
    before the watermark goals ask what is known, None: no goal follows it; all changes are then made one by one.
    """

    rules: Rules
    loaded: KnowledgeSource
    known: ProgramKnowledge
    statics: Statics
    facts: Mapping[str, pl.DataFrame]
    pool: Pool
    pending: list[PreparedChange] = field(default_factory=list)
    applied: list[bytes] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)  # tables that are not what they were at first
    past: list[tuple[int, bytes]] = field(default_factory=list)
    news: list[bytes] | None = None
    over: dict[str, TimedTable] | None = None
    late: int | None = None
    _times: list[int] = field(default_factory=list)  # of changes that goals may still ask for
    _seen: dict[int, tuple[KnowledgeSource, PreparedChange]] = field(default_factory=dict)  # of the past, by place
    _remember: int = 0
    _ahead: KnowledgeSource | None = None  # as it is after all pending changes
    _before: KnowledgeSource | None = None  # as it was when pending ones were put into `over`
    _tries: int = 0  # to have them `over` since this went well
    _since: list[bytes] = field(default_factory=list)  # those of them whose time came
    _tables: KnowledgeTables = field(init=False)

    def __post_init__(self) -> None:
        self._tables = KnowledgeTables(self.rules, self.known, self.statics, self.facts, self.pool)

    # --- changes come ---

    def add(self, time: int, change: bytes) -> None:
        """Take a change that holds from `time` on. Raises CepError, and changes nothing, where it cannot be."""
        if self.over is not None:
            return self.add_all([(time, change)])
        place = bisect_right(self.pending, time, key=lambda moment: moment.time)
        later = [(moment.time, moment.change) for moment in self.pending[place:]]
        background = self._ahead
        if background is None or later:
            background = self.loaded.fork(apart=True)
            background.apply(self.loaded.merge([*self.applied, *(moment.change for moment in self.pending[:place])]))
            self._tables.forget()
        self._ahead = None  # until all has gone well
        made = self.pending[:place]
        for when, each in [(time, change), *later]:
            background.apply(each)
            made.append(self._tables.moment(when, each, background))
        self.pending, self._ahead = made, background
        background.forget()

    def add_all(self, changes: Sequence[tuple[int, bytes]]) -> None:
        """Take changes that hold from their times on, at once. Raises CepError, and changes nothing, where one of them
        cannot be."""
        known = [(moment.time, moment.change) for moment in self.pending]
        every = sorted([*known, *changes], key=lambda each: each[0])
        if len(every) > 1 and self._add_over(every):
            return
        before = self.pending, self.over, self._ahead, self._before
        if self.over is not None:  # one after the other from now on
            self.pending, self.over, self._ahead, self._before = [], None, None, None
            changes = every
        try:
            for time, change in sorted(changes, key=lambda each: each[0]):
                self.add(time, change)
        except CepError:
            self.pending, self.over, ahead, self._before = before
            self._ahead = None if self.over is None else ahead  # the one before may have changed
            raise

    def _add_over(self, changes: Sequence[tuple[int, bytes]]) -> bool:
        """Take all pending changes at once, where answers with their times can be had."""
        self._tries += 1
        if (
            self.late is not None or self.rules.statics or self._tries & (self._tries - 1)
        ):  # tried ever more rarely while it is in vain
            return False
        before = self._now()
        found = before.over(changes, self.rules.asked, self.pool)
        if found is None:
            return False
        over: dict[str, TimedTable] = {}
        for name, each in found[1].items():
            types = self.known.tables[name].types
            columns = [refitted(c, t, w, self.pool) for c, t, w in zip(each.answers.columns, each.answers.types, types)]
            if any(column is None for column in columns):
                return False
            if (each.since != ALWAYS).any() or (each.until != NEVER).any():
                over[name] = TimedTable(
                    tuple(column for column in columns if column is not None), each.since, each.until
                )
        self._tries = 0
        self.pending = [PreparedChange(time, change, {}, {}, None) for time, change in changes]
        self.over, self._ahead, self._before, self._since = over, found[0], before, []
        self._tables.forget()
        found[0].forget()
        return True

    def _now(self) -> KnowledgeSource:
        """What is known now, to ask it what will be."""
        if not self.pending and self._ahead is not None:
            return self._ahead
        changes = self.applied if self._before is None else self._since
        background = self.loaded.fork(apart=True) if self._before is None else self._before.fork()
        if changes:
            background.apply(self.loaded.merge(changes))
        return background

    # --- their time comes ---

    def due(self, watermark: int) -> list[int]:
        """The times up to `watermark` at which something changes, ascending."""
        return sorted({moment.time for moment in self.pending if moment.time <= watermark})

    @contextmanager
    def as_they_come(self) -> Iterator[None]:
        """In the block tables are asked for what holds when occurrences end, past all changes of `over`."""
        assert self.over is not None, "tables have times"
        for name, each in self.over.items():
            self.known.tables[name].replace_timed(each.columns, each.since, each.until)
        yield  # an exception within ends the engine

    def reach(self, time: int) -> None:
        """All that is known from `time` on is known now."""
        if self.over is not None:
            for name, each in self.over.items():
                self.known.tables[name].replace(*each.at(time))
                self.touched.add(name)
        while self.pending and self.pending[0].time <= time:
            moment = self.pending.pop(0)
            if self.over is None:
                self._show(moment)
            elif self._before is not None:
                self._since.append(moment.change)
            self._pass(moment.time, moment.change)
            self.applied.append(moment.change)
            if self.news is not None:
                self.news.append(moment.change)
            self._compact()
        if not self.pending:
            self.over, self._before, self._since = None, None, []

    def _compact(self) -> None:
        """Put changes together, those that are as many as all after them: each is taken up a few times, not always."""
        if len(self.applied) <= COMPACT:
            return
        place, after = len(self.applied) - 1, len(self.applied[-1])
        while place and (len(self.applied[place - 1]) <= 2 * after or place > COMPACT // 2):
            place -= 1
            after += len(self.applied[place])
        put = self.loaded.merge if place else self.loaded.net
        self.applied[place:] = [put(self.applied[place:])]

    # --- what was known before ---

    def remember(self, ticks: int) -> None:
        """From now on keep what was known in the last so many microseconds."""
        if not self.past:
            self.past = [(_FIRST, self.loaded.merge([]))]
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
        return max(0, bisect_right(self.past, time, key=lambda each: each[0]) - 1)

    def background(self, place: int) -> KnowledgeSource:
        """What was known from a time of `past` on."""
        return self._then(place)[0]

    @contextmanager
    def at(self, place: int) -> Iterator[None]:
        """In the block that is known which was known from a time of `past` on. No step is made there."""
        if place == len(self.past) - 1:
            yield
            return
        then = self._then(place)[1]
        offers = {name: each.relation for name, each in self.known.offers.items()}
        tables = {name: self._stored(name).rows() for name in then.tables}
        areas = self.pool.areas
        self._show(then)
        try:
            yield
        finally:
            for name, rows in tables.items():
                self._stored(name).take_on(rows)
            self._show(PreparedChange(0, b"", {}, offers, areas))

    def _then(self, place: int) -> tuple[KnowledgeSource, PreparedChange]:
        if place not in self._seen:
            if len(self._seen) == STATES:
                del self._seen[next(iter(self._seen))]
            time, change = self.past[place][0], self.loaded.merge([each for _, each in self.past[: place + 1]])
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
            self.past = [(_FIRST, change)]
            return
        self.past.append((time, change))
        while len(self.past) > 1 and self.past[1][0] <= time - self._remember:
            self.past[:2] = [(self.past[1][0], self.loaded.merge([self.past[0][1], self.past[1][1]]))]

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

    # --- state ---

    def codes(self) -> list[Ints]:
        """The pool codes in tables that were replaced or edited, or will be."""
        found: list[Ints] = [column for name in self.touched for column in self._stored(name).codes()]
        found += self._tables.codes()
        for name, each in (self.over or {}).items():
            found += [column for column, type in zip(each.columns, self._types(name)) if type in CODED]
        past = (moment for _, moment in self._seen.values())
        for moment in (*past, *self.pending):
            edited = [(name, rows) for name, both in moment.edits.items() for rows in both]
            for name, (columns, _) in (*moment.tables.items(), *edited):
                found += [column for column, type in zip(columns, self._types(name)) if type in CODED]
        return found

    def _types(self, name: str) -> Sequence[str | None]:
        return (self.known.tables.get(name) or self.statics.relations[name]).types

    def snapshot(self) -> pa.RecordBatch:
        """All changes: those applied as one, at the time MISSING, and where goals ask what was known the last of them
        besides; then those to come."""
        applied = [(MISSING, self.loaded.net(self.applied))] if self.applied else []
        if self.late and self.applied:
            applied = [(MISSING, self.loaded.net([self.past[0][1]])), *self.past[1:]]
        rows = applied + [(moment.time, moment.change) for moment in self.pending]
        return pa.RecordBatch.from_arrays(
            [
                pa.array([time for time, _ in rows], pa.int64()),
                pa.array([each for _, each in rows], pa.binary()),
                pa.array([number < len(applied) for number in range(len(rows))], pa.bool_()),
            ],
            ["time", "change", "applied"],
        )

    def restore(self, batch: pa.RecordBatch) -> None:
        """Take on the changes of a snapshot over the same knowledge."""
        self.pending, self.applied, self._ahead, self.over, self._before = [], [], None, None, None
        self._times = []
        changes = list(zip(batch["time"].to_pylist(), batch["change"].to_pylist()))
        applied = sum(batch["applied"].to_pylist()) if "applied" in batch.schema.names else 0
        if self.touched and (not changes or changes[0][0] != MISSING):  # back to what was loaded
            changes.insert(0, (MISSING, self.loaded.merge([])))
            applied += 1
        while changes and (applied > 0 or changes[0][0] == MISSING):
            time, change = changes.pop(0)
            self.add(time, change)
            self.reach(time)
            applied -= 1
        self.add_all(changes)
