"""Knowledge that changes: what is known from when on, ready in tables before its time comes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from cep.core.errors import CepError
from cep.core.schema import CODED
from cep.core.values import MISSING, Ints
from cep.rules.static.materialized import ALWAYS, NEVER
from cep.runtime.knowledge_past import KnowledgePast
from cep.runtime.knowledge_source import KnowledgeSource
from cep.runtime.knowledge_tables import refitted
from cep.runtime.prepared_change import PastChange, PreparedChange, TimedTable

COMPACT = 64
"""Changes that are kept one by one before they are put together."""


@dataclass(slots=True)
class KnowledgeChanges(KnowledgePast):
    """The changes of the knowledge of one engine: those applied, and those whose time has not come.

    `news`: the changes since a follower last took them, None: nobody follows; `anew`: a change came late since, so
    that a follower begins again with all that were `applied`. `over`: the tables from now until after all pending
    changes, where that is known of all of them at once; their moments then hold no tables. Where goals follow the
    knowledge (`late`) all changes are made one by one. `given_by`: the past that what was given goes by, where changes
    have `come_late` since, None: what is past.
    """

    pending: list[PreparedChange] = field(default_factory=list)
    applied: list[bytes] = field(default_factory=list)
    news: list[bytes] | None = None
    anew: bool = False
    over: dict[str, TimedTable] | None = None
    given_by: list[PastChange] | None = None
    come_late: list[tuple[int, bytes]] = field(default_factory=list)
    _ahead: KnowledgeSource | None = None  # as it is after all pending changes
    _before: KnowledgeSource | None = None  # as it was when pending ones were put into `over`
    _tries: int = 0  # to have them `over` since this went well
    _since: list[bytes] = field(default_factory=list)  # those of them whose time came

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

    # --- changes come late ---

    def add_late(self, changes: Sequence[tuple[int, bytes]], watermark: int) -> None:
        """Take changes, some of which hold from a time on that has come. Raises CepError, and changes nothing, where
        one of them cannot be."""
        past, late = list(self.past), [each for each in changes if each[0] <= watermark]
        first = len(past)
        for time, change in late:
            place = bisect_right(past, time, key=lambda each: each.time)
            past.insert(place, PastChange(time, change))
            first = min(first, place)
        past[first:] = [PastChange(each.time, each.change) for each in past[first:]]
        self.prepare(past, first, len(past) - 1)
        pending = [(each.time, each.change) for each in self.pending]
        before = self.past
        self._put_right(past, [*pending, *(each for each in changes if each[0] > watermark)])
        self.given_by = before if self.given_by is None else self.given_by
        self.come_late += late
        self.anew = self.news is not None

    def _put_right(self, past: list[PastChange], pending: Sequence[tuple[int, bytes]]) -> None:
        """From now on this was known when, and these changes are to come. CepError: one cannot be, and nothing
        changes."""
        before = self.past, self.applied, self.pending, self.over, self._before, self._since, self._times
        last = past[-1].whole
        assert last is not None, "it was prepared"
        self._ahead = None
        self._tables.forget()
        try:
            with self.put_back():
                self.past, self.applied = past, [each.change for each in past]
                self.pending, self.over, self._before, self._since = [], None, None, []
                self._times = sorted({each.time for each in past[1:]})
                self._show(last)
                if pending:
                    self.add_all(pending)
        except CepError:
            self.past, self.applied, self.pending, self.over, self._before, self._since, self._times = before
            self._ahead = None
            self._tables.forget()
            raise
        self._show(last)
        self._seen.clear()

    # --- state ---

    def codes(self) -> list[Ints]:
        """The pool codes in tables that were replaced or edited, or will be."""
        found: list[Ints] = [column for name in self.touched for column in self._stored(name).codes()]
        found += self._tables.codes()
        for name, each in (self.over or {}).items():
            found += [column for column, type in zip(each.columns, self._types(name)) if type in CODED]
        past = [moment for _, moment in self._seen.values()]
        past += [each.whole for each in (*self.past, *(self.given_by or ())) if each.whole is not None]
        for moment in (*past, *self.pending):
            edited = [(name, rows) for name, both in moment.edits.items() for rows in both]
            for name, (columns, _) in (*moment.tables.items(), *edited):
                found += [column for column, type in zip(columns, self._types(name)) if type in CODED]
        return found

    def snapshot(self) -> pa.RecordBatch:
        """All changes: those applied as one, at the time MISSING, and where it is asked what was known the last of them
        besides; then those to come, and those that have come late."""
        applied = [(MISSING, self.loaded.net(self.applied))] if self.applied else []
        if (self.late or self.kept_since is not None) and self.applied:
            past = self.past if self.given_by is None else self.given_by
            applied = [(MISSING, self.loaded.net([past[0].change])), *((each.time, each.change) for each in past[1:])]
        rows = applied + [(moment.time, moment.change) for moment in self.pending] + self.come_late
        columns = {
            "time": pa.array([time for time, _ in rows], pa.int64()),
            "change": pa.array([each for _, each in rows], pa.binary()),
            "applied": pa.array([number < len(applied) for number in range(len(rows))], pa.bool_()),
        }
        if self.come_late:
            first = len(rows) - len(self.come_late)
            columns["late"] = pa.array([number >= first for number in range(len(rows))], pa.bool_())
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    def restore(self, batch: pa.RecordBatch) -> None:
        """Take on the changes of a snapshot over the same knowledge."""
        self.pending, self.applied, self._ahead, self.over, self._before = [], [], None, None, None
        self._times, self.given_by, self.come_late = [], None, []
        changes = list(zip(batch["time"].to_pylist(), batch["change"].to_pylist()))
        number = sum(batch["late"].to_pylist()) if "late" in batch.schema.names else 0
        late = changes[len(changes) - number :]
        del changes[len(changes) - number :]
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
        if late:
            self.add_late(late, max(time for time, _ in late))
