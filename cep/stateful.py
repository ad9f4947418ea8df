"""The state of an engine: saved and restored as a whole, or taken out and put back by key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import polars as pl
import pyarrow as pa

from cep.compile import CompiledProgram
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
    """An engine that goes on where it, or one of another program, was.

    `carried`: of each rule that remembers whether it goes on as it was in the program before. Where an exception ends
    a call in the middle, the engine is `broken`.
    """

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
        """The whole state, to go on from later: `Engine.from_text(program).restore(blob)`."""
        return self._saved(False)

    @wholly()
    def state_for_another(self) -> bytes:
        """The whole state for an engine of another program (`PriorState`): with lineage also what is remembered. Where
        input is revised, it is that of `stable`, and the input since then waits."""
        return self._saved(True)

    def _saved(self, whole: bool) -> bytes:
        events = self._event_names() if self.stage is None and self.history is not None else None
        return engine_state.save(self._parts, self._goals(), self._loaded, self._state, events, whole)

    def _event_names(self) -> dict[str, str]:
        """Names for what events mean, as goals have them."""
        return {unit: name for unit, name in self.named().items() if isinstance(unit, str)}

    @wholly()
    def snapshot_in_segments(self) -> SegmentedState:
        """The same in segments: `new` are those that the last one had not. An engine of which they are not kept is not
        to be gone on with. Not with lineage."""
        return engine_state.save_in_segments(self._parts, self._goals(), self._loaded, self._state, self._book)

    def restore_segments(self, head: bytes, names: Sequence[str], fetch: Fetch) -> Self:
        """Take on what `snapshot_in_segments` gave, or `snapshot`. Raises CepError as `restore` does."""
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
        """Whether a snapshot is of this program, so that `restore` takes it. Raises CepError where it is damaged."""
        return snapshot.program_of(blob) == self._state

    def restore(self, blob: bytes) -> Self:
        """Take on a snapshot of the same program; gives the engine itself. Raises CepError where it is another
        program's, or damaged; the engine is then not to be used any more."""
        with snapshot.restoring():
            self._take_on(*engine_state.read_snapshot(self._parts, blob, self._state))
        return self

    @wholly()
    def _take_on(self, header: Mapping[str, Any], batches: list[pa.RecordBatch]) -> None:
        engine_state.take_on(self._parts, header, batches)

    def extract(self, keys: KeySelection) -> bytes:
        """Take out all that is held of these keys, each the values of the arguments by which the program runs
        (`cep plan`), or of a share of them; what belongs to every key is copied. Gives it as `replace` takes it.
        Raises CepError where the program or stage does not run by key, and with lineage."""
        return self._extract(self._keyed(), keys)

    def replace(self, keys: KeySelection, state: bytes) -> None:
        """Put what `extract` gave, of an engine of the same program and stage at the same watermark, in the place of
        all that is held of these keys; an engine that has met nothing takes on the watermark, too. Raises CepError."""
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

    # --- a stage's engine, which has a part of the input ---

    @wholly(refuses=True)
    def know(self, changes: Iterable[tuple[int, object, object]]) -> None:
        """Take updates from the time until the watermark, in place of all updates that were taken before, also of those
        to come: the engine goes on from a snapshot, and what changes the knowledge is read again. Raises CepError where
        one of them cannot be taken; this is then to be called again without it."""
        stepping.know(self._parts, list(changes))

    @wholly(refuses=True)
    def learn(self, changes: Sequence[tuple[int, bytes]]) -> None:
        """Take changes of the knowledge that were made of triples before (`KnowledgeSource.change`), none of which is
        late. Raises CepError, and changes nothing, where one of them cannot be."""
        stepping.learn(self._parts, changes)

    def reached_in_input(self, latest: int) -> None:
        """The whole input has come to `latest` (microseconds), of which a stage's engine has a part."""
        if self._parts.buffer.of_input is not None:
            self._parts.buffer.of_input = max(self._parts.buffer.of_input, latest)

    def begun_in_input(self, first: int) -> None:
        """The whole input has begun at `first` (microseconds), of which a stage's engine has a part."""
        self._parts.buffer.begun = min(self._parts.buffer.begun, first)

    def begun_by(self, time: int) -> bool:
        """Whether the input has begun by then (microseconds), as far as is known here."""
        return self._parts.buffer.begun <= time

    def pass_by(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """Records of events that the program does not read have come: they move the time, as others do."""
        if self._buffer.clocks is not None:  # they are those of keys that it reads
            return
        for table in tables.values():
            right = table.filter(pl.col("start") <= pl.col("end"), pl.col("end").abs() < FARTHEST)
            if right.height:
                self._buffer.latest = max(self._buffer.latest, int(right["end"].to_numpy().max()))

    def hand_lineage(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """Of a stage: these tables are about to be received, and what other stages made of them says where it comes
        from."""
        position = self.position
        for name, table in tables.items():
            if isinstance(self.history, StageHistory) and name in self.history.handed:
                self.history.hand(name, position + 1, table)
            position += table.height

    @wholly()
    def begin_window(self) -> None:
        """Where input is revised: what was given until now is final. Of an engine that took over what others hold."""
        if self._parts.revision is not None:
            begin_window(self._parts.revision, self.watermark)

    def _keyed(self) -> StateByKey:
        if self.history is not None:
            raise CepError("lineage is not kept by key", hint="an engine without `explain`", code="snapshot")
        if self._by_key is None:
            stage = KeyedStage.of(self._whole, self.stage)
            held = StateByKey(stage, self._parts, self._state + " by key")
            held.check()
            self._by_key = held
        return self._by_key
