"""The file that records a checkpoint's program, and those options on which the checkpoint's state depends."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import unified_diff
from functools import partial
from pathlib import Path
from uuid import uuid4

from cep.core.checksum import Chain
from cep.core.errors import CepError
from cep.core.private_files import private_folder
from cep.spark import spark_files
from cep.spark.disk import (
    CHANGES,
    CHECKPOINT,
    FILES,
    INPUTS,
    KNOWLEDGE,
    LOCK,
    OUTGOING,
    PROBES,
    TURN,
    damaged_file,
    put,
)
from cep.spark.sink.file_sink import finish_batches
from cep.spark.state.migration import FIRST, Generation, Migration, Settle, StateLayout, migrated, next_generation

SECOND = 1_000_000  # microseconds


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """The program and options of a checkpoint.

    - `program`: a fingerprint of the text, policy, facts and knowledge together.
    - `facts`, `knowledge`: separate fingerprints of the facts and of the knowledge.
    - `output`: the folder that contains the output and the sink's log.
    - `format`: the format of the output files.
    - `only`: the events that are written.
    - `laid`: the layout of the state.
    - `generation`: the current generation of the checkpoint. Each migration begins a new generation.
    - `name`: a unique name of the checkpoint.
    - `times`: the format in which times are written (see `cep.connectors.records.times`). It is the format that the
      input had when the first run began.
    - `changes`: True if fluents are written as beginnings and ends.
    - `revise`: the age (microseconds) up to which a late record still corrects results. It is None if results are not
      corrected.
    - `final`: True if only final results are written.
    - `keys`: the KEY of each event that has a KEY.
    - `params`: the values of the parameters that rules use.
    - `lateness_by`: the attribute whose values have separate clocks for lateness. It is None if all records share one
      clock.
    - `frames`: the names of those inputs that are DataFrames, in order. After a restart, Spark can only continue with
      the same sources.
    """

    program: str
    text: str
    policy: str | None
    facts: dict[str, str]
    knowledge: str | None
    buckets: int
    output: str
    format: str
    only: list[str]
    laid: StateLayout
    generation: Generation = field(default=FIRST, compare=False)
    name: str = field(default="", compare=False)
    times: str = field(default="iso", compare=False)
    changes: bool = False
    revise: int | None = None
    final: bool = False
    keys: dict[str, list[str]] = field(default_factory=dict, compare=False)
    params: dict[str, int | float | str | bool] = field(default_factory=dict)
    lateness_by: str | None = None
    frames: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, file: Path) -> CheckpointInfo:
        """Read the file of a checkpoint. Raises CepError if the file is damaged."""
        try:
            fields = json.loads(Chain(CHECKPOINT.encode()).read(file.read_bytes()))
            parts = {"laid": StateLayout(**fields["laid"]), "generation": Generation.of(fields["generation"])}
            return cls(**fields | parts)
        except (ValueError, TypeError, KeyError) as error:
            raise damaged_file(file) from error

    @property
    def withdraws(self) -> bool:
        """True if rows that are already written may be withdrawn later."""
        return self.revise is not None and not self.final

    def write(self, file: Path) -> None:
        put(file, Chain(CHECKPOINT.encode()).add(json.dumps(asdict(self), ensure_ascii=False).encode()))


def claim(
    folder: Path,
    now: CheckpointInfo,
    migrate: bool = False,
    lateness: int = 0,
    migratable: bool = True,
    unsplit: Callable[[], Sequence[str]] = tuple,
    settle: Callable[[CheckpointInfo, Path, Mapping[str, int]], None] = lambda *_: None,
) -> tuple[CheckpointInfo, Migration | None]:
    """Assign a new checkpoint to this program, or check that the checkpoint belongs to this program already. Return the
    checkpoint's settings, and the migration if there was one.

    A checkpoint without input counts as new. If only the number of buckets changes, the states are migrated even if
    `migrate` is False. A run that revises results needs `migrate` in this case too, because a migration makes the
    earlier results final. The DataFrames must stay the same.

    - `lateness`: how far out of order records may arrive, in microseconds.
    - `migratable`: True if this kind of run supports `--migrate`.
    - `unsplit`: a function that returns the reasons why states cannot be divided into another number of buckets.
    - `settle`: a function that converts logs of the former program's states to whole states.

    Raises CepError if the checkpoint belongs to another program. The error lists the differences, or the reasons that
    prevent a migration.
    """
    file = folder / CHECKPOINT
    before = CheckpointInfo.read(file) if file.exists() else None
    if before is not None and (before == now or depends_on_input(folder)):
        if before == now:
            return before, None
        if None not in (before.revise, now.revise) and replace(before, revise=now.revise) == now:
            before = replace(before, revise=now.revise)  # final results stay final
            before.write(file)
            return before, None
        spark_files.remove_spoilt(before.generation.spark(folder))
        resized = replace(before, buckets=now.buckets) == now and migratable and now.revise is None
        if resized and spark_files.ends_sent(before.generation.spark(folder)):
            return before, None  # no more input will arrive
        if before.frames != now.frames or not (migrate or resized):
            raise _another(folder, before, now, migratable and before.frames == now.frames)
        return _migrated(
            folder, before, now, lateness, unsplit() if before.buckets != now.buckets else (), partial(settle, before)
        )
    vacant(folder, now.output)
    private_folder(folder)
    for name in (FILES, CHANGES):  # of a first run that was killed before it began
        (folder / name).unlink(missing_ok=True)
    claimed = replace(now, name=uuid4().hex[:12])
    claimed.write(file)
    return claimed, None


def vacant(folder: Path, output: str) -> None:
    """Raise CepError unless a new checkpoint can begin: `folder` contains no other files, and `output` is empty."""
    names = [path.name for path in folder.iterdir()] if folder.exists() and not (folder / CHECKPOINT).exists() else []
    if any(
        name not in (LOCK, TURN) and not name.startswith(f".{CHECKPOINT}") for name in names
    ):  # a killed run may leave these
        raise CepError(
            f"--checkpoint: {folder} is not empty, and is not a checkpoint of this command",
            hint="use an empty folder, or one that does not exist yet",
            code="checkpoint",
        )
    _empty(output, "the checkpoint is new")


def _another(folder: Path, before: CheckpointInfo, now: CheckpointInfo, migratable: bool) -> CepError:
    same = before.program == now.program
    what, whose = ("was made with other options", "options") if same else ("belongs to another program", "program")
    migrate = ", or add `--migrate`" if migratable else ""
    return CepError(
        f"--checkpoint: {folder} {what}\n{difference(before, now)}",
        hint=f"use the {whose} it was made with, or start anew with another folder{migrate}",
        code="checkpoint",
    )


def _migrated(
    folder: Path, before: CheckpointInfo, now: CheckpointInfo, lateness: int, unsplit: Sequence[str], settle: Settle
) -> tuple[CheckpointInfo, Migration]:
    """Migrate the checkpoint to another program. The new generation starts at the end of the previous one."""
    output = Path(before.output)
    generation = next_generation(
        folder,
        before.generation,
        before.laid,
        before.buckets,
        output,
        lateness,
        settle,
        before.lateness_by is not None,
        bool(before.frames),
    )
    start = generation.start
    laid = before.laid if start is None else start.laid
    reasons = [*unsplit, *output_changes(replace(before, laid=laid), now, folder / OUTGOING)]
    reasons += _changed(before, now, "lateness_by")
    if before.knowledge != now.knowledge and ((folder / CHANGES).exists() or KNOWLEDGE in before.frames):
        reasons.append("knowledge: it is different, and changes of the earlier knowledge were applied")
    for event in sorted(before.laid.events.keys() & now.laid.events.keys()):
        keys = [", ".join(run.keys.get(event, [])) or "none" for run in (before, now)]
        if keys[0] != keys[1]:
            reasons.append(f"`{event}` has another KEY: {keys[0]} before, {keys[1]} now")
    moved, sources = migrated(laid, now.laid, reasons)
    if start is not None:
        generation = replace(generation, start=replace(start, sources=sources))
    generation = generation.cut(now.laid)
    if before.output != now.output:
        _empty(now.output, f"earlier results are in {before.output}")
        finish_batches(Path(before.output))
        generation = replace(generation, first=-generation.begins)
    if start is not None and start.number == before.generation.number:
        before.write(former_file(generation, folder))
    if before.frames:
        spark, mark = before.generation.spark(folder), {"generation": generation.number}
        spark_files.carry(spark, generation.spark(folder), generation.begins - 1, mark)
    migrated_info = replace(now, generation=generation, name=before.name, times=before.times)
    migrated_info.write(folder / CHECKPOINT)
    return migrated_info, moved


def former_file(generation: Generation, folder: Path) -> Path:
    """Return the path of the file that records the former program. It is in the folder of that program's states."""
    return Path(generation.before(folder), CHECKPOINT)


def _empty(output: str, why: str) -> None:
    """Check that the output folder is empty, except for test files of `check_writable`. Raises CepError otherwise."""
    path = Path(output)
    if path.exists() and not (path.is_dir() and all(entry.name.startswith(PROBES) for entry in path.iterdir())):
        raise CepError(
            f"--output: {path} already exists, and {why}",
            hint="use an empty folder, or one that does not exist yet",
            code="checkpoint",
        )


def depends_on_input(folder: Path) -> bool:
    """Return True if the checkpoint contains a planned micro-batch or the folder of a live input."""
    return spark_files.has_planned(folder) or any(folder.glob(f"{INPUTS}*"))


def difference(before: CheckpointInfo, now: CheckpointInfo) -> str:
    """Describe the differences between two programs and their options, one per line."""
    lines = list(
        unified_diff(before.text.splitlines(), now.text.splitlines(), "the checkpoint's", "now", lineterm="", n=1)
    )
    lines += _changed(before, now, "policy")
    for name in sorted(before.params.keys() | now.params.keys()):
        if (was := before.params.get(name)) != (is_now := now.params.get(name)):
            lines.append(f"parameter {name}: {was} before, {is_now} now")
    for name in sorted(before.facts.keys() | now.facts.keys()):
        if before.facts.get(name) != now.facts.get(name):
            lines.append(f"facts {name}: the rows are different")
    if before.knowledge != now.knowledge:
        lines.append("knowledge: it is different")
    options = ("buckets", "output", "format", "changes", "revise", "final", "lateness_by", "frames", "only")
    lines += _changed(before, now, *options)
    return "\n".join(lines or ["it was made by another version of semcep"])


_NUMBERS = {"int64", "double"}
"""The Parquet types whose columns Spark unites."""

_LABELS = {"changes": "fluents: ", "only": "events written: ", "revise": "", "final": "", "lateness_by": ""}
_LABELS |= {"frames": "Spark continues only with the same DataFrames: "}


def _changed(before: CheckpointInfo, now: CheckpointInfo, *names: str) -> list[str]:
    return [
        f"{_LABELS.get(name, f'{name}: ')}{_shown(before, name)} before, {_shown(now, name)} now"
        for name in names
        if getattr(before, name) != getattr(now, name)
    ]


def _shown(info: CheckpointInfo, name: str) -> str:
    """Return the value of an option as text."""
    value = getattr(info, name)
    match name:
        case "policy":
            return value or "the default"
        case "changes":
            return "`--changes`" if value else "whole intervals"
        case "revise":
            return "no --revise" if value is None else f"--revise {value / SECOND:g}s"
        case "final":
            return "`--final`" if value else "no `--final`"
        case "lateness_by":
            return f"--lateness-by {value}" if value else "no --lateness-by"
        case "frames" | "only":
            return ", ".join(value) or "none"
    return str(value)


def output_changes(before: CheckpointInfo, now: CheckpointInfo, outgoing: Path) -> list[str]:
    """Return the reasons why this run cannot continue in the output folder of the former run. The list is empty if it
    can, or if the two runs have different output folders.

    `outgoing`: the folder of output that is forwarded to a broker.
    """
    if before.output != now.output:
        return _changed(before, now, "output") if str(outgoing) in (before.output, now.output) else []
    reasons = _changed(before, now, "format", "changes")
    if before.withdraws != now.withdraws:
        ways = {True: "a changelog", False: "only final rows"}
        reasons.append(f"rows written: {ways[before.withdraws]} before, {ways[now.withdraws]} now")
    # The function of `each` reads the files of a micro-batch with the columns of the program that wrote them.
    handed_on = now.output == str(outgoing)
    typed = now.format == "parquet" and not (handed_on and now.frames)
    if typed and before.only != now.only and 1 in (len(before.only), len(now.only)):
        reasons.append(f"the files hold {_listed(before.only)}, and the new ones would hold {_listed(now.only)}")
    if typed and not reasons:
        columns = now.laid.columns
        reasons = [
            f"columns of `{event}`: {', '.join(names.values())} before, {', '.join(columns[event].values())} now"
            for event, names in before.laid.columns.items()
            if columns.get(event, names) != names
        ]
        retyped = _retyped(before.laid.types, now.laid.types)
        reasons += [f"column `{name}`: {change}" for name, change in retyped.items()]
    other = f"use another folder, `--output {now.output}-2`; the files in this one stay"
    other = "start anew with another checkpoint" if handed_on else other
    reasons = [f"--output: {reason}: {other}" for reason in reasons]
    return reasons + _retyped_fluents(before.laid, now.laid) if handed_on and now.frames else reasons


def _retyped(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return the columns whose Parquet type changes, and a description of each change."""
    return {name: f"{type} before, {now[name]} now" for name, type in before.items() if now.get(name, type) != type}


def _retyped_fluents(before: StateLayout, now: StateLayout) -> list[str]:
    """Return a reason for each attribute of a changed fluent whose new and former types cannot be in one DataFrame.

    The function of `each` receives one DataFrame for the last intervals of the former fluent and the intervals of the
    new fluent of the same name.
    """
    return [
        f"attribute `{name}` of the fluent `{fluent}`: {change}: give the new fluent another name"
        for fluent in sorted(before.ended(now.fluents or {}))
        for name, change in _retyped(before.attributes(fluent), now.attributes(fluent)).items()
        if not {before.attributes(fluent)[name], now.attributes(fluent)[name]} <= _NUMBERS
    ]


def _listed(events: list[str]) -> str:
    return f"`{events[0]}` alone" if len(events) == 1 else ", ".join(f"`{event}`" for event in events)
