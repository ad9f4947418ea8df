"""One step of a program: what the watermark has passed leaves the buffer and goes through the goals, cut where the
knowledge changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cep.core.errors import CepError
from cep.core.relation import Table, slice_until
from cep.core.time import BEGINNING, END_OF_TIME
from cep.runtime.admission import receive
from cep.runtime.parts import EngineParts
from cep.runtime.time_slices import TimeSlice

TimedChange = tuple[int, Any, Any]
"""From a time on (microseconds): triples that come, triples that go."""


def step(parts: EngineParts, watermark: int) -> dict[str, list[Table]]:
    """Time goes on; gives the new occurrences of every derived event that has any, a table a slice."""
    ended = parts.buffer.watermark >= END_OF_TIME
    released = parts.buffer.release(watermark)
    if parts.history is not None:
        parts.history.add_records(released)
    made = _stepped(parts, released, watermark)
    transitions = {name: made.pop(name) for name in parts.machine.transitions if name in made}
    if watermark >= END_OF_TIME and not ended and not parts.plan.changes:
        _extend(made, parts.machine.open())
    if parts.history is not None:
        edges = parts.plan.edges  # when fluents begin and end is known from what it was made of
        parts.history.add_derived({name: tables for name, tables in made.items() if name not in edges})
        parts.history.add_transitions(transitions)
    return made


def step_slices(parts: EngineParts, slices: Sequence[TimeSlice]) -> dict[str, list[Table]]:
    """The same for a push that is taken slice by slice. Rows refused come in the order in which they would of a whole
    one: type by type, the late ones last."""
    made: dict[str, list[Table]] = {}
    refused = len(parts.dead)
    for number, piece in enumerate(slices):
        receive(parts, piece)
        reached = parts.buffer.reached()
        if number:
            _extend(made, step(parts, min(piece.since, reached)))
    _extend(made, step(parts, reached))
    types = list(slices[0].tables)
    parts.dead[refused:] = sorted(
        parts.dead[refused:], key=lambda row: (row.code == "late", types.index(row.type), row.row)
    )
    return made


def _extend(made: dict[str, list[Table]], more: Mapping[str, list[Table]]) -> None:
    for name, tables in more.items():
        made.setdefault(name, []).extend(tables)


def _stepped(parts: EngineParts, released: dict[str, Table], watermark: int) -> dict[str, list[Table]]:
    changes, machine = parts.changes, parts.machine
    if changes is None or not (times := changes.due(watermark)):
        return machine.step(released, parts.buffer.frontier(watermark))
    if changes.over is not None:
        with changes.as_they_come():
            found = machine.step(released, parts.buffer.frontier(watermark))
        changes.reach(times[-1])
        return found
    made: dict[str, list[Table]] = {}
    done = dict.fromkeys(released, 0)
    for time in [*times, None]:
        until = watermark if time is None else time - 1
        stops = {name: slice_until(table, until) for name, table in released.items()}
        piece = {name: table[:, done[name] : stops[name]] for name, table in released.items()}
        _extend(made, machine.step(piece, parts.buffer.frontier(until)))
        if time is not None:
            changes.reach(time)
        done = stops
    return made


def update(parts: EngineParts, changes_given: Sequence[TimedChange]) -> None:
    """Take changes of the knowledge, whose times are still to come. Raises CepError, and changes nothing, where one of
    them cannot be."""
    changes = parts.changes
    if changes is None:
        raise CepError(
            "there is no knowledge that could change",
            hint="`knowledge=` of `Engine.from_text` gives some",
            code="knowledge",
        )
    if parts.revision is not None:
        message = "the knowledge does not change yet where input is revised"
        raise CepError(message, hint="an engine without `revise`, of a program without KEY", code="knowledge")
    for time, _, _ in changes_given:
        if not BEGINNING < time < END_OF_TIME:
            raise ValueError("an update has a time in microseconds, within 2**62")
        if time <= parts.buffer.watermark:
            hint = "updates come before the events of their time, or within the lateness"
            raise CepError("the update is late: the watermark has passed it", hint=hint, code="late")
    made = [(time, changes.loaded.change(add, remove)) for time, add, remove in changes_given]
    if len(made) == 1:
        changes.add(*made[0])
    elif made:
        changes.add_all(made)
