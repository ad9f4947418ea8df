"""Transfer of state from one program to another. Goals that mean the same in both programs continue, and all other
goals start empty."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import polars as pl
import pyarrow as pa

from cep.core.errors import CepError
from cep.core.fluents import author_name
from cep.core.relation import Table, concat
from cep.core.schema import Schema
from cep.core.time import BEGINNING
from cep.operators.goals.contract import from_arrow
from cep.plan.dependencies import Dependencies
from cep.plan.order import PlanUnit
from cep.plan.plan import Plan
from cep.runtime import snapshot
from cep.runtime.carried_lineage import PriorLineage
from cep.runtime.snapshot import Fetch


@dataclass(frozen=True, slots=True)
class PriorState:
    """A snapshot of another program.

    - `goals`: the names of the goals whose state may be kept. None allows all goals.
    - `waits`: True if rows that wait for the watermark are kept.
    - `watermark`: a lower bound of the time that the program has reached, in microseconds.
    - `segments`: the names of the snapshot's segments and a function that reads a segment, or None if the snapshot has
      no segments.
    - `warm`: a snapshot of the new program, which has processed only earlier input. Goals that are not in `state` start
      from it. If it is None, these goals start empty.
    """

    state: bytes
    goals: frozenset[str] | None = None
    waits: bool = True
    watermark: int = BEGINNING
    segments: tuple[Sequence[str], Fetch] | None = None
    warm: PriorState | None = None


@dataclass(frozen=True, slots=True)
class SnapshotParts:
    """The contents of a snapshot.

    - `values`: the values of the pool.
    - `waiting`: the rows that wait for the watermark, by event.
    - `goals`: the states of goals, by name.
    - `changes`: the changes of the knowledge, or None if the program has no knowledge.
    - `lineage`: the lineage, or None if the engine kept no lineage.
    """

    header: Mapping[str, Any]
    values: pl.DataFrame | None
    waiting: dict[str, Table]
    goals: dict[str, pa.RecordBatch]
    changes: pa.RecordBatch | None
    lineage: PriorLineage | None = None

    @classmethod
    def of(cls, before: PriorState) -> SnapshotParts:
        """Read the contents of a snapshot. Raises CepError if the snapshot is damaged, or if it comes from an engine of
        one stage with `explain`."""
        with snapshot.restoring():
            return cls._of(before, *snapshot.load(before.state, None))

    @classmethod
    def _of(cls, before: PriorState, header: dict[str, Any], batches: list[pa.RecordBatch]) -> SnapshotParts:
        if header["explain"] and "events" not in header:
            message = "a snapshot of a stage with lineage can only be restored by its own program"
            raise CepError(message, hint="use a snapshot that was made without `explain`", code="snapshot")
        count = header["values"]
        segments = _Segments.of(before, header)
        tables = [*batches[:count], *segments.values]
        values = pl.from_arrow(pa.Table.from_batches(tables)) if tables else None
        assert values is None or isinstance(values, pl.DataFrame), "a table is read"
        first, *states = batches[count:]
        waiting = from_arrow(first)
        if "revision" in header:
            states, window = states[: -header["window"]], states[-header["window"] :]
            parts = segments.parts if "segments" in header else window[2:]
            waiting |= _waiting(header["revision"]["runs"][0], parts)
        lineage = None
        if header["explain"]:
            states, told = states[:-2], states[-2:]
            lineage = PriorLineage(told, header["events"], header["heads"], header["position"])
        header["watermark"] = max(header["watermark"], before.watermark)
        changes = None if header["knowledge"] is None else states.pop()
        named = {name: state for name, state in zip(header["goals"], states, strict=True) if name}
        goals = {name: goal for name, goal in named.items() if before.goals is None or name in before.goals}
        return cls(header, values, waiting if before.waits else {}, goals, changes, lineage)

    def waits(self, inputs: Mapping[str, Schema]) -> dict[str, Table]:
        """Return the waiting rows of those events that are also inputs of the new program.

        `inputs`: the schemas of the new program's inputs. Raises CepError if rows of an event wait and the event's
        attribute types have changed.
        """
        for name, types in self.header["waiting"].items():
            if name in inputs and [a.type for a in inputs[name].attributes] != types:
                raise CepError(
                    f"events `{author_name(name)}` are waiting, but they have other attributes now",
                    hint="carry the state over when none is waiting, or use another name for the changed event",
                    code="snapshot",
                )
        return {name: table for name, table in self.waiting.items() if name in inputs}


@dataclass(frozen=True, slots=True)
class _Segments:
    """The segments of a snapshot. `values`: the segments that contain values of the pool. `parts`: the segments that
    contain waiting rows of the revision window."""

    values: list[pa.RecordBatch]
    parts: list[pa.RecordBatch]

    @classmethod
    def of(cls, before: PriorState, header: Mapping[str, Any]) -> _Segments:
        if "segments" not in header or before.segments is None:
            return cls([], [])
        names, fetch = before.segments
        count = header["values in segments"]
        end = count + (sum(header["revision"]["runs"][0].values()) if before.waits else 0)
        read = [snapshot.streamed(fetch(name)) for name in names[:end]]
        return cls(read[:count], read[count:])


def _waiting(runs: Mapping[str, int], parts: Sequence[pa.RecordBatch]) -> dict[str, Table]:
    rest = iter(parts)
    tables = {event: [*chain(*(from_arrow(batch).values() for batch in islice(rest, n)))] for event, n in runs.items()}
    return {event: concat(pieces) for event, pieces in tables.items() if pieces}


def rules_with(
    plan: Plan, names: Mapping[PlanUnit, str], rules: Collection[int] | None = None
) -> dict[str, frozenset[str]]:
    """Return, for each rule that has a state, the names of its goals that have a state.

    `rules`: the numbers of the rules to consider, or None for all rules.
    """
    goals_by_rule: dict[str, frozenset[str]] = {}
    for number, nodes in enumerate(Dependencies(plan).nodes):
        goals = {names[n] for n in nodes if plan.nodes[n].properties().remembers or plan.nodes[n].once()}
        if goals and (rules is None or number in rules):
            name = rule_name(plan, number)
            goals_by_rule[name] = goals_by_rule.get(name, frozenset()) | goals
    return goals_by_rule


def rule_name(plan: Plan, number: int) -> str:
    """Return the name of a rule: its label, or its line and event if it has no label."""
    rule = plan.rules.rules[number]
    return rule.label or f"{plan.source.line_name(rule.span.line)}: {rule.event}"


def shortened(names: Sequence[str], batches: Sequence[pa.RecordBatch]) -> list[str]:
    """Return `names`, in which the names of goals without state are replaced by empty texts. `batches`: the states of
    the goals."""
    return [name if batch.schema.names != ["nothing"] else "" for name, batch in zip(names, batches, strict=True)]
