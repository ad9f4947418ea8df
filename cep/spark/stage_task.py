"""The task of a stage in a worker. It advances the engines of its buckets, and keeps these engines for later tasks. The
input of the engines is shuffle blocks.

The state of a bucket is a file. The file contains a snapshot of the bucket's engine, or only the input since the last
snapshot (see `cep.spark.state.bucket_states`). The note of a micro-batch contains the version of each state. Workers
keep engines in memory. A worker that has an engine of the requested version does not read the file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from cep.connectors.arrow_bytes import unpack
from cep.connectors.records.batch import DeadLetter
from cep.core.errors import CepError
from cep.core.fluents import BEGINS_AT
from cep.core.schema import ARRIVAL, TIE
from cep.core.time import FARTHEST
from cep.engine import Engine
from cep.runtime.buckets import merged_by_arrival, stacked
from cep.runtime.encode import late_reason
from cep.runtime.fluent_records import as_intervals
from cep.runtime.prior_state import PriorState
from cep.runtime.report import Report
from cep.runtime.run_stats import RevisionStats
from cep.runtime.state_by_key import gather
from cep.spark.dead_letters import file_of, line_of, record_lines, stage_letters, write_dead_letters
from cep.spark.key_lateness import LateKeys
from cep.spark.multiplicity_task import KeptWays, forget_others
from cep.spark.program import ShippedProgram
from cep.spark.shuffle_blocks import (
    CHANGE,
    FIRST,
    FIRSTS,
    LATE,
    LATEST,
    ShuffleBlock,
    Stepped,
    Stretch,
    WorldRows,
    for_world,
    from_stage,
    report_block,
)
from cep.spark.source.file_list import FILE_BITS
from cep.spark.state.bucket_states import BucketStates
from cep.spark.state.delta_log import Came
from cep.spark.state.migration import StartingPoint, WarmStates
from cep.workers.multiplicities import added, composed, withdrawn

_engines: dict[tuple[str, int, int], tuple[int, Engine]] = {}
"""The engines that this worker keeps, and their versions. A key consists of the run, the stage and the bucket."""


def kept_version(run: str, stage: int, bucket: int) -> int | None:
    """Return the version of the engine that this worker keeps for a bucket, or None if it keeps none."""
    known = _engines.get((run, stage, bucket))
    return None if known is None else known[0]


def drop_engine(run: str, stage: int, bucket: int) -> None:
    """Drop the engine that this worker keeps for a bucket of a stage."""
    _engines.pop((run, stage, bucket), None)


KNOWN = "the update is late: the results that it would change are final"


@dataclass(frozen=True, slots=True)
class GenerationStart:
    """The point and the states from which the buckets of a generation start. `folder`: the folder of these states.

    `warm`: the states from which new rules start, or None if new rules start with an empty state.
    """

    start: StartingPoint
    folder: str
    warm: WarmStates | None = None


@dataclass(frozen=True, slots=True)
class StageWork:
    """The description of a stage's tasks, in the form in which it is sent to workers.

    - `number`: the number of the stage.
    - `run`: the name of this run of the query, by which a worker recognizes its engines.
    - `wanted`: the events to output.
    - `dead_letters`: the path prefix of dead-letter files. If it is None, dead letters are dropped.
    - `states`: the state files of this stage.
    - `beginning`: the states from which the stage's buckets start. If it is None, the buckets start with an empty
      state.
    - `times`: the format of output times (see `cep.connectors.records.times`).
    - `stretch`: the first and the last time of the output.
    - `generation`: the number of the checkpoint's generation.
    - `warms`: True if the stage processes all earlier input in one micro-batch, in which no row is late.
    - `cuts`: for each fluent, the time before which nothing is written.
    """

    program: ShippedProgram
    number: int
    run: str
    wanted: tuple[str, ...]
    dead_letters: str | None
    states: BucketStates
    beginning: GenerationStart | None
    times: str = "iso"
    stretch: Stretch = (None, None)
    generation: int = 1
    warms: bool = False
    cuts: Mapping[str, int] = field(default_factory=dict)

    def task(self) -> StageTask:
        """Create the task in a worker."""
        return StageTask(self)


class StageTask:
    """A task of a stage, which uses the engines of its buckets."""

    def __init__(self, work: StageWork) -> None:
        self.program, self.stage, self.beginning = work.program, work.program.stages[work.number - 1], work.beginning
        self.run, self.wanted, self.dead_letters, self.states = work.run, work.wanted, work.dead_letters, work.states
        self.times, self.stretch, self.generation = work.times, work.stretch, work.generation
        self.warms, self.cuts = work.warms, work.cuts
        self.recorded = frozenset(self.program.records.values())
        handed = self.stage.inputs.keys() - self.stage.outside
        self.several = handed & self.program.scattered if self.program.window is not None else frozenset()
        number = len(self.program.stages) + self.stage.number
        self.ways = KeptWays(self.program, self.run, replace(work.states, stage=number), self.program.schemas)
        forget_others(self.run)
        for key, (known, _) in list(_engines.items()):
            run, stage, bucket = key
            if run != self.run or (stage == self.stage.number and not self.states.newest(bucket, known)):
                del _engines[key]  # its run has ended, or another worker has continued its bucket

    def step(self, bucket: int, version: int, rows: Sequence[ShuffleBlock], watermark: int, batch: int) -> Stepped:
        """Advance a bucket to the watermark, with `rows` as its input.

        - `version`: the version of the bucket's state, or 0 if it has no state yet.
        - `watermark`: the watermark in milliseconds, or 0 if there is no watermark yet.
        - `batch`: the number of the micro-batch.
        """
        engine = self.engine(bucket, version)
        begun = self.begun(engine) if not version and self.program.changes else {}
        before = engine.revision_stats, engine.late_rows
        if self.warms:
            self.taken(engine, bucket, version, rows, 0)
            rows = ()
        derived, dead = self.taken(engine, bucket, version, rows, watermark)
        name = stage_letters(self.stage.number, bucket, version, self.generation)
        write_dead_letters(self.dead_letters, name, sorted(dead, key=lambda letter: (letter.file or "", letter.line)))
        self.keep(bucket, version + 1, engine, batch, Came(rows, watermark))
        waits = (engine.state_rows or self.stage.number in self.program.ticking) and engine.watermark < FARTHEST
        withdrawn = self.withdrawn(derived)
        report = Report.of(
            engine,
            added(derived),
            stage=self.stage.number,
            bucket=bucket,
            late=Counter(letter.event for letter in dead if letter.event is not None and letter.code == "late"),
            dead=Counter(letter.code for letter in dead),
            revised=self.revised(engine, bucket, *before, sum(withdrawn.values())),
            withdrawn=withdrawn,
            merged=sum(n for event, n in engine.take_merged().items() if self.reports(event, bucket)),
        )
        return Stepped(
            version + 1,
            watermark + 1 if waits else None,
            [*from_stage(self.program, self.stage, bucket, derived), report_block(report)],
            [rows for tables in (begun, derived) for rows in self.for_world(bucket, tables)],
        )

    def for_world(self, bucket: int, tables: Mapping[str, pl.DataFrame]) -> Iterable[WorldRows]:
        """Return the rows of a bucket that go to the sink."""
        return for_world(self.program, self.stage, bucket, tables, self.wanted, self.stretch, self.cuts)

    def begun(self, engine: Engine) -> dict[str, pl.DataFrame]:
        """Return the beginnings that must be written for fluents that hold when a new program takes over.

        Only the fluents that the former program lacks or defines differently are included.
        """
        start = None if self.beginning is None else self.beginning.start
        held = {} if start is None else engine.held_now()
        cut = [name for name in held if start is not None and self.cuts.get(name) == start.time]
        return dict(self.program.edges(name, held[name], self.cuts[name], BEGINS_AT) for name in cut)

    def taken(
        self, engine: Engine, bucket: int, version: int, rows: Sequence[ShuffleBlock], watermark: int
    ) -> tuple[dict[str, pl.DataFrame], list[DeadLetter]]:
        """Advance the engine of a bucket to the watermark, with `rows` as input. Return the results and refused rows.

        The engine's next state depends only on its version, the rows and the watermark.
        """
        until = watermark * 1000 - 1 if watermark > 0 else engine.watermark
        stable = max(until - (self.program.window or 0), engine.stable)
        dead, learnt = self.apply_changes(engine, rows, bucket, max(until - self.program.known, stable))
        for row in rows:
            if row.event == LATEST:
                engine.reached_in_input(int(row.rows))
            if row.event == FIRST:
                begin(engine, json.loads(row.rows), until)
        tables, late = self.split_late(
            [row for row in rows if row.event not in (CHANGE, FIRST, LATEST)], bucket, stable
        )
        dead += late
        tables = self.counted(bucket, version, tables, stable)
        derived: list[Mapping[str, pl.DataFrame]] = []
        if self.recorded.intersection(tables) and engine.watermark < until <= FARTHEST:
            derived.append(engine.advance(until))  # only the engine knows which records are late
        if tables:
            engine.receive(tables)
            dead += self.refused_rows(engine, tables, bucket, rows)
        if until > engine.watermark or ((tables or learnt) and self.program.window is not None):
            derived.append(engine.close() if until > FARTHEST else engine.advance(until))
        if not tables:
            engine.forget()
        return together(derived), dead

    def engine(self, bucket: int, version: int) -> Engine:
        """Return the engine of a bucket at a version: the one that this worker keeps, or one restored from files."""
        known, engine = _engines.pop((self.run, self.stage.number, bucket), (-1, None))
        if engine is not None and known == version:
            return engine
        if not version:
            return self.first_engine(bucket)
        restored = self.program.engine(self.stage.number)
        whole, entries = self.states.log(bucket, version)
        engine = self.states.opened(
            bucket, whole, lambda state, segments: restored.restore_segments(state, segments.names, segments.fetch)
        )
        for number, entry in enumerate(entries, whole):
            self.taken(engine, bucket, number, entry.rows, entry.watermark)
        engine.take_counts()  # these counts were reported before
        return engine

    def settle(self, bucket: int, version: int) -> None:
        """Write the whole state of a bucket if this version is not whole yet. Raises the same errors as `engine`."""
        if self.states.log(bucket, version)[1]:
            engine = self.engine(bucket, version)
            self.states.settle(bucket, version, engine.snapshot())
            _engines[self.run, self.stage.number, bucket] = version, engine

    def first_engine(self, bucket: int) -> Engine:
        """Return the engine from which a bucket starts.

        If the number of buckets has changed, the engine also gets the state of keys that move to this bucket.
        """
        number, beginning, count = self.stage.number, self.beginning, self.program.buckets
        if beginning is None:
            return self.program.engine(number)
        start, folder = beginning.start, beginning.folder
        warm = None if beginning.warm is None else beginning.warm.state(number, bucket)
        if not self.stage.keyed or start.buckets == count or not start.sources[number - 1]:
            own = start.state(folder, number, bucket)
            return self.program.engine(number, before=None if own is None else replace(own, warm=warm))

        def before(place: int) -> Engine | None:
            state = start.own(folder, number, place)
            return None if state is None else self.program.engine(number, before=state)

        engine = self.program.engine(number, before=start.only_time(folder))
        gather(before, start.buckets, engine, bucket, count)
        if warm is not None:
            state = PriorState(engine.snapshot(), frozenset(start.laid.goals), watermark=start.time, warm=warm)
            engine = self.program.engine(number, before=state)
        engine.begin_window()
        return engine

    def withdrawn(self, derived: Mapping[str, pl.DataFrame]) -> dict[str, int]:
        """Return for each written event the number of rows that are withdrawn.

        Events whose identical rows are merged later are left out.
        """
        if self.program.window is None:
            return {}
        mine = {name: derived[table] for table, name in self.program.written.items() if table in derived}
        return withdrawn({name: table for name, table in mine.items() if name not in self.program.merged})

    def revised(
        self, engine: Engine, bucket: int, before: RevisionStats | None, late: Mapping[str, int], withdrawn: int
    ) -> RevisionStats | None:
        """Return statistics of the corrections in one step. Returns None if the engine does not revise results.

        - `before`: the engine's statistics before the step.
        - `late`: for each event, the number of the engine's late rows before the step.
        - `withdrawn`: the number of rows that the step withdraws.
        """
        if before is None or engine.revision_stats is None:
            return None
        mine = [event for event in self.stage.outside if self.reports(event, bucket)]
        late_count = sum(engine.late_rows.get(event, 0) - late.get(event, 0) for event in mine)
        done = engine.revision_stats - before
        return replace(done, late=late_count, revisions=min(late_count, done.revisions), withdrawn=withdrawn)

    def counted(
        self, bucket: int, version: int, tables: dict[str, pl.DataFrame], stable: int
    ) -> dict[str, pl.DataFrame]:
        """Return the input tables of a step with only the rows that appear or disappear. For this, the copies of a row
        that several buckets or stages derive are counted.

        `stable`: the time up to which the counts are no longer needed.
        """
        if not self.several:
            return tables
        ways = self.ways.of(bucket, version)
        taken = {event: ways.take(event, table) if event in self.several else table for event, table in tables.items()}
        ways.forget(stable)
        return {event: table for event, table in taken.items() if table.height}

    def keep(self, bucket: int, version: int, engine: Engine, batch: int, arrived: Came) -> None:
        """Keep the engine of a bucket at a version. Write its whole state, or only the input since the last version.

        The whole state is written if results are revised. Segments that are already on disk are not written again. It
        is also written if the time of a search is limited, because a repeated step may then have other results. In this
        case no engine is kept, so that the next step starts from the written state.
        """
        timed = self.program.options.compiling.solve_limit is not None
        if engine.revises or timed or not self.states.append(bucket, version, arrived, batch):
            self.states.write(bucket, version, engine.snapshot_in_segments(), batch)
        if self.several:
            self.ways.keep(bucket, version, batch)
        if not timed:
            _engines[self.run, self.stage.number, bucket] = version, engine

    def apply_changes(
        self, engine: Engine, rows: Iterable[ShuffleBlock], bucket: int, stable: int
    ) -> tuple[list[DeadLetter], bool]:
        """Apply changes of the knowledge. Return the refused changes, and True if at least one change is not late.

        A change is refused if it is late or cannot be applied. All buckets refuse the same changes, and only one bucket
        returns them. `stable`: the time up to which changes are late.
        """
        dead_letters: list[DeadLetter] = []
        changes = [load for row in rows if row.event == CHANGE for load in json.loads(row.rows)]
        assert not changes or engine.changes is not None, "who gives changes gives knowledge"
        timely = [change for change in changes if change[0] > stable]
        taken = bool(timely)
        try:
            if timely:
                engine.learn([(time, change.encode()) for time, change, _, _ in timely])
            timely = []
        except CepError:  # one of them is not possible: apply each one alone
            pass
        late = KNOWN if self.program.known else "the update is late: the watermark has passed it"
        for time, change, file, line in changes:
            try:
                if time <= stable:
                    raise CepError(late, code="late")
                if timely:
                    engine.learn([(time, change.encode())])
            except CepError as error:
                dead_letters.append(DeadLetter(file, line, error.message, error.code, _plain(change)))
        return dead_letters if (self.stage.number, bucket) == (1, 0) else [], taken

    def split_late(
        self, rows: Sequence[ShuffleBlock], bucket: int, stable: int
    ) -> tuple[dict[str, pl.DataFrame], list[DeadLetter]]:
        """Split the rows of blocks into timely and late rows.

        Return a table of the timely rows for each event, and dead letters for the late rows. `stable`: the time up to
        which rows of all keys are late.
        """
        parts: dict[str, list[pl.DataFrame]] = {}
        dead: list[DeadLetter] = []
        keys = LateKeys(self.program, rows)
        for row in sorted(rows, key=lambda row: (row.event, row.place, row.source or "")):
            if row.event in ("", LATE):
                continue  # these blocks have no rows of an event
            table = unpack(row.rows)
            if row.event in self.stage.outside and row.event not in self.recorded:
                ends, until = table["end"].to_numpy(), keys.until(row.event, table, stable)
                late = ends <= until
                if late.any():
                    if self.reports(row.event, bucket):
                        these = table.filter(late)
                        dead += [
                            DeadLetter(row.source, line_of(order), self.late(by), "late", text, row.event)
                            for order, by, text in zip(
                                these[ARRIVAL].to_list(),
                                (until + 1 - ends)[late].tolist(),
                                self.records(these, row.event),
                            )
                        ]
                    table = table.filter(~late)
            parts.setdefault(row.event, []).append(table)
        outside = self.stage.outside
        tables = {
            event: stacked(runs) if event in outside else merged_by_arrival(runs) for event, runs in parts.items()
        }
        return {event: table for event, table in tables.items() if table.height}, dead

    def late(self, by: int) -> str:
        """Return the reason why a row is refused. `by`: how late the row is, in microseconds."""
        return late_reason(by, self.program.window is not None, self.program.lateness_by)

    def reports(self, event: str, bucket: int) -> bool:
        """Return True if this bucket reports the refused rows of the event."""
        if self.program.owner(event) != self.stage.number:
            return False
        return self.stage.inputs[event] != "broadcast" or bucket == 0

    def refused_rows(
        self, engine: Engine, tables: Mapping[str, pl.DataFrame], bucket: int, rows: Iterable[ShuffleBlock]
    ) -> list[DeadLetter]:
        """Return dead letters for the rows of `tables` that the engine has just refused."""
        dead_letters = []
        sources = {row.place: row.source for row in rows if row.source is not None}
        for dead in engine.take_dead():
            event = self.program.records.get(dead.type, dead.type)
            assert event in self.stage.outside, "what a stage makes fits"
            if not self.reports(event, bucket):
                continue
            order = int(tables[event][ARRIVAL][dead.row])
            text = "".join(self.records(tables[event][dead.row : dead.row + 1], event))
            number = file_of(order)
            # Rows of a DataFrame have the number of its input.
            source = sources.get(number, sources.get(number >> FILE_BITS << FILE_BITS))
            dead_letters.append(DeadLetter(source, line_of(order), dead.reason, dead.code, text or None, dead.type))
        return dead_letters

    def records(self, table: pl.DataFrame, event: str) -> list[str]:
        """Convert rows of an event to records. If dead letters are dropped, return empty texts instead."""
        if self.dead_letters is None:
            return [""] * table.height
        schema = self.program.schemas[event]
        if event in self.recorded and schema.fluent is not None:
            name = schema.fluent.name
            intervals, schema = as_intervals(table), self.program.schemas[name]
            return record_lines(intervals, schema, self.program.inputs[name], self.times)
        return record_lines(table, schema, self.program.inputs[event], self.times)


def begin(engine: Engine, ends: Sequence[int], late: int) -> None:
    """Pass the time of the first timely record to an engine, as the time at which the input begins.

    `ends`: the earliest ends of the input's records, sorted. Ends at or before `late` (microseconds) are late. Raises
    CepError if there are more than `FIRSTS` ends, all of them are late, and the input has not begun yet.
    """
    timely = [end for end in ends if end > late]
    if timely:
        engine.begun_in_input(timely[0])
    elif len(ends) > FIRSTS and not engine.begun_by(late):
        message = f"one file has late records at more than {FIRSTS:,} times before the first record that is not late"
        hint = "use a larger --lateness: a cycle through NOT or AGGREGATE begins with the first record that is not late"
        raise CepError(message, hint=hint, code="input")


def together(derived_parts: Sequence[Mapping[str, pl.DataFrame]]) -> dict[str, pl.DataFrame]:
    """Join the results of several steps of an engine in one micro-batch.

    A later step may withdraw rows that an earlier step added.
    """
    tables_by_event: dict[str, list[pl.DataFrame]] = {}
    for tables in derived_parts:
        for event, table in tables.items():
            tables_by_event.setdefault(event, []).append(table)
    return {
        event: runs[0] if len(runs) == 1 else composed(runs).with_row_index(TIE).cast({TIE: pl.Int64})
        for event, runs in tables_by_event.items()
    }


def _plain(change: str) -> str:
    """Convert a change of the knowledge to lines of N-Quads, without the signs that mark added and removed lines."""
    return "\n".join(line[2:] for line in change.splitlines())
