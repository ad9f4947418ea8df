"""What a push changes of what is derived: what it would withdraw and add again is not among it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from cep.core.fluents import HOLDS
from cep.core.hashtable import KeySet
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, concat, contiguous, empty, rows, slice_until
from cep.plan.equal import equal_records
from cep.plan.plan import Plan
from cep.runtime.revision.row_changes import RowChanges


def net_changes(
    plan: Plan, old: Mapping[str, Sequence[Table]], new: Mapping[str, Sequence[Table]], ordered: bool, numbered: bool
) -> Iterator[tuple[str, RowChanges]]:
    """The events that change, of what was given where something was run again, and of what is given now. `ordered`:
    rows of another order are others, since other stages take them with it; `numbered`: equal occurrences have their
    numbers in IDENTITY."""
    several = equal_records(plan).several if numbered else frozenset[str]()
    for event in sorted((old.keys() | new.keys()) & set(plan.derived)):
        none = empty(len(plan.schemas[event].attributes))
        if not any(map(rows, old.get(event, ()))):  # what comes in order was not there before
            change = RowChanges(none, concat([*new.get(event, ())] or [none]))
        else:
            before = concat(old[event])
            after, later = _parted(new.get(event, ()), int(before[END].max()))
            change = _difference(plan, event, before, concat([none, *after]), ordered, event in several)
            if later:
                change = RowChanges(change.going, concat([change.coming, *later]))
        if rows(change.going) or rows(change.coming):
            yield event, change


def _parted(tables: Iterable[Table], end: int) -> tuple[list[Table], list[Table]]:
    """The tables of which something ends at or before `end`, and the others: of one that is sorted by end its parts."""
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
    """The same with what stays, of which something else may have changed."""
    for event in sorted((old.keys() | new.keys()) & set(plan.derived)):
        none = empty(len(plan.schemas[event].attributes))
        change = RowChanges(*(concat([none, *given.get(event, ())]) for given in (old, new)))
        if rows(change.going) or rows(change.coming):
            yield event, change


def _difference(plan: Plan, event: str, before: Table, after: Table, ordered: bool, numbered: bool) -> RowChanges:
    fluent = plan.schemas[event].fluent
    bounded = fluent is not None and fluent.part == HOLDS and fluent.defined
    words = [START, END, *([ORDER] if bounded or ordered else []), *range(IDENTITY if numbered else FIRST, len(before))]
    kinds = KeySet(len(words))
    ids, _ = kinds.insert(np.concatenate([before, after], axis=1)[words].T)
    was, is_ = ids[: rows(before)], ids[rows(before) :]
    had, has = np.zeros(kinds.count, np.bool_), np.zeros(kinds.count, np.bool_)
    had[was], has[is_] = True, True
    return RowChanges(contiguous(before[:, ~has[was]]), contiguous(after[:, ~had[is_]]))
