"""Migration of a checkpoint to another program. This module finds which rules continue, which rules are new, and what
prevents the migration.

A migration begins a generation: new folders for Spark's files and for the states of buckets. The generation starts at
the end of the last finished micro-batch.

The old folders are only read. They stay until the new generation has finished a micro-batch, so a run that is killed
before that can start again from the same states. The first micro-batch reads no new input. It makes every bucket run,
which then loads its state. It also sends the watermark and the rows that waited for it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cep.core.errors import CepError
from cep.core.fluents import author_name
from cep.core.time import BEGINNING
from cep.spark import spark_files
from cep.spark.disk import BUCKETS, SPARK, WARM
from cep.spark.sink.commit_log import CommitLog
from cep.spark.sink.file_sink import agree
from cep.spark.state import bucket_states
from cep.spark.state.batch_notes import BatchNotes

if TYPE_CHECKING:  # loaded only where a migration begins, because processes that plan start often
    from cep.engine import Engine
    from cep.plan.input_horizon import InputHorizon
    from cep.plan.partition import Stage
    from cep.runtime.prior_state import PriorState


@dataclass(frozen=True, slots=True)
class StateLayout:
    """The layout of a program's state.

    - `rules`: for each rule that has state, the names of its goals.
    - `stages`: for each stage, how events are distributed to buckets (`inputs`, `keyed`), the input events (`outside`),
      the derived events (`outputs`), and the goals.
    - `events`: the attribute types of each input event.
    - `columns`: the Parquet columns of each written event.
    - `fluents`: a fingerprint of each derived fluent. It is None if an old version of semcep wrote the layout.
    - `types`: the type of each Parquet column. It is empty if an old version wrote the layout.
    """

    rules: dict[str, list[str]]
    stages: list[dict[str, Any]]
    events: dict[str, list[str]]
    columns: dict[str, dict[str, str]]
    fluents: dict[str, str] | None = field(default=None, compare=False)
    types: dict[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, engine: Engine, wanted: Sequence[str]) -> StateLayout:
        """Return the layout of the program that `engine` runs. `wanted`: the events to output."""
        from cep.connectors.writing.layout import ParquetLayout
        from cep.plan.partition import partition

        rules = {rule: sorted(goals) for rule, goals in engine.goals().items()}
        meanings = engine.meanings()
        parquet = ParquetLayout({event: engine.outputs[event] for event in wanted})
        return cls(
            rules,
            [_stage(engine, stage) for stage in partition(engine.plan)],
            {name: [a.type for a in schema.attributes] for name, schema in sorted(engine.inputs.items())},
            parquet.names,
            {name: meanings[name] for name, schema in engine.outputs.items() if schema.fluent is not None},
            {column.name: str(column.type) for column in parquet.schema},
        )

    def ended(self, now: Mapping[str, str]) -> frozenset[str]:
        """Return the fluents that another program lacks or defines differently. `now`: its events' fingerprints."""
        return frozenset(name for name, meaning in (self.fluents or {}).items() if now.get(name) != meaning)

    def attributes(self, event: str) -> dict[str, str]:
        """Return the Parquet type of each attribute of a written event."""
        return {name: self.types[column] for name, column in self.columns.get(event, {}).items() if self.types}

    @property
    def goals(self) -> set[str]:
        return {goal for goals in self.rules.values() for goal in goals}


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """The end of an earlier generation, at which a new generation starts.

    - `number`: the number of the earlier generation.
    - `laid`: the layout of the earlier program's state.
    - `offset`: the offset of the source at that point. `last`: the number of the last micro-batch.
    - `watermark`: the watermark of the micro-batch after the last one, in milliseconds. It is 0 if there is no
      watermark yet.
    - `time`: the time that the buckets have reached, in microseconds.
    - `versions`: the versions of the buckets' states, by names such as `1-0003`.
    - `latest`: the bucket that has reached the latest time, or None if there are no buckets.
    - `buckets`: the number of buckets of a keyed stage.
    - `sources`: for each stage of the new program, the number of the old stage whose state it continues. 0 means that
      it continues no stage.
    - `cuts`: the `cuts` of the earlier generation.
    """

    number: int
    laid: StateLayout
    offset: dict[str, Any]
    watermark: int
    time: int
    versions: dict[str, int]
    latest: str | None
    sources: list[int]
    buckets: int
    last: int
    cuts: dict[str, int] = field(default_factory=dict)

    def state(self, folder: str, stage: int, bucket: int) -> PriorState | None:
        """Return the state from which a bucket starts.

        If the bucket had no earlier state, the result contains only the time that the earlier buckets have reached.
        Returns None if there were no earlier buckets. `folder`: the folder of the earlier states.
        """
        return self.own(folder, stage, bucket) or self.only_time(folder)

    def own(self, folder: str, stage: int, bucket: int) -> PriorState | None:
        """Return the earlier state of a bucket. Returns None if the bucket had no state."""
        source = bucket_states.state_name(self.sources[stage - 1], bucket)
        return self._read(folder, source, None) if source in self.versions else None

    def only_time(self, folder: str) -> PriorState | None:
        """Return a state with only the buckets' time and the knowledge at this time, or None without buckets."""
        return None if self.latest is None else self._read(folder, self.latest, frozenset())

    def _read(self, folder: str, name: str, goals: frozenset[str] | None) -> PriorState:
        return _prior(folder, name, self.versions[name], goals, self.time)

    def new(self, engine: Engine) -> dict[str, InputHorizon]:
        """Return the rules whose complete state the earlier program does not have, with their input horizons."""
        horizons = engine.input_horizons()
        return {rule: horizons[rule] for rule, goals in engine.goals().items() if not self.laid.goals.issuperset(goals)}

    def lacking(self, engine: Engine) -> dict[str, int | None]:
        """Return the new rules whose results may be incomplete without earlier input. Each is mapped to the time from
        which its results are complete, or to None if they may never be."""
        new = self.new(engine) if self.time > BEGINNING else {}
        remember = {rule: horizon for rule, horizon in new.items() if horizon.length or not horizon.bounded}
        return {rule: self.time + memory.length if memory.bounded else None for rule, memory in remember.items()}

    def ended(self, engine: Engine) -> frozenset[str]:
        """Return the fluents of the earlier program that the engine's program lacks or defines differently."""
        return self.laid.ended(engine.meanings())

    def waiting(self, folder: str) -> Iterator[tuple[str, list[str]]]:
        """Yield the files of states in which rows of input events wait, and the names of these events. If all buckets
        have the same rows of an event, only the file of the first bucket has the event."""
        stages = [{event: stage["inputs"][event] for event in stage["outside"]} for stage in self.laid.stages]
        return _waiting(folder, stages, self.versions)


@dataclass(frozen=True, slots=True)
class EarlierInput:
    """Earlier input that a program needs when it takes over: the rows that end at `since` or later (microseconds).

    - `goals`: the goals that the former program did not have, which process the earlier input first.
    - `events`: the input events that only the new program reads. `tables`: the tables of these events.
    - `stages`: for each stage, how each input table is distributed to buckets.
    """

    since: int
    goals: frozenset[str]
    events: frozenset[str]
    tables: frozenset[str]
    stages: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, engine: Engine, start: StartingPoint) -> EarlierInput | None:
        """Return the earlier input that the engine's program needs, or None if it needs none."""
        from cep.plan.event_schemas import tables_of
        from cep.plan.partition import partition

        stages = [{event: stage.inputs[event] for event in stage.outside} for stage in partition(engine.plan)]
        tables = frozenset[str]().union(*stages).difference(*(stage["outside"] for stage in start.laid.stages))
        if not (tables or start.lacking(engine)):
            return None
        named = tables_of(engine.plan)
        events = frozenset(name for name in engine.inputs if named.get(name, name) in tables)
        horizons = start.new(engine).values()
        bounded = start.time > BEGINNING and all(horizon.bounded for horizon in horizons)
        since = start.time - max((horizon.length for horizon in horizons), default=0) if bounded else BEGINNING
        goals = frozenset[str]().union(*engine.goals().values()) - start.laid.goals
        return cls(since, goals, events, tables, stages)

    def waiting(self, warm: WarmStates) -> Iterator[tuple[str, list[str]]]:
        """Yield each state file that may contain waiting rows, with the names of the tables of these rows.

        Only tables that the former program did not read are included.
        """
        stages = [{event: way for event, way in stage.items() if event in self.tables} for stage in self.stages]
        return _waiting(warm.folder, stages, warm.versions)


@dataclass(frozen=True, slots=True)
class WarmStates:
    """States of the new program after it has processed only the earlier input.

    - `versions`: the version of each bucket's state, by names such as `1-0003`.
    - `goals`: the goals that may start from these states.
    """

    folder: str
    versions: Mapping[str, int]
    goals: frozenset[str]

    def state(self, stage: int, bucket: int) -> PriorState:
        """Return the state from which new goals of a bucket start. Raises CepError if it is missing or damaged."""
        name = bucket_states.state_name(stage, bucket)
        return _prior(self.folder, name, self.versions[name], self.goals)


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of a checkpoint. Each migration begins a new generation.

    - `number`: its number, counted from 1.
    - `first`: the number of Spark's micro-batch 0 in the sink's log.
    - `start`: the end of the earlier generation, or None if this generation started without state.
    - `cuts`: for each fluent that an earlier program did not have, the time (microseconds) before which nothing is
      written.
    - `begins`: Spark's number of its first micro-batch. It is 0, except for DataFrames, for which Spark continues to
      count.
    """

    number: int = 1
    first: int = 0
    start: StartingPoint | None = None
    cuts: dict[str, int] = field(default_factory=dict)
    begins: int = 0

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Generation:
        """Create a generation from the fields that `asdict` has returned."""

        start = fields["start"]
        starting_point = None if start is None else StartingPoint(**{**start, "laid": StateLayout(**start["laid"])})
        return cls(fields["number"], fields["first"], starting_point, fields.get("cuts", {}), fields.get("begins", 0))

    def cut(self, now: StateLayout) -> Generation:
        """Return a copy in which `cuts` contains the fluents that are new in a program. `now`: its layout."""
        if self.start is None or (known := self.start.laid.fluents) is None or now.fluents is None:
            return self
        same = {name for name, meaning in now.fluents.items() if known.get(name) == meaning}
        cuts = dict.fromkeys(sorted(now.fluents.keys() - same), self.start.time) if self.start.time > BEGINNING else {}
        return replace(self, cuts=cuts | {name: time for name, time in self.start.cuts.items() if name in same})

    def spark(self, checkpoint: Path) -> Path:
        """The folder of Spark's own files."""
        return checkpoint / _numbered(SPARK, self.number)

    def states(self, checkpoint: Path) -> Path:
        """The folder of the states of buckets."""
        return checkpoint / _numbered(BUCKETS, self.number)

    def clocks(self, checkpoint: Path) -> Mapping[str, Any] | None:
        """Return the clocks of keys from which the generation starts, or None if it has none or has begun.

        Raises CepError if the clocks are damaged.
        """
        if self.start is None or self.begun(checkpoint):
            return None
        return BatchNotes(Path(self.before(checkpoint))).clocks(self.start.last)

    def warm(self, checkpoint: Path) -> Path:
        """Return the folder of the states from which new rules start."""
        return checkpoint / _numbered(WARM, self.number)

    def warmed(self, checkpoint: Path, earlier: EarlierInput) -> WarmStates | None:
        """Return the states from which new rules start. Returns None if these states have not been written yet. Raises
        CepError if they are damaged."""
        folder = self.warm(checkpoint)
        if not any(folder.glob("batch-*")):
            return None
        return WarmStates(str(folder), BatchNotes(folder).after(0).versions, earlier.goals)

    def before(self, checkpoint: Path) -> str:
        """Return the folder of the states from which the generation starts."""
        assert self.start is not None, "it began with something"
        return str(checkpoint / _numbered(BUCKETS, self.start.number))

    def begun(self, checkpoint: Path) -> bool:
        """Return True if the generation has finished a micro-batch."""
        return spark_files.last(self.spark(checkpoint) / "commits") >= self.begins

    def retire(self, checkpoint: Path) -> None:
        """Remove unneeded folders of earlier generations. Do not call this while a query runs."""
        if self.number > 1 and self.begun(checkpoint):
            for number in range(1, self.number):
                shutil.rmtree(Generation(number).spark(checkpoint), ignore_errors=True)
                shutil.rmtree(Generation(number).states(checkpoint), ignore_errors=True)
            for number in range(2, self.number + 1):
                shutil.rmtree(Generation(number).warm(checkpoint), ignore_errors=True)


FIRST = Generation()
"""The only generation of a checkpoint that was never migrated."""


Settle = Callable[[Path, Mapping[str, int]], None]
"""A function that converts logs to whole states. Its arguments: the folder and the versions of the states."""


def next_generation(
    checkpoint: Path,
    before: Generation,
    laid: StateLayout,
    buckets: int,
    output: Path,
    lateness: int,
    settle: Settle,
    by_key: bool = False,
    frames: bool = False,
) -> Generation:
    """Return the generation that follows `before`. The caller must add which earlier stage each stage continues.

    - `laid`, `buckets`, `output`: the layout, the number of buckets and the output folder of the program before the
      migration.
    - `lateness`: how far out of order records may arrive, in microseconds.
    - `settle`: a function that converts logs to whole states.
    - `by_key`: True if each key has its own lateness.
    - `frames`: True if the input is DataFrames.

    Do not call this while a query runs. Raises CepError if the input has ended. Also raises the errors of `settle`.
    """
    spark = before.spark(checkpoint)
    spark_files.remove_spoilt(spark)
    spark_files.verify_checksums(spark)
    agree(spark, output, before.first)
    done = spark_files.last(spark / "commits")
    last = max(
        done, CommitLog(output).last - before.first
    )  # a micro-batch in the sink counts, even if Spark was killed right after it
    begins = last + 1 if frames else 0
    generation = Generation(before.number + 1, before.first + last + 1 - begins, before.start, begins=begins)
    for folder in (generation.spark(checkpoint), generation.states(checkpoint), generation.warm(checkpoint)):
        shutil.rmtree(folder, ignore_errors=True)
    if last < before.begins:
        return generation
    offset = spark_files.offset(spark, last)
    if offset["end"]:
        message = f"--migrate: the input of {checkpoint} has ended, so the new rules would read nothing"
        hint = "start anew with another folder; if more input will come, run with `--once` or `--follow`"
        raise CepError(message, hint=hint, code="checkpoint")
    folder = before.states(checkpoint)
    notes = BatchNotes(folder)
    note = notes.after(last)
    every, stages = note.versions, len(laid.stages)
    # Only the states of engines, which have the stages' numbers.
    versions = {name: version for name, version in every.items() if int(name.partition("-")[0]) <= stages}
    settle(folder, versions)
    heads = {name: bucket_states.state_header(folder / f"{name}-{version:08}") for name, version in versions.items()}
    latest = max(heads, key=lambda name: int(heads[name]["watermark"]), default=None)
    time = BEGINNING if latest is None else int(heads[latest]["watermark"])
    if by_key:
        watermark = max(note.reached, spark_files.watermark(spark, last) if last == done else 0)
    elif last == done:
        watermark = spark_files.watermark(spark, last)
    else:
        seen = max((int(head["latest"]) for head in heads.values()), default=BEGINNING)
        watermark = max(spark_files.planned_at(spark, last), (seen - lateness) // 1000)
    start = StartingPoint(
        before.number, laid, offset, watermark, time, versions, latest, [], buckets, last, before.cuts
    )
    return replace(generation, start=start)


def _prior(folder: str, name: str, version: int, goals: frozenset[str] | None, time: int = BEGINNING) -> PriorState:
    """Read the state of a bucket for use by another program, without the rows that wait in it.

    `goals`: the goals to read, or None for all goals. Raises CepError if the state is missing or damaged.
    """
    from cep.runtime.prior_state import PriorState

    blob, segments = bucket_states.parted_state(Path(folder, f"{name}-{version:08}"))
    own = (segments.names, segments.fetch) if segments.names else None
    return PriorState(blob, goals, waits=False, watermark=time, segments=own)


def _waiting(
    folder: str, stages: Sequence[Mapping[str, Any]], versions: Mapping[str, int]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the files of states in which rows of input events wait, and the names of these events.

    `stages`: for each stage, how each input event is distributed to buckets.
    """
    seen_events: set[str] = set()
    for number, stage in enumerate(stages, 1):
        mine = {event: way for event, way in stage.items() if event not in seen_events}
        seen_events |= mine.keys()
        for name, version in versions.items():
            stage_text, _, bucket = name.partition("-")
            events = sorted(event for event, way in mine.items() if way != "broadcast" or int(bucket) == 0)
            if int(stage_text) == number and events:
                yield str(Path(folder, f"{name}-{version:08}")), events


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


@dataclass(frozen=True, slots=True)
class Migration:
    """The result of a migration: the names of the rules that have state.

    - `kept`: the rules that continue with their state.
    - `new`: the rules that only the new program has.
    - `gone`: the rules that only the former program had.
    """

    kept: tuple[str, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]

    def __str__(self) -> str:
        parts = {"rules that keep their state": self.kept, "new rules": self.new, "removed rules": self.gone}
        return "; ".join(f"{title}: {', '.join(rules)}" for title, rules in parts.items() if rules)


def migrated(before: StateLayout, now: StateLayout, reasons: Sequence[str] = ()) -> tuple[Migration, list[int]]:
    """Compare two layouts. Return the migration, and for each new stage the old stage that it continues, or 0.

    `reasons`: further reasons that prevent the migration. Raises CepError, which lists all reasons, if there are any.
    """
    misfits = [
        f"`{author_name(event)}` has other attributes: {', '.join(types)} before, {', '.join(now.events[event])} now"
        for event, types in before.events.items()
        if now.events.get(event, types) != types
    ]
    sources = []
    for number in range(1, len(now.stages) + 1):
        source, why = _source(before, now, number)
        sources.append(source)
        misfits += why
    if misfits := [*reasons, *misfits]:
        raise CepError(
            "--migrate: the state cannot be carried over\n" + "\n".join(misfits),
            hint="start anew with other folders, or leave out the rules that need it",
            code="checkpoint",
        )
    was, is_now = before.goals, now.goals
    moved = Migration(
        tuple(rule for rule, goals in now.rules.items() if was.issuperset(goals)),
        tuple(rule for rule, goals in now.rules.items() if not was.issuperset(goals)),
        tuple(rule for rule, goals in before.rules.items() if is_now.isdisjoint(goals)),
    )
    return moved, sources


def _source(before: StateLayout, now: StateLayout, number: int) -> tuple[int, list[str]]:
    """Return the number of the old stage whose state a new stage continues, or 0 if it continues no stage. Also return
    the reasons why that state does not fit."""
    stage = now.stages[number - 1]
    mine = before.goals.intersection(stage["goals"])
    if not mine:
        return 0, []
    having = [place for place, layout in enumerate(before.stages, 1) if mine.issubset(layout["goals"])]
    if not having:
        several = [str(place) for place, layout in enumerate(before.stages, 1) if mine.intersection(layout["goals"])]
        return 0, [f"stage {number} needs parts of the states of stages {' and '.join(several)}"]
    misfits = {place: _misfits(number, stage, before.stages[place - 1]) for place in having}
    best = min(having, key=lambda place: (len(misfits[place]), abs(place - number)))
    return best, misfits[best]


def _misfits(number: int, now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return the reasons why a new stage cannot continue the states of an old stage, such as inputs that it distributes
    to buckets in another way."""
    if now["keyed"] != before["keyed"]:
        return [f"stage {number} ran {_ran(before['keyed'])}, and would run {_ran(now['keyed'])}"]
    reasons = [
        f"stage {number} distributes `{author_name(event)}` by {_way(now['inputs'][event])}, before by {_way(way)}"
        for event, way in before["inputs"].items()
        if now["inputs"].get(event, way) != way
    ]
    outside = sorted(set(now["inputs"]).difference(before["inputs"]).intersection(before["outputs"]))
    inside = sorted(set(before["inputs"]).difference(now["inputs"]).intersection(now["outputs"]))
    reasons += [
        f"stage {number} derived `{author_name(event)}` itself, and would now read it from another stage"
        for event in outside
    ]
    return reasons + [
        f"stage {number} read `{author_name(event)}` from another stage, and would now derive it itself"
        for event in inside
    ]


def _stage(engine: Engine, stage: Stage) -> dict[str, Any]:
    inputs = {event: list(way) if isinstance(way, tuple) else way for event, way in sorted(stage.inputs.items())}
    goals = {goal for goals in engine.goals(stage.rules).values() for goal in goals}
    ways = {"keyed": stage.keyed, "inputs": inputs, "outside": sorted(stage.outside), "outputs": list(stage.outputs)}
    return ways | {"goals": sorted(goals)}


def _ran(keyed: bool) -> str:
    return "in buckets" if keyed else "in one place"


def _way(way: Any) -> str:
    if not isinstance(way, list):
        return {"whole": "the whole row", "broadcast": "copying it to all places", "single": "sending it to one place"}[
            way
        ]
    return "argument " + " and ".join(str(position + 1) for position in way)
