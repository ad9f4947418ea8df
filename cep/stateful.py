"""The state of an engine: it is saved and restored as a whole, or moved between engines by key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import polars as pl
import pyarrow as pa

from cep.compile import CompiledProgram
from cep.core.collection import no_collection
from cep.core.errors import CepError
from cep.core.time import FARTHEST
from cep.engine_view import EngineView, assemble
from cep.runtime import engine_state, snapshot, stepping
from cep.runtime.history import StageHistory
from cep.runtime.keyed_stage import KeyedStage, KeySelection
from cep.runtime.options import EngineOptions
from cep.runtime.prior_state import SnapshotParts
from cep.runtime.revision.window_snapshot import begin_window
from cep.runtime.snapshot import Fetch, SegmentBook, SegmentedState
from cep.runtime.state_by_key import StateByKey
from cep.runtime.stepping import wholly


class StatefulEngine(EngineView):
    """An engine that can continue from the state of another engine, even if that engine runs another program.

    `carried`: True for each rule that continues its state from the prior program. If an exception interrupts a call,
    the engine is `broken`.
    """

    @no_collection()
    def __init__(self, program: CompiledProgram, options: EngineOptions) -> None:
        super().__init__(program, options.stage, assemble(program, options))
        self.broken = False
        self._book = SegmentBook()
        self._by_key: StateByKey | None = None
        self.carried: dict[str, bool] = {}
        if options.before is not None:
            state = SnapshotParts.of(options.before)
            with snapshot.restoring():
                warm = options.before.warm
                start = None if warm is None else SnapshotParts.of(warm)
                taken = engine_state.carry(self._parts, state, self._goals(), self._loaded, self._event_names(), start)
            self.carried = {rule: goals <= taken for rule, goals in self.goals().items()}

    @wholly()
    def snapshot(self) -> bytes:
        """Return the whole state of the engine as bytes. `Engine.from_text(program).restore(blob)` continues from
        it."""
        return self._saved(False)

    @wholly()
    def state_for_another(self) -> bytes:
        """Return the whole state, including remembered lineage, for an engine of another program (`PriorState`).

        If input is revised, this is the state at the time `stable`. Input after that time is saved as the contents of
        the reorder buffer.
        """
        return self._saved(True)

    def _saved(self, whole: bool) -> bytes:
        events = self._event_names() if self.stage is None and self.history is not None else None
        return engine_state.save(self._parts, self._goals(), self._loaded, self._state, events, whole)

    def _event_names(self) -> dict[str, str]:
        return {unit: name for unit, name in self.named().items() if isinstance(unit, str)}

    @wholly()
    def snapshot_in_segments(self) -> SegmentedState:
        """Return the whole state in segments. The result's `new` contains the segments that have changed since the last
        call.

        The next call assumes that the caller has stored these segments. A caller that cannot store them must not use
        the engine any more. Not available in an engine that keeps lineage.
        """
        return engine_state.save_in_segments(self._parts, self._goals(), self._loaded, self._state, self._book)

    def restore_segments(self, head: bytes, names: Sequence[str], fetch: Fetch) -> Self:
        """Restore a state that `snapshot_in_segments` or `snapshot` returned. Raises CepError as `restore` does."""
        with snapshot.restoring():
            header, batches = engine_state.read_snapshot(self._parts, head, self._state)
            if "segments" in header:
                self._take_on_segments(header, batches, names, fetch)
            else:
                self._take_on(header, batches)
        return self

    @wholly()
    def _take_on_segments(
        self, header: Mapping[str, Any], batches: list[pa.RecordBatch], names: Sequence[str], fetch: Fetch
    ) -> None:
        self._book = SegmentBook()
        engine_state.take_on_segments(self._parts, header, batches, names, fetch, self._book)

    def goes_on(self, blob: bytes) -> bool:
        """Return True if a snapshot belongs to this engine's program. Raises CepError if the snapshot is damaged."""
        return snapshot.program_of(blob) == self._state

    def restore(self, blob: bytes) -> Self:
        """Restore a snapshot of the same program, and return the engine.

        Raises CepError if the snapshot is damaged or belongs to another program. After this error, the engine must not
        be used.
        """
        with snapshot.restoring():
            self._take_on(*engine_state.read_snapshot(self._parts, blob, self._state))
        return self

    @wholly()
    def _take_on(self, header: Mapping[str, Any], batches: list[pa.RecordBatch]) -> None:
        engine_state.take_on(self._parts, header, batches)

    def extract(self, keys: KeySelection) -> bytes:
        """Remove the state of some keys, and return it in the form that `replace` reads. State that belongs to all keys
        is copied, and also remains in the engine.

        A key consists of the values of the arguments by which the program is distributed (`cep plan`). `keys` lists the
        keys, or selects them by their hashes. Raises CepError if the program or stage is not distributed by key, or if
        the engine keeps lineage.
        """
        return self._extract(self._keyed(), keys)

    def replace(self, keys: KeySelection, state: bytes) -> None:
        """Replace the state of some keys by `state`, a result of `extract`.

        `state` must come from an engine with the same program, stage and watermark. If this engine has not received any
        input yet, it adopts the watermark of `state`. Raises CepError if the state does not fit, or if the program or
        stage is not distributed by key.
        """
        held = self._keyed()
        with snapshot.restoring():
            self._replace(held, keys, *held.read(state))

    @wholly()
    def _extract(self, held: StateByKey, keys: KeySelection) -> bytes:
        return held.extract(keys)

    @wholly()
    def _replace(
        self, held: StateByKey, keys: KeySelection, header: Mapping[str, Any], batches: list[pa.RecordBatch]
    ) -> None:
        held.replace(keys, header, batches)
        engine_state.check_restored(self._parts)

    # --- the engine of a stage, which receives a part of the input ---

    @wholly(refuses=True)
    def know(self, changes: Iterable[tuple[int, object, object]]) -> None:
        """Replace all updates of the knowledge, past and pending, by `changes`.

        Use it for an engine that was restored from a snapshot. Raises CepError if an update is refused. The caller must
        then call this method again without that update.
        """
        stepping.know(self._parts, list(changes))

    @wholly(refuses=True)
    def learn(self, changes: Sequence[tuple[int, bytes]]) -> None:
        """Apply updates of the knowledge that `KnowledgeSource.change` has serialized. The watermark must not have
        passed the time of any of them.

        Raises CepError, and changes nothing, if an update is refused.
        """
        stepping.learn(self._parts, changes)

    def reached_in_input(self, latest: int) -> None:
        """Record the latest time (microseconds) of the whole input. An engine of a stage needs this time, because the
        engine receives only a part of the input."""
        if self._parts.buffer.of_input is not None:
            self._parts.buffer.of_input = max(self._parts.buffer.of_input, latest)

    def begun_in_input(self, first: int) -> None:
        """Record the first time (microseconds) of the whole input. An engine of a stage needs this time, because the
        engine receives only a part of the input."""
        self._parts.buffer.begun = min(self._parts.buffer.begun, first)

    def begun_by(self, time: int) -> bool:
        """Return True if the input has begun at or before `time` (microseconds), as far as this engine knows."""
        return self._parts.buffer.begun <= time

    def pass_by(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """Record the times of events that the program does not read, because they move the watermark as well."""
        if self._buffer.clocks is not None:  # watermarks by key depend only on events that the program reads
            return
        for table in tables.values():
            right = table.filter(pl.col("start") <= pl.col("end"), pl.col("end").abs() < FARTHEST)
            if right.height:
                self._buffer.latest = max(self._buffer.latest, int(right["end"].to_numpy().max()))

    def hand_lineage(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """Register the lineage of rows that an engine of a stage is about to receive from other stages."""
        position = self.position
        for name, table in tables.items():
            if isinstance(self.history, StageHistory) and name in self.history.handed:
                self.history.hand(name, position + 1, table)
            position += table.height

    @wholly()
    def begin_window(self) -> None:
        """If the engine revises its results, make the results so far final, and begin a new revision window.

        The caller calls this after the engine has taken over the state of other engines.
        """
        if self._parts.revision is not None:
            begin_window(self._parts.revision, self.watermark)

    def _keyed(self) -> StateByKey:
        if self.history is not None:
            raise CepError(
                "an engine with `explain` cannot keep its state by key",
                hint="use an engine without `explain`",
                code="snapshot",
            )
        if self._by_key is None:
            stage = KeyedStage.of(self._whole, self.stage)
            held = StateByKey(stage, self._parts, self._state + " by key")
            held.check()
            self._by_key = held
        return self._by_key
