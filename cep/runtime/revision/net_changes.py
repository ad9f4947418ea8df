"""Net changes of the output by a push. A row that would be withdrawn and then added again is left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from cep.core.fluents import HOLDS
from cep.core.hashtable import KeySet
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, concat, empty, rows, slice_until
from cep.operators.goals.arrival import is_sorted
from cep.operators.goals.contract import Ints
from cep.operators.goals.reviser import unmatched
from cep.plan.equal import equal_records
from cep.plan.plan import Plan
from cep.runtime.history import OccurrenceHistory
from cep.runtime.machine import Machine
from cep.runtime.revision.row_window import RowChanges, RowWindow


def net_changes(
    plan: Plan, old: Mapping[str, Sequence[Table]], new: Mapping[str, Sequence[Table]], numbered: bool
) -> Iterator[tuple[str, RowChanges]]:
    """Yield the events whose output changes, each with the difference between its old and its new output.

    `numbered`: True if the matrix row IDENTITY contains each row's rank among equal occurrences.
    """
    several = equal_records(plan).several if numbered else frozenset[str]()
    for event in sorted((old.keys() | new.keys()) & set(plan.derived)):
        none = empty(len(plan.schemas[event].attributes))
        if not any(map(rows, old.get(event, ()))):  # rows that arrive in order replace no others
            change = RowChanges(none, concat([*new.get(event, ())] or [none]))
        else:
            before = concat(old[event])
            after, later = _parted(new.get(event, ()), int(before[END].max()))
            change = _difference(plan, event, before, concat([none, *after]), event in several)
            if later:
                change = RowChanges(change.going, concat([change.coming, *later]))
        if rows(change.going) or rows(change.coming):
            yield event, change


def _parted(tables: Iterable[Table], end: int) -> tuple[list[Table], list[Table]]:
    """Divide tables into those that may contain rows that end at or before `end`, and those with only later rows.

    A table that is sorted by end is cut at `end`.
    """
    before, later = list[Table](), list[Table]()
    for table in tables:
        ends = table[END]
        if not rows(table) or int(ends[-1]) <= end or bool((ends[1:] < ends[:-1]).any()):
            before.append(table)
            continue
        stop = slice_until(table, end)
        before += [table[:, :stop]] if stop else []
        later.append(table[:, stop:])
    return before, later


def all_changes(
    plan: Plan, old: Mapping[str, Sequence[Table]], new: Mapping[str, Sequence[Table]]
) -> Iterator[tuple[str, RowChanges]]:
    """Yield all old and new rows, by event. Unchanged rows are included, because their lineage or their order may have
    changed."""
    for event in sorted((old.keys() | new.keys()) & set(plan.derived)):
        none = empty(len(plan.schemas[event].attributes))
        change = RowChanges(*(concat([none, *tables_by_event.get(event, ())]) for tables_by_event in (old, new)))
        if rows(change.going) or rows(change.coming):
            yield event, change


def _difference(plan: Plan, event: str, before: Table, after: Table, numbered: bool) -> RowChanges:
    fluent = plan.schemas[event].fluent
    bounded = fluent is not None and fluent.part == HOLDS and fluent.defined
    since = IDENTITY if numbered else FIRST
    if is_sorted(before) and is_sorted(after):
        masks = unmatched(before, after, bounded, since, once=True)
        if masks is not None:
            return RowChanges(before.compress(masks[0], axis=1), after.compress(masks[1], axis=1))
    words = [START, END, *([ORDER] if bounded else []), *range(since, len(before))]
    kinds = KeySet(len(words))
    ids, _ = kinds.insert(np.concatenate([before, after], axis=1)[words].T)
    was, is_ = ids[: rows(before)], ids[rows(before) :]
    had, has = np.zeros(kinds.count, np.bool_), np.zeros(kinds.count, np.bool_)
    had[was], has[is_] = True, True
    return RowChanges(before.compress(~has[was], axis=1), after.compress(~had[is_], axis=1))


Given = Mapping[str, Sequence[Table]]
_NONE = np.empty(0, np.int64)


class RevisionLineage:
    """The lineage of revised output.

    - `spare`: a machine that is used only to read stored states.
    - `transitions`: the tables of transitions of simple fluents, if their history is kept.
    """

    def __init__(self, history: OccurrenceHistory, spare: Machine, plan: Plan, transitions: Iterable[str]) -> None:
        self.history, self.spare, self.transitions = history, spare, frozenset(transitions)
        # Beginnings and ends of fluents have no history of their own.
        self._derived = frozenset(plan.derived) - plan.edges
        self._records: list[Ints] = []
        self._made: list[Ints] = []

    def come(self, event: str, changes: RowChanges) -> None:
        """Record that input records of an event were added and removed."""
        self.history.add_records({event: changes.coming})
        self._records.append(changes.going[IDENTITY])

    def made(self, old: Given, new: Given) -> None:
        """Record the new output, and the old output that it replaces."""
        for own, add in (
            (self._derived, self.history.add_derived),
            (self.transitions, self.history.add_transitions),
        ):
            new_tables = {name: concat(tables) for name, tables in new.items() if name in own and tables}
            for name, tables in old.items():
                if name in own and tables:
                    before, now = concat(tables), new_tables.get(name)
                    if now is None:
                        self._made.append(before[IDENTITY])
                        continue  # an occurrence that was also received has its record's identity before and now
                    self._made.append(np.setdiff1d(before[IDENTITY], now[IDENTITY]))
                    new_tables[name] = now.compress(~np.isin(now[IDENTITY], before[IDENTITY]), axis=1)
            add({name: [table] for name, table in new_tables.items()})

    def told(self) -> None:
        """Drop the lineage of withdrawn rows. The caller calls this method after it has returned these rows."""
        if any(map(len, (*self._records, *self._made))):
            self.history.withdraw(*(np.unique(np.concatenate([_NONE, *ids])) for ids in (self._records, self._made)))
        self._records, self._made = [], []

    def names(
        self,
        windows: Iterable[Mapping[str, RowWindow]],
        late: Mapping[str, Iterable[RowChanges]],
        states: Iterable[Sequence[pa.RecordBatch]],
    ) -> list[Ints]:
        """Return the handles of occurrences in `windows`, in `late` rows, and in `states`."""
        identities = [window.all()[IDENTITY] for windows_by_event in windows for window in windows_by_event.values()]
        identities += [
            t[IDENTITY] for changes in late.values() for change in changes for t in (change.going, change.coming)
        ]
        for state in states:
            self.spare.restore(state)
            identities += [names.copy() for names in self.spare.names()]
        return identities
