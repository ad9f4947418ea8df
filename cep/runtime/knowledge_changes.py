"""Knowledge that changes over time.

A change edits the tables that rules query, from its time on. A query for an occurrence finds what is known at its end.
So a change can be applied long before it takes effect, or later.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from cep.core.errors import CepError
from cep.core.relation import Column
from cep.core.time import END_OF_TIME
from cep.core.values import MISSING, Ints, Pool
from cep.plan.algebra import Rules, Triples
from cep.rules.expressions.typed import a
from cep.rules.static.datalog import Statics
from cep.rules.static.maintained import Edit, Maintained, edit_between
from cep.rules.static.materialized import MaterializedRelation
from cep.runtime.knowledge_source import Answers, KnowledgeSource, ProgramKnowledge, pattern_answers

_FIRST = -(2**62)

SOURCES = 4
"""The number of knowledge sources that are kept in memory for past times, after they were queried."""
COMPACT = 64
"""The number of applied changes that are kept separately before some of them are merged."""


@dataclass(slots=True)
class KnowledgeChange:
    """A change of the knowledge. `late`: True if it has arrived late and results do not reflect it yet."""

    time: int
    change: bytes
    late: bool = False


_time = attrgetter("time")


class KnowledgeTables:
    """The tables and other relations that rules query. The column types of tables never change after the program has
    been compiled."""

    def __init__(
        self, rules: Rules, known: ProgramKnowledge, statics: Statics, facts: Mapping[str, pl.DataFrame], pool: Pool
    ) -> None:
        self.rules, self.known, self.statics, self.facts, self.pool = rules, known, statics, facts, pool
        heads = dict.fromkeys(rule.name for rule in rules.statics)
        derived = [relation for name in heads if isinstance(relation := statics.relations[name], MaterializedRelation)]
        self.tables: tuple[MaterializedRelation, ...] = (*known.tables.values(), *derived)
        self.edited = False  # True if there has been a change
        self._maintained: Maintained | None = None
        self.forget_answers()

    def forget_answers(self) -> None:
        """Query all tables anew after the next change, because it does not follow the last change directly."""
        self._follows = False
        self._answers: dict[str, Answers] = {}  # of the tables that were last queried anew

    def edit(self, time: int, background: KnowledgeSource) -> None:
        """Edit the tables as the last change of `background` requires. The edit takes effect at `time`.

        Raises CepError if a new value does not fit the type of its column. The caller must then undo the edits.
        """
        edits: dict[str, Edit] = {}
        for name in self.rules.asked:
            edit = self._difference(name, background) if self._follows else None
            if edit is None:
                edit = self._queried(name, background)
            else:
                self._answers.pop(name, None)
            if edit is not None:
                edits[name] = edit
        self._follows, self.edited = True, True
        areas = background.areas()
        moved = areas != self.pool.areas.latest
        if self.rules.statics and self._maintained is None:
            self._maintained = Maintained(
                self.rules.statics, self.facts, self.pool, self.rules.source, self.statics.relations,
                self.known.tables, self.rules.declared,
            )  # fmt: skip
        if moved:
            self.pool.areas.add(time, areas)
            for name, relation in background.relations(self.pool).items():
                if name in self.known.offers:
                    self.known.offers[name].relations.add(time, relation)
        if self._maintained is not None:
            self._maintained.change(edits, time, moved)
        else:
            for name, edit in edits.items():
                self.known.tables[name].edit(*edit, self.pool, time)
                self.known.tables[name].settle()

    def edit_over(self, changes: Sequence[KnowledgeChange], background: KnowledgeSource) -> KnowledgeSource | None:
        """Edit the tables by several changes of `background`, with one query over all of them. Return the source after
        the last change. Return None, and edit nothing, if the changes must be applied one by one."""
        if self.rules.statics:
            return None
        overlaid = background.over([(change.time, change.change) for change in changes], self.rules.asked, self.pool)
        if overlaid is None:
            return None
        fitted: dict[str, list[Column]] = {}
        for name, spanned in overlaid[1].items():
            columns = self._refitted(name, spanned.answers)
            if columns is None:
                return None
            fitted[name] = columns
        for name, spanned in overlaid[1].items():
            table = self.known.tables[name]
            table.edit_periods(fitted[name], spanned.since, spanned.until, self.pool, changes[0].time)
            table.settle()
        self.edited = True
        self.forget_answers()
        return overlaid[0]

    def undo(self, after: int) -> None:
        """Undo the edits that take effect after a time."""
        for table in self.tables:
            table.undo(after)
        self.pool.areas.undo(after)
        for offer in self.known.offers.values():
            offer.relations.undo(after)
        self.forget_answers()

    def forget(self, until: int) -> None:
        """Forget the rows that no query for the time `until` or a later time can return."""
        if self.edited:
            for table in self.tables:
                table.forget(until)
            self.pool.areas.forget(until)
            for offer in self.known.offers.values():
                offer.relations.forget(until)

    def codes(self) -> list[Ints]:
        """Return the pool codes in the tables, if they have been edited."""
        return [codes for table in self.tables for codes in table.codes()] if self.edited else []

    def _difference(self, name: str, background: KnowledgeSource) -> Edit | None:
        """Return the rows that a change removes from a table, and the rows that it adds. Returns None if the table must
        be queried anew."""
        difference = background.difference(self.rules.asked[name], self.pool)
        if difference is None:
            return None
        gone, new = (self._refitted(name, answers) for answers in difference)
        return None if gone is None or new is None else ((gone, difference[0].rows), (new, difference[1].rows))

    def _queried(self, name: str, background: KnowledgeSource) -> Edit | None:
        """Query all rows of a table, and return how it must be edited. Returns None if its answers have not changed."""
        pattern = self.rules.asked[name]
        answers = pattern_answers(background, pattern, self.pool, self.rules.source)
        if answers is self._answers.get(name):
            return None
        columns = self._refitted(name, answers)
        if columns is None:
            raise self._misfit(name, answers)
        self._answers[name] = answers
        return edit_between(self.known.tables[name], (columns, answers.rows))

    def _refitted(self, name: str, answers: Answers) -> list[Column] | None:
        """Convert answers to the types of a table. Returns None if a type cannot represent all values."""
        columns: list[Column] = []
        for column, type, wanted in zip(answers.columns, answers.types, self.known.tables[name].types):
            fitted = refitted(column, type, wanted, self.pool)
            if fitted is None:
                return None
            columns.append(fitted)
        return columns

    def _misfit(self, name: str, answers: Answers) -> CepError:
        places = enumerate(zip(answers.columns, answers.types, self.known.tables[name].types))
        place, (_, type, wanted) = next((i, both) for i, both in places if refitted(*both, self.pool) is None)
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
        return CepError(message, self.rules.source, span, hint, "type")


def refitted(column: Column, type: str, wanted: str, pool: Pool) -> Column | None:
    """Convert a column from `type` to the type `wanted`. Returns None if `wanted` cannot represent all values."""
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


@dataclass(slots=True)
class KnowledgeChanges:
    """All changes of one engine's knowledge.

    - `facts`: the tables that the caller passed.
    - `base`: the earliest applied changes, whose times are no longer stored. Some of them are merged.
    - `past`: the later applied changes, which may be queried again.
    - `pending`: the changes that take effect later.
    - `late`: how far behind the watermark goals query the knowledge, in microseconds. It is None if no goal does
      this.
    - `kept_since`: the earliest time that may be queried again. If it is None, only the period set by `remember` may
      be queried.
    - `news`: the applied changes that a writer of the knowledge has not fetched yet, or None if there is no writer.
    - `anew`: True if a change arrived late. The writer must then start again from all changes in `applied`.
    - `together`: True if the last changes were added by one query over all of them.
    """

    rules: Rules
    loaded: KnowledgeSource
    known: ProgramKnowledge
    statics: Statics
    facts: Mapping[str, pl.DataFrame]
    pool: Pool
    base: list[bytes] = field(default_factory=list)
    past: list[KnowledgeChange] = field(default_factory=list)
    pending: list[KnowledgeChange] = field(default_factory=list)
    late: int | None = None
    kept_since: int | None = None
    news: list[bytes] | None = None
    anew: bool = False
    together: bool = False
    _remember: int = 0
    _ahead: KnowledgeSource | None = None  # the knowledge after all changes
    _tries: int = 0  # attempts to add changes together since the last success
    _sources: dict[int, KnowledgeSource] = field(default_factory=dict)  # by the number of changes of `past`
    _tables: KnowledgeTables = field(init=False)

    def __post_init__(self) -> None:
        self._tables = KnowledgeTables(self.rules, self.known, self.statics, self.facts, self.pool)

    @property
    def applied(self) -> list[bytes]:
        """The changes that have taken effect."""
        return [*self.base, *(change.change for change in self.past)]

    # --- the past ---

    def remember(self, ticks: int) -> None:
        """Remember the knowledge of the last `ticks` microseconds from now on."""
        self._remember = max(ticks, self._remember)

    def follow(self, late: int) -> None:
        self.late = max(late, self.late or 0)
        self.remember(min(late, -_FIRST))

    def changed(self, after: int, until: int) -> list[int]:
        times: dict[int, None] = {}
        for changes in (self.past, self.pending):
            start, stop = bisect_right(changes, after, key=_time), bisect_right(changes, until, key=_time)
            times |= dict.fromkeys(map(_time, changes[start:stop]))
        return list(times)

    def known_at(self, time: int) -> KnowledgeSource:
        """Return a knowledge source to which the changes up to a time have been applied."""
        place = bisect_right(self.past, time, key=_time)
        if place not in self._sources:
            if len(self._sources) == SOURCES:
                del self._sources[next(iter(self._sources))]
            self._sources[place] = self._source(self.past[:place])
        return self._sources[place]

    def keep_from(self, now: int, since: int | None) -> None:
        """Forget the knowledge before `since`, except for the period set by `remember`. `now`: the current time."""
        self.kept_since = since
        until = now - self._remember
        until = until if since is None else min(until, since - (self.late or 0))
        stop = bisect_right(self.past, until, key=_time)
        for change in self.past[:stop]:
            self.base.append(change.change)
            self._compact()
        if stop:
            del self.past[:stop]
            self._sources.clear()
        self._tables.forget(until)

    # --- new changes ---

    def add(self, changes: Sequence[tuple[int, bytes]], watermark: int) -> None:
        """Add changes and the times at which they take effect. Those up to `watermark` are late.

        Raises CepError if one of them cannot be applied. The knowledge is then unchanged.
        """
        if not changes:
            return
        first = min(time for time, _ in changes)
        new = [KnowledgeChange(time, change, time <= watermark) for time, change in changes]
        known = [*self.past, *self.pending]
        place = bisect_right(known, first, key=_time)
        again = known[place:]
        try:
            self._edit(first, known[:place], sorted([*again, *new], key=_time), bool(again))
        except CepError:
            place = bisect_left(known, first, key=_time)
            self._edit(first - 1, known[:place], known[place:], True)
            raise
        every = sorted([*known, *new], key=_time)
        applied = len(self.past) + sum(change.late for change in new)
        self.past, self.pending = every[:applied], every[applied:]
        self._sources.clear()
        self.anew |= self.news is not None and any(change.late for change in new)

    def _edit(
        self, after: int, before: Sequence[KnowledgeChange], changes: Sequence[KnowledgeChange], undo: bool
    ) -> None:
        """Edit the tables by changes. `before`: the changes of `past` and `pending` that precede them. `undo`: True to
        undo the edits that take effect after the time `after` first.

        Raises CepError if one of the changes cannot be applied. The caller must then call this again with others.
        """
        background, self._ahead = self._ahead, None  # until the changes have succeeded
        if undo or background is None:
            self._tables.undo(after)
            if not changes:
                return
            background = self._source(before)
        overlaid = self._edit_over(changes, background) if len(changes) > 1 else None
        self.together = overlaid is not None
        if overlaid is None:
            for change in changes:
                background.apply(change.change)
                self._tables.edit(change.time, background)
        self._ahead = overlaid or background
        self._ahead.forget()

    def _edit_over(self, changes: Sequence[KnowledgeChange], background: KnowledgeSource) -> KnowledgeSource | None:
        self._tries += 1
        if self._tries & (self._tries - 1):  # tried ever more rarely after failures
            return None
        overlaid = self._tables.edit_over(changes, background)
        if overlaid is not None:
            self._tries = 0
        return overlaid

    def _source(self, changes: Sequence[KnowledgeChange]) -> KnowledgeSource:
        """Return a knowledge source to which `base` and some later changes have been applied."""
        background = self.loaded.fork(apart=True)
        every = [*self.base, *(change.change for change in changes)]
        if every:
            background.apply(self.loaded.merge(every))
        return background

    # --- changes take effect ---

    def reach(self, watermark: int) -> None:
        """Record that the changes up to `watermark` have taken effect."""
        stop = bisect_right(self.pending, watermark, key=_time)
        reached = self.pending[:stop]
        self.past += reached
        del self.pending[:stop]
        if self.news is not None:
            self.news += [change.change for change in reached]
        if self.past:
            self.keep_from(watermark, self.kept_since)

    def _compact(self) -> None:
        """Merge some of the last changes in `base` into one. Their sizes decide which ones are merged, so that each
        change is merged only a few times."""
        if len(self.base) <= COMPACT:
            return
        place, after = len(self.base) - 1, len(self.base[-1])
        while place and (len(self.base[place - 1]) <= 2 * after or place > COMPACT // 2):
            place -= 1
            after += len(self.base[place])
        put = self.loaded.merge if place else self.loaded.net
        self.base[place:] = [put(self.base[place:])]

    # --- late changes ---

    @property
    def first_late(self) -> int | None:
        """The time of the earliest late change that results do not reflect yet. None if there is none."""
        return next((change.time for change in self.past if change.late), None)

    def reflected(self) -> None:
        """Record that the results reflect all changes."""
        for change in self.past:
            change.late = False

    # --- state ---

    def codes(self) -> list[Ints]:
        """Return the pool codes in all tables that changes have edited."""
        return self._tables.codes()

    def snapshot(self) -> pa.RecordBatch:
        """Return all changes as a batch. The applied changes come first, then the pending ones.

        Each change has its time. The first applied change may combine older changes. Its time is then MISSING.
        """
        base = [KnowledgeChange(MISSING, self.loaded.net(self.base))] if self.base else []
        rows = [*base, *self.past, *self.pending]
        applied = len(base) + len(self.past)
        columns = {
            "time": pa.array([change.time for change in rows], pa.int64()),
            "change": pa.array([change.change for change in rows], pa.binary()),
            "applied": pa.array([number < applied for number in range(len(rows))], pa.bool_()),
        }
        if self.first_late is not None:
            columns["late"] = pa.array([change.late for change in rows], pa.bool_())
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    def restore(self, batch: pa.RecordBatch) -> None:
        """Restore the changes in a snapshot. The loaded knowledge must be the same as when the snapshot was made."""
        names = batch.schema.names
        late = batch["late"].to_pylist() if "late" in names else [False] * batch.num_rows
        changes = list(map(KnowledgeChange, batch["time"].to_pylist(), batch["change"].to_pylist(), late))
        applied = sum(batch["applied"].to_pylist()) if "applied" in names else 0
        self._begin_again(changes[:applied], changes[applied:])

    def know(self, changes: Sequence[tuple[int, bytes]], watermark: int) -> None:
        """Replace all changes by `changes`, which take effect at or before `watermark`.

        Raises CepError if a change cannot be applied. The caller must then call `know` again with other changes.
        """
        ordered = sorted((KnowledgeChange(*change) for change in changes), key=_time)
        self._begin_again(ordered, [])
        self.keep_from(watermark, self.kept_since)

    def _begin_again(self, applied: Sequence[KnowledgeChange], pending: Sequence[KnowledgeChange]) -> None:
        """Replace all changes. If the first one of `applied` has the time MISSING, it counts as valid since the
        beginning of time."""
        start = [change.change for change in applied[:1] if change.time == MISSING]
        self.base, self.past, self.pending = [], [], []
        if start or self._tables.edited:  # first return to the loaded knowledge
            first = KnowledgeChange(_FIRST, self.loaded.merge(start))
            self._edit(_FIRST - 1, [], [first], True)
            self._tables.forget(_FIRST)
        self.base, self.past = start, [*applied[len(start) :]]
        self._edit(_FIRST, [], self.past, False)
        self._edit(END_OF_TIME, self.past, pending, False)
        self.pending = [*pending]
        self._sources.clear()
