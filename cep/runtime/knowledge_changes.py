"""Knowledge that changes over time. The tables after each change are computed before the change takes effect."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from cep.core.errors import CepError
from cep.core.relation import Column
from cep.core.schema import CODED
from cep.core.time import END_OF_TIME
from cep.core.values import MISSING, Areas, Ints, Pool
from cep.plan.algebra import Rules, Triples
from cep.rules.conditions.relations import Relation
from cep.rules.expressions.typed import a
from cep.rules.static.datalog import Statics
from cep.rules.static.maintained import Edit, Maintained, edit_between
from cep.rules.static.materialized import ALWAYS, NEVER, CountedColumns, MaterializedRelation, words
from cep.runtime.knowledge_source import Answers, KnowledgeSource, ProgramKnowledge, pattern_answers, relation


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """A change of the knowledge, and the knowledge that is valid from its time on.

    - `tables`: the whole tables that the change replaces, by predicate.
    - `offers`: the predicates that the knowledge source offers to conditions.
    - `areas`: the lookup from places to their shapes.
    - `edits`: for each table that the change only edits, the removed rows and the added rows.
    """

    time: int
    change: bytes
    tables: Mapping[str, CountedColumns]
    offers: Mapping[str, Relation]
    areas: Areas | None
    edits: Mapping[str, tuple[CountedColumns, CountedColumns]] = field(default_factory=dict)


@dataclass(slots=True)
class PastChange:
    """A change of the knowledge that has taken effect. The first one in a history combines all changes up to its time.

    `whole`: the knowledge from the change's time on, or None if it is not stored.
    """

    time: int
    change: bytes
    whole: PreparedChange | None = None


@dataclass(frozen=True, slots=True)
class TimedTable:
    """The rows of a table, each with its period of validity. A row is valid in [`since`, `until`). The periods of equal
    rows do not overlap."""

    columns: tuple[Column, ...]
    since: Ints
    until: Ints

    def at(self, time: int) -> CountedColumns:
        """Return the rows that are valid at `time`, and their number."""
        valid_rows = np.flatnonzero((self.since <= time) & (time < self.until))
        return tuple(column[valid_rows] for column in self.columns), len(valid_rows)


class KnowledgeTables:
    """The knowledge tables after the last change. If possible, the next change only edits them.

    The column types of tables never change after the program has been compiled. After the first change, the rows of
    static rules are sorted by value. So their order does not depend on how changes were grouped.
    """

    def __init__(
        self, rules: Rules, known: ProgramKnowledge, statics: Statics, facts: Mapping[str, pl.DataFrame], pool: Pool
    ) -> None:
        self.rules, self.known, self.statics, self.facts, self.pool = rules, known, statics, facts, pool
        self.forget()

    def forget(self) -> None:
        """Drop the tables. The caller does this if the next change does not follow the last change directly."""
        self._follows = False
        self._maintained: Maintained | None = None
        self._whole: dict[str, tuple[Answers, CountedColumns]] = {}  # the tables that were last queried anew
        self._offers: Mapping[str, Relation] = {}
        self._areas: Areas | None = None

    def moment(self, time: int, change: bytes, background: KnowledgeSource) -> PreparedChange:
        """Return the tables after a change that `background` has just applied.

        Raises CepError if a new value does not fit the type of its column.
        """
        areas, follows = background.areas(), self._follows
        if not follows or areas != self._areas:
            self._offers, self._areas = background.relations(self.pool), areas
            follows = follows and not self.rules.statics
        self._follows = False  # until the change has succeeded
        if not follows:
            tables = self._anew(background)
            edits: dict[str, Edit] = {}
        else:
            tables, edits = self._differences(background)
        self._follows = True
        return PreparedChange(time, change, tables, self._offers, areas, edits)

    def whole(self, time: int, change: bytes, background: KnowledgeSource) -> PreparedChange:
        """Return the tables after a change by querying all of them from `background`. The stored tables are not
        used."""
        tables = KnowledgeTables(self.rules, self.known, self.statics, self.facts, self.pool)
        return tables.moment(time, change, background)

    def codes(self) -> list[Ints]:
        """Return the pool codes in the tables that this object stores."""
        if self._maintained is None:
            return []
        tables = (*self._maintained.tables.values(), *self._maintained.derived.values())
        return [column for table in tables for column in table.codes()]

    def _anew(self, background: KnowledgeSource) -> dict[str, CountedColumns]:
        self._whole = {}
        columns_by_name = {name: self._query(name, background)[1] for name in self.rules.asked}
        if self.rules.statics:
            tables = {name: MaterializedRelation(name, self.known.tables[name].types) for name in columns_by_name}
            for name, table in tables.items():
                table.add(*columns_by_name[name])
            relations = {name: relation(self.rules.asked[name], table) for name, table in tables.items()}
            relations |= {name: offer for name, offer in self._offers.items() if name in self.known.offers}
            maintained = self._closed(relations, tables)
            for name, table in maintained.derived.items():
                assert table.types == self.statics.relations[name].types, "what has no other types makes none"
                columns_by_name[name] = maintained.rows(name)
            self._maintained = maintained
        return columns_by_name

    def _closed(self, relations: Mapping[str, Relation], tables: Mapping[str, MaterializedRelation]) -> Maintained:
        present, self.pool.areas = self.pool.areas, self._areas
        try:
            return Maintained(
                self.rules.statics, self.facts, self.pool, self.rules.source, relations, tables, self.rules.declared
            )
        finally:
            self.pool.areas = present

    def _differences(self, background: KnowledgeSource) -> tuple[dict[str, CountedColumns], dict[str, Edit]]:
        whole: dict[str, CountedColumns] = {}
        edits: dict[str, Edit] = {}
        for name in self.rules.asked:
            difference = self._difference(name, background)
            if difference is None:
                before = self._whole.get(name)
                answered, rows = self._query(name, background)
                if before is None or (before[0] is not answered and not _equal(before[1], rows)):
                    whole[name] = rows
            elif difference[0][1] or difference[1][1]:
                edits[name] = difference
                self._whole.pop(name, None)
        maintained = self._maintained
        if maintained is not None and (whole or edits):
            edits |= {name: edit_between(maintained.tables[name], rows) for name, rows in whole.items()}
            present, self.pool.areas = self.pool.areas, self._areas
            try:
                edits |= maintained.change(edits)
            finally:
                self.pool.areas = present
            whole = {}
        return whole, edits

    def _difference(self, name: str, background: KnowledgeSource) -> Edit | None:
        """Return the rows that a change removes from a table, and the rows that it adds. Returns None if the table must
        be queried anew."""
        difference = background.difference(self.rules.asked[name], self.pool)
        if difference is None:
            return None
        fitted: list[CountedColumns] = []
        for counted in difference:
            columns: list[Column] = []
            for column, type, wanted in zip(counted.columns, counted.types, self.known.tables[name].types):
                same_type = refitted(column, type, wanted, self.pool)
                if same_type is None:
                    return None
                columns.append(same_type)
            fitted.append((columns, counted.rows))
        return fitted[0], fitted[1]

    def _query(self, name: str, background: KnowledgeSource) -> tuple[Answers, CountedColumns]:
        pattern, stored = self.rules.asked[name], self.known.tables[name]
        answered = pattern_answers(background, pattern, self.pool, self.rules.source)
        columns = tuple(
            self._fitted(name, i, answered.columns[i], type, stored.types[i]) for i, type in enumerate(answered.types)
        )
        self._whole[name] = answered, (columns, answered.rows)
        return self._whole[name]

    def _fitted(self, name: str, place: int, column: Column, type: str, wanted: str) -> Column:
        fitted = refitted(column, type, wanted, self.pool)
        if fitted is not None:
            return fitted
        pattern = self.rules.asked[name]
        if isinstance(pattern, Triples):
            what, span = "a position of `triple`", pattern.span
        else:
            what, span = f"`?{pattern.variables[place]}` of the graph pattern", pattern.span
        if (name, place) in self.known.supposed:
            message = f"after this change {what} is {a(type)}, but the rules use it as {a(wanted)}"
            hint = "types cannot change later; if no value is loaded, the use in the rules decides the type"
        else:
            message = f"after this change {what} is {a(type)}, but it was {a(wanted)} when it was read"
            hint = "types cannot change later; one value of the new type in the loaded knowledge allows both"
        raise CepError(message, self.rules.source, span, hint, "type")


def _equal(some: CountedColumns, others: CountedColumns) -> bool:
    return some[1] == others[1] and np.array_equal(words(*some), words(*others))


def refitted(column: Column, type: str, wanted: str, pool: Pool) -> Column | None:
    """Convert a column from `type` to the type `wanted`. Returns None if the type `wanted` cannot represent all
    values."""
    if type == wanted or (type in ("string", "iri") and wanted == "any"):
        return column
    absent: Any = np.isnan(column) if type == "float" else np.equal(column, MISSING)
    if absent.all():
        return np.full(len(column), np.nan) if wanted == "float" else np.full(len(column), MISSING)
    if wanted == "float" and type == "int":
        exact = absent | (np.abs(column) <= 2**53)
        return np.where(absent, np.nan, column.astype(np.float64)) if exact.all() else None
    if wanted == "int" and type == "float":  # in an `int` column, 4.0 is 4
        exact = absent | ((np.floor(column) == column) & (np.abs(column) <= 2**53))
        return np.where(absent, MISSING, np.where(absent, 0, column).astype(np.int64)) if exact.all() else None
    if wanted != "any":
        return None
    if type == "float":
        return pool.encode_floats(column)
    if type == "bool":
        return pool.encode_bools(column)
    return pool.encode_ints(column) if type == "int" else pool.encode_ticks(column)


_FIRST = -(2**62)

STATES = 4
"""The number of past states of the knowledge that are kept in memory after they were queried."""
TABLES = 64
"""The number of recent changes whose tables are kept."""


@dataclass(slots=True)
class KnowledgePast:
    """The knowledge at past times.

    - `facts`: the tables that the caller passed. The column types of tables never change after the program has been
      compiled.
    - `past`: the changes up to now, if they are remembered. The first element combines all changes up to its time.
    - `late`: how far behind the watermark goals query the knowledge, in microseconds. It is None if no goal does this.
    """

    rules: Rules
    loaded: KnowledgeSource
    known: ProgramKnowledge
    statics: Statics
    facts: Mapping[str, pl.DataFrame]
    pool: Pool
    touched: set[str] = field(default_factory=set)  # the tables that have changed since the start
    past: list[PastChange] = field(default_factory=list)
    late: int | None = None
    kept_since: int | None = None  # the earliest time that may be queried again; None: only `_remember` counts
    _times: list[int] = field(default_factory=list)  # the times of changes that goals may still query
    _seen: dict[int, tuple[KnowledgeSource, PreparedChange]] = field(default_factory=dict)  # by index in `past`
    _remember: int = 0
    _shown: int | None = None  # the index in `past` of the tables in use; None: the last
    _tables: KnowledgeTables = field(init=False)

    def __post_init__(self) -> None:
        self._tables = KnowledgeTables(self.rules, self.known, self.statics, self.facts, self.pool)

    def remember(self, ticks: int) -> None:
        """Remember the knowledge of the last `ticks` microseconds from now on."""
        if not self.past:
            self.past = [PastChange(_FIRST, self.loaded.merge([]))]
        self._remember = max(ticks, self._remember)

    def follow(self, late: int) -> None:
        self.late = max(late, self.late or 0)
        if late:
            self.remember(min(late, -_FIRST))

    def changed(self, after: int, until: int) -> list[int]:
        return self._times[bisect_right(self._times, after) : bisect_right(self._times, until)]

    def known_at(self, time: int) -> AbstractContextManager[None]:
        return self.at(self.place(time)) if self.late else nullcontext()

    def place(self, time: int) -> int:
        """Return the index in `past` of the last change that took effect at or before `time`. Returns 0 if there is no
        such change."""
        return max(0, bisect_right(self.past, time, key=lambda prepared: prepared.time) - 1)

    def background(self, place: int) -> KnowledgeSource:
        """Return a knowledge source to which the changes of `past` up to the index `place` have been applied."""
        return self._then(place)[0]

    @contextmanager
    def at(self, place: int) -> Iterator[None]:
        """Use the knowledge after the change `past[place]` inside a `with` block. No goal may step inside this
        block."""
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
        """Restore the current tables at the end of a `with` block, in which other tables may replace them."""
        offers = {name: offer.relation for name, offer in self.known.offers.items()}
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
        heads = dict.fromkeys(rule.name for rule in self.rules.statics)
        return [*self.rules.asked, *(n for n in heads if isinstance(self.statics.relations[n], MaterializedRelation))]

    def _then(self, place: int) -> tuple[KnowledgeSource, PreparedChange]:
        if place not in self._seen:
            if len(self._seen) == STATES:
                del self._seen[next(iter(self._seen))]
            time, change = self.past[place].time, self.loaded.merge([entry.change for entry in self.past[: place + 1]])
            background = self.loaded.fork(apart=True)
            background.apply(change)
            self._seen[place] = background, self._tables.whole(time, change, background)
        return self._seen[place]

    def _pass(self, time: int, change: bytes) -> None:
        if self.late is not None and time != MISSING:
            kept = [late_time for late_time in self._times if late_time > time - self.late and late_time < time]
            self._times = [*kept, time]
        if not self.past:
            return
        self._seen.clear()
        if time == MISSING:  # a snapshot has only the sum of earlier changes
            self.past = [PastChange(_FIRST, change)]
            return
        self.past.append(PastChange(time, change))
        self.keep_from(time, self.kept_since)

    def keep_from(self, now: int, since: int | None) -> None:
        """Drop the knowledge before `since`, except for the period set by `remember`. `now`: the current time."""
        self.kept_since = since
        until = now - self._remember
        until = until if since is None else min(until, since - (self.late or 0))
        while len(self.past) > 1 and self.past[1].time <= until:
            first, second = self.past[:2]
            both = self.loaded.merge([first.change, second.change])
            self.past[:2] = [PastChange(second.time, both, second.whole)]
            self._seen.clear()
        for prepared in self.past[:-TABLES]:
            prepared.whole = None

    # --- another history ---

    @contextmanager
    def going_by(self, past: list[PastChange]) -> Iterator[None]:
        """Use `past` as the history of the knowledge inside a `with` block. `show` then selects a point of this
        history.

        No change may be added inside the block.
        """
        before = self.past, self._times, self._seen, self._shown
        with self.put_back():
            self.past, self._times, self._seen, self._shown = past, [], {}, -1
            try:
                yield
            finally:
                self.past, self._times, self._seen, self._shown = before

    def show(self, place: int) -> None:
        """Use the knowledge after the change `past[place]`. Call this method only inside a `with` block of
        `going_by`."""
        moment = self.past[place]
        assert moment.whole is not None, "it was prepared"
        self._times = sorted({prepared.time for prepared in self.past[1 : place + 1]})
        if place != self._shown:
            self._show(moment.whole)
            self._shown = place

    def prepare(self, past: Sequence[PastChange], first: int, last: int) -> None:
        """Compute the tables after each change of a history, for the changes from index `first` to index `last`.

        Raises CepError if a change cannot be applied.
        """
        background: KnowledgeSource | None = None
        for place in range(first, last + 1):
            moment = past[place]
            if moment.whole is not None:
                background = None
                continue
            if background is None:
                background = self.loaded.fork(apart=True)
                background.apply(self.loaded.merge([prepared.change for prepared in past[: place + 1]]))
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


COMPACT = 64
"""The number of applied changes that are kept separately before some of them are merged."""


@dataclass(slots=True)
class KnowledgeChanges(KnowledgePast):
    """All changes of one engine's knowledge: applied changes, and pending changes, which take effect later.

    - `news`: the applied changes that the engine's follower has not fetched yet. It is None if the engine has no
      follower.
    - `anew`: True if a change arrived late. The follower must then start again from all changes in `applied`.
    - `over`: tables whose rows have validity times, computed by one query over all pending changes. The elements of
      `pending` then contain no tables. It is None if one query cannot compute such tables, or if goals query past
      knowledge.
    - `given_by`: the history on which the results so far are based, if changes have arrived late since then. It is None
      if this history is `past`.
    - `come_late`: the changes that arrived late and are not in `given_by`.
    """

    pending: list[PreparedChange] = field(default_factory=list)
    applied: list[bytes] = field(default_factory=list)
    news: list[bytes] | None = None
    anew: bool = False
    over: dict[str, TimedTable] | None = None
    given_by: list[PastChange] | None = None
    come_late: list[tuple[int, bytes]] = field(default_factory=list)
    _ahead: KnowledgeSource | None = None  # the knowledge after all pending changes
    _before: KnowledgeSource | None = None  # the knowledge when `over` was filled
    _tries: int = 0  # attempts to fill `over` since the last success
    _since: list[bytes] = field(default_factory=list)  # the changes in `over` that have taken effect

    # --- new changes ---

    def add(self, time: int, change: bytes) -> None:
        """Add a change that takes effect at `time`.

        Raises CepError if the change cannot be applied. The knowledge is then unchanged.
        """
        if self.over is not None:
            return self.add_all([(time, change)])
        place = bisect_right(self.pending, time, key=lambda moment: moment.time)
        later = [(moment.time, moment.change) for moment in self.pending[place:]]
        background = self._ahead
        if background is None or later:
            background = self.loaded.fork(apart=True)
            background.apply(self.loaded.merge([*self.applied, *(moment.change for moment in self.pending[:place])]))
            self._tables.forget()
        self._ahead = None  # until the change has succeeded
        prepared = self.pending[:place]
        for when, later_change in [(time, change), *later]:
            background.apply(later_change)
            prepared.append(self._tables.moment(when, later_change, background))
        self.pending, self._ahead = prepared, background
        background.forget()

    def add_all(self, changes: Sequence[tuple[int, bytes]]) -> None:
        """Add changes and the times at which they take effect.

        Raises CepError if one of them cannot be applied. The knowledge is then unchanged.
        """
        known = [(moment.time, moment.change) for moment in self.pending]
        every = sorted([*known, *changes], key=lambda timed_change: timed_change[0])
        if len(every) > 1 and self._add_over(every):
            return
        before = self.pending, self.over, self._ahead, self._before
        if self.over is not None:  # from now on, changes are added one by one
            self.pending, self.over, self._ahead, self._before = [], None, None, None
            changes = every
        try:
            for time, change in sorted(changes, key=lambda timed_change: timed_change[0]):
                self.add(time, change)
        except CepError:
            self.pending, self.over, ahead, self._before = before
            self._ahead = None if self.over is None else ahead  # without `over`, it may have been changed
            raise

    def _add_over(self, changes: Sequence[tuple[int, bytes]]) -> bool:
        """Fill `over` by one query over all pending changes. Returns False if the source does not support such a query.

        `changes`: the pending changes, each after the time at which it takes effect; sorted by time.
        """
        self._tries += 1
        if (
            self.late is not None or self.rules.statics or self._tries & (self._tries - 1)
        ):  # tried ever more rarely after failures
            return False
        before = self._now()
        overlaid = before.over(changes, self.rules.asked, self.pool)
        if overlaid is None:
            return False
        over: dict[str, TimedTable] = {}
        for name, span in overlaid[1].items():
            types = self.known.tables[name].types
            columns = [refitted(c, t, w, self.pool) for c, t, w in zip(span.answers.columns, span.answers.types, types)]
            if any(column is None for column in columns):
                return False
            if (span.since != ALWAYS).any() or (span.until != NEVER).any():
                over[name] = TimedTable(
                    tuple(column for column in columns if column is not None), span.since, span.until
                )
        self._tries = 0
        self.pending = [PreparedChange(time, change, {}, {}, None) for time, change in changes]
        self.over, self._ahead, self._before, self._since = over, overlaid[0], before, []
        self._tables.forget()
        overlaid[0].forget()
        return True

    def _now(self) -> KnowledgeSource:
        if not self.pending and self._ahead is not None:
            return self._ahead
        changes = self.applied if self._before is None else self._since
        background = self.loaded.fork(apart=True) if self._before is None else self._before.fork()
        if changes:
            background.apply(self.loaded.merge(changes))
        return background

    # --- changes take effect ---

    def due(self, watermark: int) -> list[int]:
        """Return the times up to `watermark` at which pending changes take effect, in ascending order."""
        return sorted({moment.time for moment in self.pending if moment.time <= watermark})

    @contextmanager
    def as_they_come(self) -> Iterator[None]:
        """Use the tables of `over` inside a `with` block. A query for an occurrence then uses the rows that are valid
        at the end of the occurrence."""
        assert self.over is not None, "tables have times"
        for name, timed_table in self.over.items():
            self.known.tables[name].replace_timed(timed_table.columns, timed_table.since, timed_table.until)
        yield  # after an exception in the block, the engine is not used any more

    def reach(self, time: int) -> None:
        """Apply all changes up to `time`."""
        if self.over is not None:
            for name, timed_table in self.over.items():
                self.known.tables[name].replace(*timed_table.at(time))
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
        """Merge some of the last changes in `applied` into one. Their sizes decide which ones are merged, so that each
        change is merged only a few times."""
        if len(self.applied) <= COMPACT:
            return
        place, after = len(self.applied) - 1, len(self.applied[-1])
        while place and (len(self.applied[place - 1]) <= 2 * after or place > COMPACT // 2):
            place -= 1
            after += len(self.applied[place])
        put = self.loaded.merge if place else self.loaded.net
        self.applied[place:] = [put(self.applied[place:])]

    # --- late changes ---

    def add_late(self, changes: Sequence[tuple[int, bytes]], watermark: int) -> None:
        """Add changes, some of which take effect at or before `watermark`.

        Raises CepError if one of them cannot be applied. The knowledge is then unchanged.
        """
        past, late = list(self.past), [change for change in changes if change[0] <= watermark]
        first = len(past)
        for time, change in late:
            place = bisect_right(past, time, key=lambda past_change: past_change.time)
            past.insert(place, PastChange(time, change))
            first = min(first, place)
        past[first:] = [PastChange(prepared.time, prepared.change) for prepared in past[first:]]
        self.prepare(past, first, len(past) - 1)
        pending = [(prepared.time, prepared.change) for prepared in self.pending]
        before = self.past
        self._put_right(past, [*pending, *(change for change in changes if change[0] > watermark)])
        self.given_by = before if self.given_by is None else self.given_by
        self.come_late += late
        self.anew = self.news is not None

    def _put_right(self, past: list[PastChange], pending: Sequence[tuple[int, bytes]]) -> None:
        """Replace the history by `past` and the pending changes by `pending`, after changes have arrived late.

        Raises CepError if a change cannot be applied. The knowledge is then unchanged.
        """
        before = self.past, self.applied, self.pending, self.over, self._before, self._since, self._times
        last = past[-1].whole
        assert last is not None, "it was prepared"
        self._ahead = None
        self._tables.forget()
        try:
            with self.put_back():
                self.past, self.applied = past, [past_change.change for past_change in past]
                self.pending, self.over, self._before, self._since = [], None, None, []
                self._times = sorted({past_change.time for past_change in past[1:]})
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
        """Return the pool codes in all tables that applied or pending changes have replaced or edited."""
        code_columns: list[Ints] = [column for name in self.touched for column in self._stored(name).codes()]
        code_columns += self._tables.codes()
        for name, timed_table in (self.over or {}).items():
            code_columns += [column for column, type in zip(timed_table.columns, self._types(name)) if type in CODED]
        past = [moment for _, moment in self._seen.values()]
        past += [change.whole for change in (*self.past, *(self.given_by or ())) if change.whole is not None]
        for moment in (*past, *self.pending):
            edited = [(name, rows) for name, both in moment.edits.items() for rows in both]
            for name, (columns, _) in (*moment.tables.items(), *edited):
                code_columns += [column for column, type in zip(columns, self._types(name)) if type in CODED]
        return code_columns

    def snapshot(self) -> pa.RecordBatch:
        """Return all changes as a batch: the applied ones, the pending ones, and those that arrived late.

        If past knowledge is not remembered, the applied changes are merged into one change, whose time is MISSING.
        Otherwise, only the first change of the history has the time MISSING, and the later changes follow with their
        times.
        """
        applied = [(MISSING, self.loaded.net(self.applied))] if self.applied else []
        if self.past and self.applied:
            past = self.past if self.given_by is None else self.given_by
            applied = [(MISSING, self.loaded.net([past[0].change])), *((edit.time, edit.change) for edit in past[1:])]
        rows = applied + [(moment.time, moment.change) for moment in self.pending] + self.come_late
        columns = {
            "time": pa.array([time for time, _ in rows], pa.int64()),
            "change": pa.array([change_blob for _, change_blob in rows], pa.binary()),
            "applied": pa.array([number < len(applied) for number in range(len(rows))], pa.bool_()),
        }
        if self.come_late:
            first = len(rows) - len(self.come_late)
            columns["late"] = pa.array([number >= first for number in range(len(rows))], pa.bool_())
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    def restore(self, batch: pa.RecordBatch) -> None:
        """Restore the changes in a snapshot. The loaded knowledge must be the same as when the snapshot was made."""
        changes = list(zip(batch["time"].to_pylist(), batch["change"].to_pylist()))
        number = sum(batch["late"].to_pylist()) if "late" in batch.schema.names else 0
        late = changes[len(changes) - number :]
        del changes[len(changes) - number :]
        applied = sum(batch["applied"].to_pylist()) if "applied" in batch.schema.names else 0
        self._begin_again(changes[:applied], changes[applied:])
        if late:
            self.add_late(late, max(time for time, _ in late))

    def know(self, changes: Sequence[tuple[int, bytes]], watermark: int) -> None:
        """Replace all changes by `changes`, which take effect at or before `watermark`.

        Raises CepError if a change cannot be applied. The caller must then call `know` again with other changes.
        """
        ordered = sorted(changes, key=lambda timed_change: timed_change[0])
        floor = watermark - max(self.late or 0, self._remember) if self.past else END_OF_TIME
        if self.kept_since is not None:
            floor = min(floor, self.kept_since - (self.late or 0))
        old = [change for time, change in ordered if time <= floor]
        merged = [(MISSING, self.loaded.merge(old))] if old else []
        self._begin_again([*merged, *(timed_change for timed_change in ordered if timed_change[0] > floor)], [])

    def _begin_again(self, applied: list[tuple[int, bytes]], pending: Sequence[tuple[int, bytes]]) -> None:
        """Replace all changes. The changes in `applied` take effect now. The changes in `pending` take effect at their
        times.

        A first applied change with the time MISSING has been valid since the beginning of time.
        """
        changed = bool(self.touched or self.applied)
        self.pending, self.applied, self._ahead, self.over, self._before = [], [], None, None, None
        self._times, self.given_by, self.come_late = [], None, []
        if changed and (not applied or applied[0][0] != MISSING):  # first return to the loaded knowledge
            applied = [(MISSING, self.loaded.merge([])), *applied]
        for time, change in applied:
            self.add(time, change)
            self.reach(time)
        self.add_all(pending)
