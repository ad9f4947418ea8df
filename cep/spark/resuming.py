"""Preparation of a query that starts or continues from its checkpoint. The checkpoint is locked, checked and cleaned up
after a killed run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from cep.compile import compiled
from cep.connectors.records.times import ISO, iso
from cep.core.errors import CepError
from cep.core.private_files import private_folder
from cep.core.time import BEGINNING
from cep.engine import Engine
from cep.spark import disk, spark_files
from cep.spark.dead_letters import remove_uncounted
from cep.spark.disk import remove_hidden
from cep.spark.former_fluents import FormerFluents
from cep.spark.job import Job, work_of
from cep.spark.program import ShippedProgram
from cep.spark.sink import file_sink
from cep.spark.state import bucket_states, migration
from cep.spark.state import checkpoint as checkpoints
from cep.spark.whole_states import logged, settle

BUCKETS = 16
"""The default number of buckets if the number of cores is unknown."""


def bucket_count(checkpoint: Path, asked: int | None, cores: int | None) -> int:
    """Return the number of buckets of a query.

    It is the number that the user asked for. By default, it is the number in the checkpoint, or, if the checkpoint is
    new, the number of `cores`. Raises CepError if the checkpoint is damaged.
    """
    if asked is not None:
        return asked
    if (file := checkpoint / disk.CHECKPOINT).exists():
        return checkpoints.CheckpointInfo.read(file).buckets
    return cores or BUCKETS


def _info(engine: Engine, query: Job, times: str) -> checkpoints.CheckpointInfo:
    """Return the settings of a query that are stored in its checkpoint. `engine`: an engine of the whole program."""
    options = query.program.options
    running = options.running
    return checkpoints.CheckpointInfo(
        engine.program,
        query.program.text,
        options.compiling.policy,
        {name: hashlib.sha256(table).hexdigest() for name, table in options.facts.items()},
        None if engine.changes is None else engine.changes.loaded.fingerprint,
        query.program.buckets,
        query.output,
        query.format,
        list(query.wanted),
        migration.StateLayout.of(engine, query.wanted),
        times=times,
        changes=query.program.changes,
        replaces=engine.revises,
        revise=running.revise,
        final=running.final,
        keys={event: list(schema.key) for event, schema in engine.inputs.items() if schema.key is not None},
        params=engine.written.parameters.used_values(),
        lateness_by=running.lateness_by,
        frames=[reader.name for _, reader in query.frames],
    )


def opened(
    engine: Engine,
    query: Job,
    locks: ExitStack,
    times: Callable[[], str] = lambda: ISO,
    migrate: bool = False,
    migratable: bool = True,
    patience: float = 0.0,
) -> tuple[Job, migration.Migration | None]:
    """Lock the checkpoint of a query until `locks` closes, adapt it to the program, and clean up checkpoint and output.

    Return the query with the settings of the checkpoint. Also return the migration, or None if nothing was migrated.

    - `engine`: an engine of the whole program.
    - `times`: a function that returns the format of times for a new checkpoint.
    - `migrate`: True if the checkpoint may be adapted to another program.
    - `patience`: the number of seconds to wait for another run to release the lock.

    Raises CepError if the checkpoint is locked or does not fit the output, or if a folder is not writable. It also
    raises the errors of `cep.spark.state.checkpoint.claim`.
    """
    folder = Path(query.checkpoint)
    with disk.writing_to("--checkpoint", folder, begins=True):
        mine = _info(engine, query, ISO if checkpoints.depends_on_input(folder) else times())
        if not (folder / disk.CHECKPOINT).exists():
            checkpoints.vacant(folder, query.output)  # check this before anything is written there
        private_folder(folder)
        locks.enter_context(disk.locked(folder, patience))
        state, moved = checkpoints.claim(
            folder,
            mine,
            migrate,
            query.lateness or 0,
            migratable=migratable,
            unsplit=lambda: _unsplit(query.program),
            settle=lambda *logs: _settle(query.program, *logs),
        )
    disk.check_writable("--checkpoint", folder)
    own = state.generation.spark(folder)
    spark_files.remove_spoilt(own)
    spark_files.verify_checksums(own)
    file_sink.agree(own, Path(query.output), state.generation.first)
    mark = f"{state.name}-" if state.name else ""
    program = replace(query.program, buckets=state.buckets)
    query = replace(query, program=program, generation=state.generation, mark=mark, times=state.times)
    disk.check_writable("--output", Path(query.output))
    if query.dead_letters is not None:
        disk.check_writable("--dead-letter", Path(query.dead_letters))
    _tidy(query)
    return query, moved


def _tidy(query: Job) -> None:
    """Finish the commits that a killed run has begun, and remove its other files. Raises the CepErrors of
    `cep.spark.sink.file_sink`."""
    generation, checkpoint = query.generation, Path(query.checkpoint)
    file_sink.finish_batches(Path(query.output))
    bucket_states.remove_leftovers(generation.states(checkpoint))
    generation.retire(checkpoint)
    if query.dead_letters is not None:
        remove_hidden(Path(query.dead_letters), query.mark)
        if query.dead is not None and generation.start is not None and not generation.begun(checkpoint):
            remove_uncounted(query.dead, generation.start.number, generation.start.versions)


def _unsplit(program: ShippedProgram) -> list[str]:
    """Return the reasons why the number of buckets cannot change. The list is empty if it can change.

    If this number changes, the states of stages that run in several buckets must be divided by key. Some states cannot
    be divided.
    """
    reasons = []
    for stage in program.stages:
        if stage.keyed:
            try:
                program.engine(stage.number).extract(())
            except CepError as error:
                reasons.append(f"--buckets: stage {stage.number}: {error.message}")
    return reasons


def _settle(now: ShippedProgram, was: checkpoints.CheckpointInfo, states: Path, versions: Mapping[str, int]) -> None:
    """Convert logs that a killed run has left to whole states. For this, the program of the checkpoint runs again.

    Raises CepError if the checkpoint's program had other facts or knowledge than the program `now`.
    """
    if some := logged(states, versions):
        program = _earlier(now, was)
        if program is None:
            raise CepError(
                f"--checkpoint: a killed run left records in {states} that must be processed again, but that "
                "run had other facts, knowledge or options",
                hint="first run with its facts, knowledge and options and `--once`, then with the new ones",
                code="checkpoint",
            )
        settle(program, str(states), some)


def former(engine: Engine, query: Job) -> FormerFluents | None:
    """Return the fluents that end at a migration, because the program of `engine` takes over from a former program.

    Return None if no fluent ends or the migration is already over. Raises CepError if the former program can no longer
    be compiled.
    """
    generation, folder = query.generation, Path(query.checkpoint)
    start = generation.start
    if start is None or start.time <= BEGINNING or generation.begun(folder):
        return None
    file = checkpoints.former_file(generation, folder)
    if not (file.exists() and start.ended(engine)):
        return None
    was = checkpoints.CheckpointInfo.read(file)
    ended = start.ended(engine).intersection(was.only)
    if not ended:
        return None
    program = _earlier(query.program, was)
    if program is None:
        names = ", ".join(f"`{name}`" for name in sorted(ended))
        message = "the former program had other facts, knowledge or options"
        raise CepError(
            f"{names}: the intervals that hold at {iso(start.time)} cannot be written: {message}", code="checkpoint"
        )
    output = replace(query, output=was.output, format=was.format, wanted=tuple(was.only), times=was.times)
    earlier = replace(output, program=program, generation=was.generation)
    return FormerFluents(work_of(earlier, was.generation.states(folder)), start, ended)


def _earlier(now: ShippedProgram, was: checkpoints.CheckpointInfo) -> ShippedProgram | None:
    """Compile the program of a checkpoint with the facts and knowledge of the program `now`.

    Returns None if the result differs from the checkpoint's program, because its facts or knowledge were different.
    """
    files = now.options.compiling.files if was.text == now.text else ()
    compiling = replace(now.options.compiling, policy=was.policy, files=files, params=was.params)
    running = replace(
        now.options.running, revise=was.revise, final=was.final, lateness_by=was.lateness_by, changes=was.changes
    )
    options = replace(now.options, compiling=compiling, running=running)
    with suppress(CepError):
        engine = Engine(compiled(was.text, now.name, options.unpacked), running)
        if engine.program == was.program:
            return ShippedProgram.of(engine, was.text, now.name, options, was.buckets)
    return None
