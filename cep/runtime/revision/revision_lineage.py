"""What came from what, where input is revised: of all that a window holds, and may be run again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from cep.core.relation import IDENTITY, Table, concat, contiguous
from cep.operators.goals.contract import Ints
from cep.plan.plan import Plan
from cep.runtime.history import OccurrenceHistory
from cep.runtime.machine import Machine
from cep.runtime.revision.row_changes import RowChanges
from cep.runtime.revision.row_window import RowWindow

Given = Mapping[str, Sequence[Table]]
_NONE = np.empty(0, np.int64)


class RevisionLineage:
    """`spare`: a machine that states are read with; `transitions`: the tables of the transitions of simple fluents,
    where they are remembered."""

    def __init__(self, history: OccurrenceHistory, spare: Machine, plan: Plan, transitions: Iterable[str]) -> None:
        self.history, self.spare, self.transitions = history, spare, frozenset(transitions)
        self._derived = frozenset(plan.derived) - plan.edges  # what makes fluents begin and end is known of these
        self._records: list[Ints] = []
        self._made: list[Ints] = []

    def come(self, event: str, changes: RowChanges) -> None:
        """Records of an event have come, and others have gone."""
        self.history.add_records({event: changes.coming})
        self._records.append(changes.going[IDENTITY])

    def made(self, old: Given, new: Given) -> None:
        """Occurrences that were made, which stand in the place of those that are no more."""
        for own, add in (
            (self._derived, self.history.add_derived),
            (self.transitions, self.history.add_transitions),
        ):
            made = {name: concat(tables) for name, tables in new.items() if name in own and tables}
            for name, tables in old.items():
                if name in own and tables:
                    before, now = concat(tables), made.get(name)
                    if now is None:
                        self._made.append(before[IDENTITY])
                        continue  # what came in as well has the name of its record in both
                    self._made.append(np.setdiff1d(before[IDENTITY], now[IDENTITY]))
                    made[name] = contiguous(now[:, ~np.isin(now[IDENTITY], before[IDENTITY])])
            add({name: [table] for name, table in made.items()})

    def told(self) -> None:
        """It has been said of what has gone what it came from: it is remembered no more."""
        if any(map(len, (*self._records, *self._made))):
            self.history.withdraw(*(np.unique(np.concatenate([_NONE, *each])) for each in (self._records, self._made)))
        self._records, self._made = [], []

    def names(
        self,
        windows: Iterable[Mapping[str, RowWindow]],
        late: Mapping[str, Iterable[RowChanges]],
        states: Iterable[Sequence[pa.RecordBatch]],
    ) -> list[Ints]:
        """The identities of rows in windows, of late ones, and of what waits in states."""
        found = [window.all()[IDENTITY] for each in windows for window in each.values()]
        found += [t[IDENTITY] for changes in late.values() for each in changes for t in (each.going, each.coming)]
        for state in states:
            self.spare.restore(state)
            found += [names.copy() for names in self.spare.names()]
        return found
