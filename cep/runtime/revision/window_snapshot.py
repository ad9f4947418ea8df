"""The revision window in a snapshot, and the transfer of its waiting rows to another program.

The window is saved in parts. A part is a table of rows, or the state of a goal at the beginning of a stretch. A part is
never changed, only replaced by another part. So the same array is always the same segment (see `cep.runtime.snapshot`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from cep.core.relation import FIRST, Table, concat, rows
from cep.core.time import BEGINNING, END_OF_TIME, Frontier
from cep.operators.goals.contract import Arrays, demand, from_arrow, to_arrow
from cep.runtime.revision.revision import Revision
from cep.runtime.revision.row_window import RowChanges, joined
from cep.runtime.revision.window_segment import KeptState, LatestInstant, Stretch, Windows, copied, window_of
from cep.runtime.snapshot import SegmentBook

_ROWS = "rows"


def begin_window(revision: Revision, watermark: int, waiting: Mapping[str, Table] | None = None) -> None:
    """Begin a new revision window at a watermark, with the current states of the goals.

    `waiting`: the rows that wait for the watermark. If it is None, the waiting rows of the old window are kept.
    """
    revision.forget_changes()
    revision.watermark = revision.floor = watermark
    revision.stretches = [Stretch(watermark, KeptState(copied(revision.machine.states())))]
    revision.late, revision.latest = {}, LatestInstant()
    revision.going_back.clear()
    revision.going_back.knowledge.reflected(watermark, watermark)
    if waiting is not None:
        held: Windows = {}
        for event, table in sorted(waiting.items()):
            window_of(held, event, len(revision.plan.schemas[event].attributes)).add(table)
        revision.waiting = held


def stable_state(
    revision: Revision, frontier: Callable[[int], Frontier]
) -> tuple[int, list[pa.RecordBatch], dict[str, Table]]:
    """Return the time up to which results are final, the states of the goals at that time, and the rows that end later
    than that time.

    `frontier`: a function that returns the frontier for a time.
    """
    revision.settle()
    first, stable = revision.stretches[0], revision.stable
    machine = revision.going_back.build(revision.plan)
    machine.restore([to_arrow(state) for state in first.state.base])
    early = {event: window.ending(BEGINNING, stable) for event, window in sorted(first.inputs.items())}
    if stable > first.since:
        machine.step({event: table for event, table in early.items() if rows(table)}, frontier(stable))
    later: dict[str, list[Table]] = {}
    for held in (*(stretch.inputs for stretch in revision.stretches), revision.waiting):
        for event, window in held.items():
            later.setdefault(event, []).append(window.ending(stable, END_OF_TIME))
    later_tables = {event: concat(tables) for event, tables in sorted(later.items())}
    return stable, machine.snapshot(), {event: table for event, table in later_tables.items() if rows(table)}


def resize(revision: Revision, length: int) -> None:
    """Set the length that the window had until now, in microseconds. Results that were final under this length stay
    final."""
    revision.floor = max(revision.floor, revision.watermark - length)


def save(revision: Revision) -> tuple[dict[str, Any], list[pa.RecordBatch], list[Arrays]]:
    """Return the contents of a revision window: a header of numbers, tables of late rows that are not processed yet,
    and the parts."""
    revision.settle()
    numbers = {
        "watermark": revision.watermark,
        "floor": revision.floor,
        "since": [stretch.since for stretch in revision.stretches],
        "runs": [
            {event: len(window.runs) for event, window in sorted(held.items()) if window.runs}
            for held in revision.held()
        ],
    }
    late = {event: joined(parts) for event, parts in revision.late.items()}
    batches = [
        to_arrow({event: row_changes.going for event, row_changes in late.items()}),
        to_arrow({event: row_changes.coming for event, row_changes in late.items()}),
    ]
    return numbers, batches, list(_parts(revision))


def restore(
    revision: Revision, numbers: Mapping[str, Any], batches: Sequence[pa.RecordBatch], parts: Sequence[pa.RecordBatch]
) -> None:
    """Restore a revision window from the result of `save`. Raises CepError if it does not fit the program."""
    revision.forget_changes()
    goals = [goal for _, goal in revision.machine.goals()]
    begins, counts = numbers["since"], numbers["runs"]
    demand(bool(begins) and begins == sorted(set(begins)) and numbers["watermark"] >= begins[-1])
    demand(len(batches) == 2 and len(counts) == 1 + 2 * len(begins))
    demand(len(parts) == sum(sum(count.values()) for count in counts) + len(begins) * len(goals))
    rest = iter(parts)
    held = [_windows(revision, count, rest) for count in counts]
    going, coming = map(from_arrow, batches)
    demand(going.keys() == coming.keys())
    revision.watermark, revision.waiting, revision.floor = numbers["watermark"], held[0], numbers["floor"]
    revision.latest = LatestInstant()
    revision.late = {event: [RowChanges(going[event], coming[event])] for event in sorted(going)}
    revision.stretches = []
    for number, since in enumerate(begins):
        state = []
        for goal in goals:
            state.append(next(rest))
            goal.restore(state[-1])  # this checks the state; the current state is restored afterwards
        inputs, derived = held[1 + 2 * number : 3 + 2 * number]
        revision.stretches.append(Stretch(since, KeptState([from_arrow(batch) for batch in state]), inputs, derived))


def know(revision: Revision, book: SegmentBook, names: Sequence[str]) -> None:
    """Record in `book` that the parts of a restored window are stored in the segments `names`. The next snapshot then
    need not store them again."""
    parts = list(_parts(revision))
    for arrays, name in zip(parts, names) if len(parts) == len(names) else ():
        book.know(*segment_of(arrays), name)


def _parts(revision: Revision) -> Iterator[Arrays]:
    for held in revision.held():
        for _, window in sorted(held.items()):
            yield from ({_ROWS: run} for run in window.runs)
    for stretch in revision.stretches:
        yield from stretch.state.base


def segment_of(arrays: Arrays) -> tuple[Hashable, object]:
    """Return the key of a segment and the segment's arrays. The key contains their ids, so it is valid only as long as
    they are alive."""
    return tuple((name, id(array)) for name, array in arrays.items()), tuple(arrays.values())


def _windows(revision: Revision, counts: Mapping[str, int], segments: Iterator[pa.RecordBatch]) -> Windows:
    windows: Windows = {}
    for event, count in sorted(counts.items()):
        demand(event in revision.plan.schemas)
        arguments = len(revision.plan.schemas[event].attributes)
        window = window_of(windows, event, arguments)
        for _ in range(count):
            arrays = from_arrow(next(segments))
            demand(arrays.keys() == {_ROWS})
            table: Table = arrays[_ROWS]
            demand(table.ndim == 2 and len(table) == FIRST + arguments)
            window.add(table)
    return windows
