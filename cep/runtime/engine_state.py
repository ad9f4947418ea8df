"""The whole state of an engine: saved, restored and checked, and taken over from another program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from cep.core.errors import CepError
from cep.core.relation import FIRST
from cep.core.time import Frontier
from cep.core.values import MISSING
from cep.operators.goals.contract import Translation, demand, from_arrow, to_arrow
from cep.runtime import prior_state, snapshot
from cep.runtime.parts import EngineParts, coded
from cep.runtime.prior_state import SnapshotParts
from cep.runtime.state_by_key import recode, translation


def save(parts: EngineParts, goals: Sequence[str], knowledge: str | None, program: str) -> bytes:
    """A snapshot. `goals`: the names of the machine's goals; `knowledge`: what the knowledge is called; `program`: what
    the snapshot is of."""
    values = parts.pool.dump().to_arrow().combine_chunks().to_batches()
    buffer, schemas = parts.buffer, parts.plan.schemas
    header: dict[str, object] = {
        "explain": parts.history is not None,
        "position": parts.position,
        **buffer.times(),
        "values": len(values),
        "knowledge": knowledge,
        "waiting": {name: [a.type for a in schemas[name].attributes] for name in buffer.waiting},
    }
    states = parts.machine.snapshot()
    header["goals"] = prior_state.shortened(goals, states)
    batches = [*values, to_arrow(buffer.snapshot()), *states]
    if parts.changes is not None:
        batches.append(parts.changes.snapshot())
    if parts.history is not None:
        batches += parts.history.snapshot(parts.names())
    if parts.revision is not None:
        header["revision"], window = parts.revision.snapshot()
        header["window"], header["revised"] = len(window), parts.revision.length
        batches += window
    return snapshot.save(header, batches, program)


def read_snapshot(parts: EngineParts, blob: bytes, program: str) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    """A snapshot of this program. CepError: it is of another, or damaged."""
    header, batches = snapshot.load(blob, program)
    if header["explain"] != (parts.history is not None):
        hint = "the same option on both"
        raise CepError("the snapshot was made with another `explain`", hint=hint, code="snapshot")
    if ("revision" in header) != (parts.revision is not None):
        message = "the snapshot was made without `revise`" if parts.revision else "the snapshot was made with `revise`"
        raise CepError(message, hint="both with it or both without it", code="snapshot")
    if parts.revision is not None and parts.revision.length and "revised" not in header:
        message = "the snapshot was made by an earlier version, whose window did not keep what was derived in it"
        raise CepError(message, hint="begin again, without it", code="snapshot")
    if parts.revision is not None and header.get("revised", parts.revision.length) != parts.revision.length:
        message = "the snapshot was made with another `revise`, or without it"
        raise CepError(message, hint="the same duration on both", code="snapshot")
    return header, batches


def take_on(parts: EngineParts, header: Mapping[str, Any], batches: list[pa.RecordBatch]) -> None:
    """Go on where a snapshot was made."""
    codes = _codes(parts, header, batches)
    batches = batches[header["values"] :]
    if parts.revision is not None:
        demand(0 < header["window"] < len(batches))
        parts.revision.restore(header["revision"], batches[-header["window"] :])
        if codes is not None:
            parts.revision.recode(codes, coded(parts.plan.schemas))
        batches = batches[: -header["window"]]
    if parts.history is not None:
        *batches, records, lineage = batches
        parts.history.restore(records, lineage)
    if parts.changes is not None:
        parts.changes.restore(batches.pop())
    waiting, goals = from_arrow(batches[0]), parts.machine.goals()
    demand(len(goals) == len(batches) - 1)
    if codes is not None:
        recode(waiting, codes, coded(parts.plan.schemas))
        batches[1:] = [goal.recoded(state, codes) for (_, goal), state in zip(goals, batches[1:], strict=True)]
    parts.buffer.restore(waiting, header)
    parts.machine.restore(batches[1:])
    parts.position = header["position"]
    check_restored(parts)


def _codes(parts: EngineParts, header: Mapping[str, Any], batches: list[pa.RecordBatch]) -> Translation | None:
    """Take in the values of a snapshot. Gives what its codes are here; None: what they were. That is so of a program
    that was compiled for the engine; a second engine of one has met its constants in another order."""
    if not header["values"]:
        return None
    moved = parts.pool.load(_table(batches[: header["values"]]))
    known = np.flatnonzero(moved != MISSING)
    if bool((moved[known] == known).all()):
        return None
    if parts.history is not None:
        hint = "`Engine.from_text` compiles it again"
        raise CepError(
            "with lineage a snapshot goes to the first engine of a compiled program", hint=hint, code="snapshot"
        )
    return translation(moved)


def check_restored(parts: EngineParts) -> None:
    """What was restored fits the program, and holds together. Raises CepError where it does not."""
    schemas, machine = parts.plan.schemas, parts.machine
    parts.buffer.fits({name: FIRST + len(schemas[name].attributes) for name in schemas if name in parts.plan.inputs})
    demand(isinstance(parts.position, int) and parts.position >= 0)
    where = coded(schemas)
    window = [] if parts.revision is None else parts.revision.coded(where)
    for codes in [*machine.coded(), *parts.buffer.codes(where), *window]:
        demand(parts.pool.holds(codes))
    if parts.history is not None:
        parts.history.fits(schemas, parts.names())


def carry(parts: EngineParts, state: SnapshotParts, goals: Sequence[str], knowledge: str | None) -> frozenset[str]:
    """Go on where another program was; gives the names of the goals that do."""
    if parts.history is not None:
        raise CepError("lineage cannot be carried over", hint="an engine without `explain`", code="snapshot")
    schemas, header = parts.plan.schemas, state.header
    moved = translation(
        pl.Series([], dtype=pl.Int64).to_numpy() if state.values is None else parts.pool.load(state.values)
    )
    waiting = state.waits({name: schemas[name] for name in schemas if name in parts.plan.inputs})
    recode(waiting, moved, coded(schemas))
    parts.buffer.restore(waiting, header)
    taken = parts.machine.carry(goals, state.goals, moved, Frontier.at(parts.buffer.watermark))
    if parts.changes is not None and state.changes is not None and header["knowledge"] == knowledge:
        parts.changes.restore(state.changes)
    parts.position = header["position"]
    check_restored(parts)
    return taken


def _table(batches: Sequence[pa.RecordBatch]) -> pl.DataFrame:
    found = pl.from_arrow(pa.Table.from_batches(list(batches)))
    assert isinstance(found, pl.DataFrame), "a table is read"
    return found
