"""Preparation of a query that starts or continues from its checkpoint, which is locked, checked and cleaned up."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

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
from cep.spark.source.data_frames import read_letters
from cep.spark.state import bucket_states, migration
from cep.spark.state import checkpoint as checkpoints
from cep.spark.whole_states import logged, settle

if TYPE_CHECKING:
    from cep.core.logs import Log

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
    if migrate and engine.beginning:
        message = "a cycle through NOT or AGGREGATE needs the first input, which is already read"
        raise CepError(f"--migrate: {message}", hint="start anew with other folders", code="option")
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
            migratable=not (engine.beginning or query.apart),
            unsplit=lambda: _unsplit(query.program),
            settle=lambda *logs: _settle(query, *logs),
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
            for path in read_letters(query.dead, generation.begins) if query.frames else ():
                path.unlink()


def _unsplit(program: ShippedProgram) -> list[str]:
    """Return the reasons why the number of buckets cannot change, or an empty list if it can.

    If the number changes, states of stages that run in several buckets are divided by key. Some cannot be divided.
    """
    reasons = []
    for stage in program.stages:
        if stage.keyed:
            try:
                program.engine(stage.number).extract(())
            except CepError as error:
                reasons.append(f"--buckets: stage {stage.number}: {error.message}")
    return reasons


def _settle(query: Job, was: checkpoints.CheckpointInfo, states: Path, versions: Mapping[str, int]) -> None:
    """Run the program of the checkpoint again to convert the logs that a killed run has left to whole states.

    That program is also needed if the user's function has not received its last micro-batch. Raises CepError if it is
    needed but cannot be compiled, because it had other facts or knowledge than the program of `query`.
    """
    some, left = logged(states, versions), _left(query, was)
    if left is not None and was.generation.start is not None and left == was.generation.begins:
        message = "--checkpoint: a killed run left a micro-batch for the function, the first one after a migration"
        hint = "first run the same program again, with `--once`"
        raise CepError(message, hint=hint, code="checkpoint")
    if some or left is not None:
        what = f"records in {states}" if some else "a micro-batch for the function"
        settle(_needed(query.program, was, what), str(states), some)


def _left(query: Job, was: checkpoints.CheckpointInfo) -> int | None:
    """Return the last micro-batch of a checkpoint's program, if the user's function has not received it completely."""
    own = was.generation
    spark, output = own.spark(Path(query.checkpoint)), Path(was.output)
    return None if query.callback is None else file_sink.pending(spark, output, own.first)


def _needed(now: ShippedProgram, was: checkpoints.CheckpointInfo, what: str) -> ShippedProgram:
    """Return the program of a checkpoint, because this program must process `what` again. Raises CepError if it had
    other facts or knowledge than the program `now`."""
    if (program := _earlier(now, was)) is None:
        message = f"--checkpoint: a killed run left {what} that must be processed again"
        hint = "first run with its facts, knowledge and options and `--once`, then with the new ones"
        text = f"{message}, but that run had other facts, knowledge or options"
        raise CepError(text, hint=hint, code="checkpoint")
    return program


def taken_over(engine: Engine, query: Job, moved: migration.Migration | None, unkept: Sequence[str], log: Log) -> Job:
    """Log which rules continue after a migration. Return the query with the fluents of the former program that end, and
    with the earlier input that new rules need.

    - `moved`: the migration, or None if nothing was migrated in this run.
    - `unkept`: the inputs whose earlier records cannot be read again.
    """
    generation = query.generation
    if moved is not None:
        carried = {"on": moved.kept, "new": moved.new, "gone": moved.gone}
        log("migrate", str(moved) or "nothing to carry over", "info", **carried)
    if generation.start is None or generation.begun(Path(query.checkpoint)):
        return query
    query = replace(query, former=_former(engine, query, log))
    if not unkept:
        return replace(query, earlier=migration.EarlierInput.of(engine, generation.start))
    if moved is not None:
        seen = f"have not seen the input until {iso(generation.start.time)}"
        tell_lacking(log, engine, generation.start, seen, f"; the records of {', '.join(unkept)} are not kept")
    return query


def tell_lacking(log: Log, engine: Engine, start: migration.StartingPoint, seen: str, why: str) -> None:
    """Warn of new rules whose results may be incomplete.

    - `seen`: the part of the message that says which earlier input the rules have read.
    - `why`: a reason, which is appended to the message.
    """
    if not (lacking := start.lacking(engine)):
        return
    until = {rule: "for good" if time is None else f"until {iso(time)}" for rule, time in lacking.items()}
    told = ", ".join(f"{rule} ({lasts})" for rule, lasts in until.items())
    text = f"new rules {seen}, and may lack results: {told}{why}"
    text += ". A run with other folders derives everything from all input"
    fields = {rule: None if time is None else iso(time) for rule, time in lacking.items()}
    log("lacking", f"warning: {text}", "warning", since=iso(start.time), rules=fields)


def _former(engine: Engine, query: Job, log: Log) -> FormerFluents | None:
    """Return the former program's query, and its fluents that end when the program of `engine` takes over.

    Returns None if no fluent ends, and no user's function needs that query. If the former program can no longer be
    compiled, this function raises CepError if the user's function needs the query. Otherwise it warns and returns None.
    """
    generation, folder = query.generation, Path(query.checkpoint)
    start = generation.start
    if start is None or not (file := checkpoints.former_file(generation, folder)).exists():
        return None
    was = checkpoints.CheckpointInfo.read(file)
    ended = start.ended(engine).intersection(was.only if start.time > BEGINNING else ())
    if not ended and query.callback is None:
        return None
    program = _earlier(query.program, was)
    if program is None and _left(query, was) == start.last:
        program = _needed(query.program, was, "a micro-batch for the function")
    if program is None:
        names, why = ", ".join(f"`{name}`" for name in sorted(ended)), "the former program had other facts, knowledge"
        text = f"warning: {names}: the intervals that hold at {iso(start.time)} cannot be written: {why} or options"
        if ended:
            log("cut", text, "warning")
        return None
    output = replace(query, output=was.output, format=was.format, wanted=tuple(was.only), times=was.times)
    earlier = replace(output, program=program, generation=was.generation)
    return FormerFluents(work_of(earlier, was.generation.states(folder)), was.generation, start, ended)


def _earlier(now: ShippedProgram, was: checkpoints.CheckpointInfo) -> ShippedProgram | None:
    """Compile the program of a checkpoint with the facts and knowledge of the program `now`.

    Returns None if the result is not the program that the checkpoint records, which had other facts or knowledge.
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
