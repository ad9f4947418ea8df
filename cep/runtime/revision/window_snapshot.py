"""The window of a revision in a snapshot, and what another program takes over of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from cep.core.relation import FIRST, Table
from cep.operators.goals.contract import demand, from_arrow, to_arrow
from cep.runtime.revision.revision import Revision
from cep.runtime.revision.row_window import RowChanges, joined
from cep.runtime.revision.stretch import KeptState, LatestInstant, Stretch, Windows, copied, tables_of, window_of


def begin_window(revision: Revision, watermark: int, waiting: Mapping[str, Table] | None = None) -> None:
    """The window begins at a watermark, with the states that goals have now; these rows wait, None: those that do."""
    revision.forget_changes()
    revision.watermark = revision.floor = watermark
    revision.stretches = [Stretch(watermark, KeptState(copied(revision.machine.states())))]
    revision.late, revision.latest = {}, LatestInstant()
    revision.going_back.clear()
    revision.going_back.knowledge.told(watermark, watermark)
    if waiting is not None:
        held: Windows = {}
        for event, table in sorted(waiting.items()):
            window_of(held, event, len(revision.plan.schemas[event].attributes)).add(table)
        revision.waiting = held


def resize(revision: Revision, length: int) -> None:
    """The window was so long until now (microseconds): what was final then stays so."""
    revision.floor = max(revision.floor, revision.watermark - length)


def save(revision: Revision) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    """What the window holds."""
    revision.settle()
    since = [each.since for each in revision.stretches]
    numbers = {"watermark": revision.watermark, "floor": revision.floor, "since": since}
    late = {event: joined(each) for event, each in revision.late.items()}
    batches = [
        to_arrow(tables_of(revision.waiting)),
        to_arrow({event: each.going for event, each in late.items()}),
        to_arrow({event: each.coming for event, each in late.items()}),
    ]
    for each in revision.stretches:
        batches += [to_arrow(tables_of(each.inputs)), to_arrow(tables_of(each.given))]
        batches += [to_arrow(state) for state in each.state.base]
    return numbers, batches


def restore(revision: Revision, numbers: Mapping[str, Any], batches: Sequence[pa.RecordBatch]) -> None:
    """Take on what a window held. CepError: it is none of this program."""
    revision.forget_changes()
    goals = [goal for _, goal in revision.machine.goals()]
    begins = numbers["since"]
    demand(bool(begins) and begins == sorted(set(begins)) and numbers["watermark"] >= begins[-1])
    demand(len(batches) == 3 + len(begins) * (2 + len(goals)))
    waiting, going, coming = map(from_arrow, batches[:3])
    demand(going.keys() == coming.keys())
    revision.watermark, revision.waiting = numbers["watermark"], _windows(revision, waiting)
    revision.floor = numbers["floor"]
    revision.latest = LatestInstant()
    revision.late = {event: [RowChanges(going[event], coming[event])] for event in sorted(going)}
    revision.stretches = []
    for number, since in enumerate(begins):
        at = 3 + number * (2 + len(goals))
        inputs, given = (_windows(revision, from_arrow(batch)) for batch in batches[at : at + 2])
        state = list(batches[at + 2 : at + 2 + len(goals)])
        for goal, each in zip(goals, state, strict=True):
            goal.restore(each)  # it says what is wrong; the state of now is restored after it
        revision.stretches.append(Stretch(since, KeptState([from_arrow(each) for each in state]), inputs, given))


def _windows(revision: Revision, tables: Mapping[str, Table]) -> Windows:
    schemas = revision.plan.schemas
    found: Windows = {}
    for event, table in tables.items():
        demand(event in schemas and table.ndim == 2 and len(table) == FIRST + len(schemas[event].attributes))
        window_of(found, event, len(schemas[event].attributes)).add(table)
    return found
