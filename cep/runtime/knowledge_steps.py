"""Steps of a machine that are split at changes of the knowledge."""

from __future__ import annotations

from collections.abc import Mapping

from cep.core.relation import Table, slice_until
from cep.core.time import Frontier
from cep.runtime.knowledge_changes import KnowledgeChanges
from cep.runtime.machine import Machine


def stepped(
    machine: Machine,
    changes: KnowledgeChanges | None,
    inputs: Mapping[str, Table],
    frontier: Frontier,
    back: Frontier | None = None,
    kept: bool = False,
) -> dict[str, list[Table]]:
    """Step a machine up to a frontier, and apply each change of the knowledge at its time.

    `back`: the frontier to which the step can be undone. If the knowledge changes in the step, it cannot be undone.
    `kept`: True to keep the states that the goals have at `back` (see `Machine.attempt`).
    """
    if changes is None or not (times := changes.due(frontier.watermark)):
        return machine.step(inputs, frontier) if back is None else machine.attempt(inputs, frontier, back, kept)
    if changes.over is not None:
        with changes.as_they_come():
            outputs = machine.step(inputs, frontier)
        changes.reach(times[-1])
        return outputs
    derived_tables: dict[str, list[Table]] = {}
    done = dict.fromkeys(inputs, 0)
    for time in [*times, None]:
        until = frontier.watermark if time is None else time - 1
        stops = {name: slice_until(table, until) for name, table in inputs.items()}
        piece = {name: table[:, done[name] : stops[name]] for name, table in inputs.items()}
        for name, tables in machine.step(piece, frontier.until(until)).items():
            derived_tables.setdefault(name, []).extend(tables)
        if time is not None:
            changes.reach(time)
        done = stops
    return derived_tables
