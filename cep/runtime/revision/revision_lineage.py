"""What came from what, where input is revised: of all that a window holds, and may be run again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa

from cep.core.relation import IDENTITY, Table
from cep.operators.goals.contract import Ints
from cep.runtime.history import OccurrenceHistory
from cep.runtime.machine import Machine
from cep.runtime.revision.row_window import RowWindow
from cep.runtime.revision.stage_replay import RowChanges

Given = Mapping[str, Sequence[Table]]


class RevisionLineage:
    """`spare`: a machine that states are read with."""

    def __init__(self, history: OccurrenceHistory, spare: Machine) -> None:
        self.history, self.spare = history, spare

    def come(self, event: str, changes: RowChanges) -> None:
        """Records of an event have come."""
        self.history.add_records({event: changes.coming})

    def made(self, given: Iterable[Given], edges: Collection[str]) -> None:
        """Occurrences that were made: as they were, and as they are. When fluents begin and end (`edges`) is known from
        what it was made of."""
        for each in given:
            self.history.add_derived({name: tables for name, tables in each.items() if name not in edges})

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
