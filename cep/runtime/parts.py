"""The components of a running program: the state that a step changes and a snapshot holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from cep.core.errors import CepError
from cep.core.relation import FIRST
from cep.core.schema import CODED, Schema
from cep.core.values import Pool
from cep.operators.goals.contract import Ints
from cep.operators.goals.lineage import Lineage
from cep.plan.plan import Plan
from cep.runtime.encode import Admitted, PushedColumns, RefusedRow, admit
from cep.runtime.family import Inlet
from cep.runtime.history import OccurrenceHistory
from cep.runtime.knowledge_changes import KnowledgeChanges
from cep.runtime.machine import Machine
from cep.runtime.reorder_buffer import ReorderBuffer
from cep.runtime.revision.revision import Revision


@dataclass(slots=True)
class EngineParts:
    """The state of a running program or of one of its stages.

    - `plan`: the plan of the program, or of the stage.
    - `position`: the number of events received.
    - `dead`: the refused rows that `take_dead` has not returned yet.
    - `sweep_at`: the size of the pool at which unused values are next removed.
    - `merged`: for each event, the number of records that were dropped as duplicates before they reached the goals.
    - `alike`: for each input event, the first input event whose records are checked in the same way.
    - `inlets`: for each input event of a family, the place where its rows enter the family.
    """

    plan: Plan
    pool: Pool
    machine: Machine
    buffer: ReorderBuffer
    history: OccurrenceHistory | None
    changes: KnowledgeChanges | None
    position: int = 0
    dead: list[RefusedRow] = field(default_factory=list)
    sweep_at: int = 1 << 16
    revision: Revision | None = None
    merged: Counter[str] = field(default_factory=Counter)
    alike: dict[str, str] = field(init=False)
    inlets: dict[str, Inlet] = field(init=False)

    def __post_init__(self) -> None:
        self.inlets = {}
        for family in self.machine.families:
            self.buffer.events |= family.events
            self.inlets |= {name: inlet for name, inlet in family.inlets.items() if name not in self.plan.handed}
        first: dict[object, str] = {}
        schemas = [self.plan.schemas[name] for name in sorted(self.plan.inputs - self.plan.handed)]
        self.alike = {
            schema.name: first.setdefault((schema.attributes, schema.point, schema.declared), schema.name)
            for schema in schemas
            if schema.fluent is None
        }

    @property
    def lineage(self) -> Lineage | None:
        """The lineage of occurrences, or None if it is not requested."""
        return None if self.history is None else self.history.lineage

    def schema(self, name: str) -> Schema:
        """Return the schema of an input event. Raises CepError if the program has no such input."""
        schema = self.plan.schemas.get(name)
        if schema is None or name not in self.plan.inputs:
            known = ", ".join(f"`{n}`" for n in sorted(self.plan.inputs)) or "none"
            hint = f"declare `event {name}(...)` to read it as well as derive it" if schema else f"it reads {known}"
            raise CepError(f"the program does not read an event `{name}`", hint=hint, code="unknown")
        return schema

    def admitted(self, columns: PushedColumns, schema: Schema, first: int | Ints) -> Admitted:
        """Convert a pushed table to occurrences (see `cep.runtime.encode`)."""
        named, handed = self.history is not None, schema.name in self.plan.handed
        return admit(columns, schema, self.pool, first, named, handed)

    def take_merged(self) -> Counter[str]:
        """Return, for each event, how many records were dropped as duplicates since the last call."""
        merged_counts, self.merged = self.merged, Counter()
        for goal, event in self.machine.events():
            merged_counts[event] += goal.merged if event not in self.plan.handed else 0
            goal.merged = 0
        return +merged_counts

    def names(self) -> list[Ints]:
        """Return the handles that lineage uses for all stored occurrences."""
        return [*self.machine.names(), *([] if self.revision is None else self.revision.names())]

    def sweep(self) -> None:
        """Drop unneeded history and pool values. Unneeded values are searched for only if the number of values has
        doubled since the last search."""
        history, pool = self.history, self.pool
        if history is not None:
            history.forget(self.names, min(self.buffer.watermark, self.buffer.latest))
        if pool.size > self.sweep_at:
            where = coded(self.plan.schemas)
            whole = () if history is None else history.tables()
            in_history = [table[row] for name, tables in whole for table in tables for row in where[name]]
            known = [] if self.changes is None else self.changes.codes()
            window = [] if self.revision is None else self.revision.codes(where)
            pool.sweep([*self.machine.codes(), *self.buffer.codes(where), *in_history, *known, *window])
            self.sweep_at = max(1 << 16, 2 * pool.size)


def coded(schemas: Mapping[str, Schema]) -> dict[str, list[int]]:
    """Return, for each event, the numbers of the matrix rows that contain pool codes in the event's tables."""
    return {
        name: [FIRST + i for i, a in enumerate(schema.attributes) if a.type in CODED]
        for name, schema in schemas.items()
    }
