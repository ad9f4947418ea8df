"""The whole state of an engine. This module saves, restores and checks it, and carries it over from another program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from cep.core import value_blocks
from cep.core.errors import CepError
from cep.core.relation import FIRST, Table
from cep.core.time import Frontier
from cep.core.values import MISSING, Pool
from cep.operators.goals.contract import Translation, demand, from_arrow, to_arrow
from cep.runtime import prior_state, snapshot
from cep.runtime.carried_lineage import carry_lineage
from cep.runtime.machine import CarriedState
from cep.runtime.parts import EngineParts, coded
from cep.runtime.prior_state import SnapshotParts
from cep.runtime.revision import window_snapshot
from cep.runtime.revision.window_snapshot import begin_window, resize
from cep.runtime.snapshot import Fetch, SegmentBook, SegmentedState
from cep.runtime.state_by_key import recode, translation


def save(
    parts: EngineParts,
    goals: Sequence[str],
    knowledge: str | None,
    program: str,
    events: Mapping[str, str] | None,
    whole: bool = False,
) -> bytes:
    """Return a snapshot of an engine.

    - `goals`: the names of the machine's goals.
    - `knowledge`: the name of the background knowledge.
    - `program`: the name of the program.
    - `events`: the fingerprint of each event, with which another program can carry over the lineage. None for an engine
      of a stage, because its lineage cannot be carried over.
    - `whole`: True to include everything that the history keeps. If input is revised, the saved state is then that of
      the time up to which results are final. Rows after this time are saved as waiting rows.
    """
    final = whole and parts.revision is not None and not parts.revision.window.final
    header, batches = _saved(parts, goals, knowledge, final)
    values = parts.pool.dump().to_arrow().combine_chunks().to_batches()
    header["values"] = len(values)
    batches = [*values, *batches]
    if parts.history is not None:
        if events is not None:
            header["events"], header["heads"] = dict(events), [head.event for head in parts.plan.heads]
        batches += parts.history.snapshot(parts.names(), whole)
    if parts.revision is not None and not final:
        header["revision"], late, held = window_snapshot.save(parts.revision)
        window = [*late, *map(to_arrow, held)]
        header["window"], header["revised"] = len(window), parts.revision.length
        batches += window
    return snapshot.save(header, batches, program)


def save_in_segments(
    parts: EngineParts, goals: Sequence[str], knowledge: str | None, program: str, book: SegmentBook
) -> SegmentedState:
    """Return a snapshot in segments, without lineage.

    If input is revised, the segments contain the pool's values and the rows of the revision window. Otherwise the
    snapshot has no segments.
    """
    assert parts.history is None, "what is kept in segments has no lineage"
    header, batches = _saved(parts, goals, knowledge)
    header["values"] = 0
    names: list[str] = []
    if parts.revision is not None:
        names += value_segments(parts.pool, book)
        header["values in segments"] = len(names)
        header["revision"], late, held = window_snapshot.save(parts.revision)
        header["window"], header["revised"] = len(late), parts.revision.length
        batches += late
        names += [book.name(*window_snapshot.segment_of(arrays), partial(to_arrow, arrays)) for arrays in held]
        header["segments"] = len(names)
    else:
        values = parts.pool.dump().to_arrow().combine_chunks().to_batches()
        header["values"], batches = len(values), [*values, *batches]
    return SegmentedState(snapshot.save(header, batches, program), names, book.taken())


def _saved(
    parts: EngineParts, goals: Sequence[str], knowledge: str | None, final: bool = False
) -> tuple[dict[str, object], list[pa.RecordBatch]]:
    """Return the header of a snapshot, and batches of waiting rows, goal states and changes of the knowledge.

    `final`: True to save the state at the time up to which results are final, instead of the current state.
    """
    buffer, schemas = parts.buffer, parts.plan.schemas
    revised: Collection[str] = () if parts.revision is None else parts.revision.waiting
    waiting, times = buffer.snapshot(), buffer.times()
    if final:
        assert parts.revision is not None, "else all is final"
        times["watermark"], states, waiting = window_snapshot.stable_state(parts.revision, buffer.frontier)
        revised = waiting
    else:
        states = parts.machine.snapshot()
    header: dict[str, object] = {
        "explain": parts.history is not None,
        "position": parts.position,
        **times,
        "knowledge": knowledge,
        "waiting": {name: [a.type for a in schemas[name].attributes] for name in sorted({*buffer.waiting, *revised})},
        "goals": prior_state.shortened(goals, states),
    }
    batches = [to_arrow(waiting), *states]
    if parts.changes is not None:
        batches.append(parts.changes.snapshot())
    return header, batches


def value_segments(pool: Pool, book: SegmentBook) -> list[str]:
    """Return the names of the segments that hold the pool's values."""
    names = []
    for first, last in value_blocks.blocks(pool):
        settled = value_blocks.settled(pool, first, last)
        names.append(book.name(_block_key(pool, first, last, settled), None, partial(_block, pool, first, last)))
    return names


def _block_key(pool: Pool, first: int, last: int, settled: bool) -> tuple[object, ...]:
    return ("values", pool.generation, first, last) if settled else ("values", object())


def _block(pool: Pool, first: int, last: int) -> pa.RecordBatch:
    return value_blocks.dumped(pool, first, last).rechunk().to_arrow().combine_chunks().to_batches()[0]


def read_snapshot(parts: EngineParts, blob: bytes, program: str) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    """Split a snapshot of this program into its header and its batches.

    Raises CepError if the snapshot is damaged, is from another program, or was made with other options.
    """
    header, batches = snapshot.load(blob, program)
    if header["explain"] != (parts.history is not None):
        raise _other_explain()
    if ("revision" in header) != (parts.revision is not None):
        message = "the snapshot was made without `revise`" if parts.revision else "the snapshot was made with `revise`"
        raise CepError(
            message, hint="use `revise` for both the snapshot and the engine, or for neither", code="snapshot"
        )
    if parts.revision is not None and bool(header["revised"]) != bool(parts.revision.length):
        message = "the snapshot was made with another `revise`, or without it"
        raise CepError(message, hint="use the same `revise` as for the snapshot", code="snapshot")
    return header, batches


def take_on(
    parts: EngineParts,
    header: Mapping[str, Any],
    batches: list[pa.RecordBatch],
    segments: Sequence[pa.RecordBatch] | None = None,
) -> bool:
    """Restore a snapshot. Return True if every pool code means the same value in the snapshot and in this engine.

    `segments`: the segments of the revision window, if the snapshot does not contain them.
    """
    codes = _codes(parts, header, batches)
    batches = batches[header["values"] :]
    if parts.revision is not None:
        demand(0 < header["window"] < len(batches))
        late, held = batches[-header["window"] :][:2], batches[-header["window"] :][2:]
        window_snapshot.restore(parts.revision, header["revision"], late, held if segments is None else segments)
        if header["revised"] != parts.revision.length:
            resize(parts.revision, header["revised"])
        if codes is not None:
            parts.revision.recode(codes, coded(parts.plan.schemas))
        batches = batches[: -header["window"]]
    if parts.history is not None:
        parts.history.take_on(batches)
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
    return codes is None


def take_on_segments(
    parts: EngineParts,
    header: Mapping[str, Any],
    batches: list[pa.RecordBatch],
    names: Sequence[str],
    fetch: Fetch,
    book: SegmentBook,
) -> None:
    """Restore a snapshot whose pool values and revision window are in segments.

    - `names`: the names of the segments.
    - `fetch`: a function that reads a segment by name.
    - `book`: the record of the segments that exist, so that a later snapshot can use them again.
    """
    demand(len(names) == header["segments"])
    count, segments = header["values in segments"], [snapshot.streamed(fetch(name)) for name in names]
    values, window = segments[:count], segments[count:]
    same = take_on(parts, {**header, "values": count}, [*values, *batches], window)
    assert parts.revision is not None, "a window is in segments"
    if same:  # otherwise, the values in memory differ from the segments
        blocks = value_blocks.blocks(parts.pool)
        for (first, last), name, batch in zip(blocks, names, values) if len(blocks) == count else ():
            settled = batch.num_rows == last - first and value_blocks.settled(parts.pool, first, last)
            book.know(_block_key(parts.pool, first, last, settled), None, name)
        window_snapshot.know(parts.revision, book, names[count:])
    book.taken()


def _codes(parts: EngineParts, header: Mapping[str, Any], batches: list[pa.RecordBatch]) -> Translation | None:
    """Load the values of a snapshot into the pool. Return the translation of the snapshot's pool codes to codes of this
    engine. Return None if the codes are the same.

    The codes are the same in the first engine of a compiled program. A later engine adds its constants to the pool in
    another order than the first engine.
    """
    if not header["values"]:
        return None
    moved = parts.pool.load(_table(batches[: header["values"]]))
    known = np.flatnonzero(moved != MISSING)
    if bool((moved[known] == known).all()):
        return None
    if parts.history is not None:
        hint = "use `Engine.from_text`, which compiles the program again"
        raise CepError(
            "only the first engine of a compiled program can restore a snapshot with lineage",
            hint=hint,
            code="snapshot",
        )
    return translation(moved)


def check_restored(parts: EngineParts) -> None:
    """Check that a restored state fits the program and is consistent. Raises CepError if it does not fit."""
    schemas, machine = parts.plan.schemas, parts.machine
    parts.buffer.fits({name: FIRST + len(schemas[name].attributes) for name in schemas if name in parts.plan.inputs})
    demand(isinstance(parts.position, int) and parts.position >= 0)
    where = coded(schemas)
    window = [] if parts.revision is None else parts.revision.coded(where)
    for codes in [*machine.coded(), *parts.buffer.codes(where), *window]:
        demand(parts.pool.holds(codes))
    if parts.history is not None:
        parts.history.fits(schemas, parts.names())


def carry(
    parts: EngineParts,
    state: SnapshotParts,
    goals: Sequence[str],
    knowledge: str | None,
    events: Mapping[str, str],
    warm: SnapshotParts | None = None,
) -> frozenset[str]:
    """Restore the state of another program. Return the names of the goals that keep their state.

    `events`: the fingerprint of each event. `warm`: a snapshot of the new program, from which the other goals get their
    state. If it is None, these goals start with an empty state.
    """
    schemas, header = parts.plan.schemas, state.header
    if header["explain"] != (parts.history is not None):
        raise _other_explain()
    moved = _moved(parts, state)
    warmed = moved if warm is None else _moved(parts, warm)
    waiting = state.waits({name: schemas[name] for name in schemas if name in parts.plan.inputs})
    recode(waiting, moved, coded(schemas))
    parts.buffer.restore(waiting if parts.revision is None else {}, header)
    parts.position, names = header["position"], None
    if parts.history is not None and state.lineage is not None:
        second = None if warm is None or warm.lineage is None else (warm.lineage, _recoding(parts, warmed))
        heads = [head.event for head in parts.plan.heads]
        names, parts.position = carry_lineage(
            parts.history, state.lineage, _recoding(parts, moved), events, heads, second
        )
    states: list[CarriedState] = [(state.goals, moved, None), *([] if warm is None else [(warm.goals, warmed, names)])]
    parts.machine.carry(goals, states, Frontier.at(parts.buffer.watermark))
    taken = frozenset(state.goals.keys() & set(goals))
    if parts.changes is not None and state.changes is not None and header["knowledge"] == knowledge:
        parts.changes.restore(state.changes)
    if parts.revision is not None:
        begin_window(parts.revision, parts.buffer.watermark, waiting)
    check_restored(parts)
    return taken


def _recoding(parts: EngineParts, codes: Translation) -> Callable[[Mapping[str, Table]], None]:
    return lambda tables: recode(tables, codes, coded(parts.plan.schemas))


def _other_explain() -> CepError:
    hint = "use the same `explain` as for the snapshot"
    return CepError("the snapshot was made with another `explain`", hint=hint, code="snapshot")


def _moved(parts: EngineParts, state: SnapshotParts) -> Translation:
    """Add the values of another program's snapshot to this engine's pool. Return the translation of the snapshot's pool
    codes to codes of this engine."""
    return translation(
        pl.Series([], dtype=pl.Int64).to_numpy() if state.values is None else parts.pool.load(state.values)
    )


def _table(batches: Sequence[pa.RecordBatch]) -> pl.DataFrame:
    frame = pl.from_arrow(pa.Table.from_batches(list(batches)))
    assert isinstance(frame, pl.DataFrame), "a table is read"
    return frame
