"""What a push changes of what is derived: what it would withdraw and add again is not among it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from cep.core.fluents import HOLDS
from cep.core.hashtable import KeySet
from cep.core.relation import END, FIRST, ORDER, START, Table, concat, contiguous, empty, rows
from cep.plan.plan import Plan
from cep.runtime.revision.row_changes import RowChanges


def net_changes(
    plan: Plan, old: Mapping[str, Sequence[Table]], new: Mapping[str, Sequence[Table]], ordered: bool
) -> Iterator[tuple[str, RowChanges]]:
    """The events that change, of what was given where something was run again, and of what is given now. `ordered`:
    rows of another order are others, since other stages take them with it."""
    for event in sorted((old.keys() | new.keys()) & set(plan.derived)):
        none = empty(len(plan.schemas[event].attributes))
        if not any(map(rows, old.get(event, ()))):  # what comes in order was not there before
            change = RowChanges(none, concat([*new.get(event, ())] or [none]))
        else:
            change = _difference(plan, event, concat(old[event]), concat([none, *new.get(event, ())]), ordered)
        if rows(change.going) or rows(change.coming):
            yield event, change


def all_changes(
    plan: Plan, old: Mapping[str, Sequence[Table]], new: Mapping[str, Sequence[Table]]
) -> Iterator[tuple[str, RowChanges]]:
    """The same with what stays, of which something else may have changed."""
    for event in sorted((old.keys() | new.keys()) & set(plan.derived)):
        none = empty(len(plan.schemas[event].attributes))
        change = RowChanges(*(concat([none, *given.get(event, ())]) for given in (old, new)))
        if rows(change.going) or rows(change.coming):
            yield event, change


def _difference(plan: Plan, event: str, before: Table, after: Table, ordered: bool) -> RowChanges:
    fluent = plan.schemas[event].fluent
    bounded = fluent is not None and fluent.part == HOLDS and fluent.defined
    words = [START, END, *([ORDER] if bounded or ordered else []), *range(FIRST, len(before))]
    kinds = KeySet(len(words))
    was, _ = kinds.insert(np.ascontiguousarray(before[words].T))
    is_, _ = kinds.insert(np.ascontiguousarray(after[words].T))
    had, has = np.zeros(kinds.count, np.bool_), np.zeros(kinds.count, np.bool_)
    had[was], has[is_] = True, True
    return RowChanges(contiguous(before[:, ~has[was]]), contiguous(after[:, ~had[is_]]))
