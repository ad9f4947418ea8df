"""A run on Spark from its options to a query that may begin: the program, what it reads, its checkpoint, its output."""

from __future__ import annotations

import hashlib
import os
import pickle
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from cep.app.durations import duration, refuse, selected
from cep.app.run_options import RunOptions
from cep.app.terminal import compiles, facts_of, knowledge_of, text_of, warn, warnings_of
from cep.core.schema import Schema
from cep.engine import Engine
from cep.runtime.run_stats import count
from cep.spark.driver import packages, session, startup
from cep.spark.job import Job
from cep.spark.program import Options, ShippedProgram, packed_facts
from cep.spark.sink import output_folder
from cep.spark.source import changes, data_source, kafka_connector
from cep.spark.source.file_list import FileList
from cep.spark.state import bucket_states, migration
from cep.spark.state import checkpoint as kept
from cep.spark.storage import lock, spark_files
from cep.spark.storage.disk import check_writable, remove_hidden
from cep.spark.storage.layout import CHECKPOINT, FILES, OUTGOING
from connectors.inputs import Input
from connectors.live import reach
from connectors.sending import Sending, is_topic, output_address
from connectors.time_format import ISO, form
from knowledge.growing import there

BUCKETS = 16
EVERY = "1s"
MESSAGES = 500_000
"""Of a live input, about how many messages a micro-batch has at most."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What a wish comes to before anything is looked at but its rules: the program, in one engine by which it is
    checked and cut, and what others are made of. `facts`: hashes of tables; `wanted`: the events that are written;
    `checkpoint`: its folder; `settings`: of the session."""

    wish: RunOptions
    inputs: list[str]
    checkpoint: Path
    settings: dict[str, str]
    engine: Engine
    program: ShippedProgram
    facts: dict[str, str]
    wanted: tuple[str, ...]

    @classmethod
    def of(cls, wish: RunOptions) -> JobRequest:
        """CepError: the rules, or an option, are wrong; or there is no Java."""
        inputs, checkpoint = wish.checked()
        settings = packages.joined(wish.packages or (), wish.settings())
        text = text_of(wish.rules)
        options, engine = _engine(wish, text)
        wanted = tuple(selected(engine.outputs, wish.only or ()))
        if not wanted:
            hint = "`warning(S) <- reading(S, W) WHERE W > 15.`"
            raise refuse(f"{wish.rules} has no rules, so it derives nothing", hint)
        program = ShippedProgram.of(engine, text, str(wish.rules), options, wish.buckets or BUCKETS)
        session.needs_java()
        if wish.packages and session.submitted():
            raise refuse("--packages: Java runs already", "name them to spark-submit, which has started it")
        if (master := wish.master or settings.get(startup.MASTER)) is not None:
            startup.checked(master)
        facts = {name: hashlib.sha256(table).hexdigest() for name, table in options.facts.items()}
        return cls(wish, inputs, checkpoint, settings, engine, program, facts, wanted)

    @property
    def sent(self) -> bool:
        """Whether what is derived goes to a broker."""
        return is_topic(self.wish.output)

    @property
    def schemas(self) -> dict[str, Schema]:
        """Of the events that are written."""
        return {event: self.program.schemas[event] for event in self.wanted}

    @property
    def output(self) -> Path:
        """The folder of the sink."""
        return self.checkpoint / OUTGOING if self.sent else Path(self.wish.output).absolute()


@dataclass(frozen=True, slots=True)
class Reads:
    """What there is to read: `files` that were not read before, and how many were (`known`); live inputs by their
    places: `live`, and those that Spark's own connector reads (`beside`)."""

    files: list[str]
    known: int
    live: dict[int, Input]
    beside: dict[int, Input]

    @classmethod
    def of(cls, asked: JobRequest) -> Reads:
        """CepError: an input is wrong, or not there."""
        wish, schemas = asked.wish, asked.engine.inputs
        with kept.reached(asked.checkpoint):
            known = FileList(str(asked.checkpoint / FILES)).known
        absent = ("no-files",) if wish.open else ()  # they come later
        found = [one.path for one in data_source.found(schemas, asked.inputs, wish.format, absent, known)]
        every = {n: one for n, spec in enumerate(asked.inputs) for one in data_source.alive(schemas, spec, wish.format)}
        named = packages.connected(session.inherited() | asked.settings)
        beside = {n: one for n, one in every.items() if one.address and kafka_connector.reads(one.address, named)}
        if beside and not wish.open:
            told = "what Spark's own connector reads has no end"
            raise refuse(f"{next(iter(beside.values())).path}: {told}", "add `--once` or `--follow`, and `--lateness`")
        if beside and wish.migrate:
            raise refuse("--migrate: what Spark's own connector reads cannot be carried over", "start anew")
        for place, one in every.items():
            assert one.address is not None, "a live input has an address"
            kafka_connector.check_same_reader(asked.checkpoint, place, one.address, place in beside)
        kafka_connector.check_same_topics(asked.checkpoint, beside)
        for place, one in every.items():
            if place in beside and one.address is not None:
                kafka_connector.check_reachable(one.address)
            else:
                reach(one)
        return cls(found, len(known), {n: one for n, one in every.items() if n not in beside}, beside)


def planned(asked: JobRequest, reads: Reads) -> Job:
    """The query, its checkpoint aside. CepError: an option is wrong."""
    wish = asked.wish

    def lasting(text: str | None, option: str) -> int | None:
        return None if text is None else duration(text, option)

    return Job(
        asked.program,
        tuple(asked.inputs),
        str(asked.output),
        str(asked.checkpoint),
        asked.wanted,
        lasting(wish.lateness, "--lateness"),
        wish.output_format or ("jsonl" if asked.sent else "parquet"),
        wish.format,
        wish.files,
        not wish.open,
        None if wish.dead_letter is None else str(Path(wish.dead_letter).absolute()),
        None if wish.lateness is None else MESSAGES,
        duration(wish.every or EVERY, "--every"),
        lasting(wish.idle, "--idle"),
        lasting(wish.keep, "--keep"),
        tuple(wish.updates or ()),
        beside=reads.beside,
    )


def claimed(asked: JobRequest, reads: Reads, held: ExitStack) -> Job:
    """The query, whose checkpoint is this run's from now on, until what is `held` is let go of; and what killed runs
    have left is away. CepError: the checkpoint is another program's, or in use; there is nothing to go on with, or
    no room."""
    wish, query, folder = asked.wish, planned(asked, reads), asked.checkpoint
    warn(warnings_of(asked.engine, wish.rules), wish.rules, wish.log)
    compiles(wish.log)
    with kept.reached(folder):
        before = (folder / CHECKPOINT).exists()
        if not before:
            kept.vacant(folder, query.output)  # before anything is put there
    if asked.sent:
        output_address(wish.output, asked.schemas)
        if not before:
            Sending(wish.output, asked.schemas).close()  # later what is derived waits, if it has to
    with kept.reached(folder):
        folder.mkdir(parents=True, exist_ok=True)
        held.enter_context(lock.locked(folder))
        mine = _kept(asked, query, ISO if kept.begun(folder) else _times(asked))
        state, moved = kept.claim(folder, mine, wish.migrate, query.lateness or 0, migratable=not reads.beside)
    check_writable("--checkpoint", folder)
    _agrees(asked, reads, query, state)
    if moved is not None:
        carried = {"on": moved.on, "empty": moved.empty, "gone": moved.gone}
        wish.log("migrate", f"carried over: {moved}" if str(moved) else "nothing to carry over", "info", **carried)
    mark = f"{state.name}-" if state.name else ""
    query = replace(query, generation=state.generation, mark=mark, times=state.times)
    check_writable("--output", Path(query.output))
    if query.dead_letters is not None:
        check_writable("--dead-letter", Path(query.dead_letters))
    _tidied(query, folder)
    if not asked.sent:
        _missed(wish, output_folder.missing(Path(query.output)))
    changes.ChangeLog(folder, [os.path.abspath(one) for one in query.updates]).look(query.closing, strict=True)
    return query


def _times(asked: JobRequest) -> str:
    """How the files that are there when a checkpoint begins write their times."""
    schemas, absent = asked.engine.inputs, ("no-file", "no-files")
    return form(data_source.found(schemas, asked.inputs, asked.wish.format, absent), schemas) or ISO


def _kept(asked: JobRequest, query: Job, times: str) -> kept.CheckpointInfo:
    """What the checkpoint is to be of; `times`: how they are written, where it begins."""
    engine = asked.engine
    return kept.CheckpointInfo(
        engine.program,
        asked.program.text,
        asked.wish.policy,
        asked.facts,
        None if engine.changes is None else engine.changes.loaded.fingerprint,
        asked.program.buckets,
        query.output,
        query.format,
        list(asked.wanted),
        migration.StateLayout.of(engine, asked.wanted),
        times=times,
    )


def _agrees(asked: JobRequest, reads: Reads, query: Job, state: kept.CheckpointInfo) -> None:
    """See that the checkpoint is of one time with the output, and that there is more to come. CepError: it is not, or
    its input has ended."""
    wish, own = asked.wish, state.generation.spark(asked.checkpoint)
    spark_files.mend(own)
    spark_files.sound(own)
    output_folder.agree(own, Path(query.output), state.generation.first)
    told = spark_files.ends_sent(own) > 0
    over = spark_files.input_ended(own) or (told and not query.closing)
    if over and (wish.follow or reads.live or reads.beside or reads.files):
        raise refuse(
            f"--checkpoint: the input of {asked.checkpoint} has ended, what comes now would be late",
            "start anew with other folders; where more is to come, as it does live, run with `--once` or `--follow`",
        )
    if over:
        wish.log("ended", f"the input of {asked.checkpoint} has ended: there is nothing new to read", "info")
    if told and reads.files:
        found = reads.files
        late = f"{count(len(found), 'file')} came after the end of the input was told, and will not be read"
        wish.log("after", f"{late}: {', '.join(found[:3])}{', ...' if len(found) > 3 else ''}", "warning")


def _missed(wish: RunOptions, gone: list[Path]) -> None:
    """Tell of files of derived events that are not there any more."""
    if gone:
        these = f"{', '.join(map(str, gone[:3]))}{', ...' if len(gone) > 3 else ''}"
        told = f"--output: of what was written {count(len(gone), 'file')} {'is' if len(gone) == 1 else 'are'} missing"
        hint = "bring them back from a copy: whoever goes by the log of the folder, as Spark does, fails without"
        wish.log("missing", f"{told}: {these}; {hint}", "warning", files=len(gone))


def _tidied(query: Job, checkpoint: Path) -> None:
    """Away with what a killed run has left. CepError: see `cep.spark.sink.output_folder`."""
    generation = query.generation
    output_folder.sweep(Path(query.output))
    bucket_states.sweep(generation.states(checkpoint))
    generation.retire(checkpoint)
    if query.dead_letters is not None:
        remove_hidden(Path(query.dead_letters), query.mark)


def _engine(wish: RunOptions, text: str) -> tuple[Options, Engine]:
    """The program in one engine, and what others are made of."""
    facts = facts_of(wish.facts)
    knowledge = knowledge_of(wish.knowledge, wish.reasoning)
    pickled = None if knowledge is None else pickle.dumps(knowledge)
    engine = Engine.from_text(
        text,
        name=str(wish.rules),
        facts=facts,
        knowledge=knowledge,
        policy=wish.policy,
        max_derivations=wish.max_derivations,
    )
    if wish.updates and engine.changes is None:
        raise refuse("--knowledge-updates: there is no --knowledge that could change")
    for name in wish.updates or ():
        if name == "-" or (Path(name).exists() and not (Path(name).is_file() or Path(name).is_dir())):
            hint = "name files, or a folder"
            raise refuse(f"--knowledge-updates {name}: it cannot be read again, as Spark has to", hint)
        if not (wish.open or there([name])):
            raise refuse(f"--knowledge-updates: there is no file {name}")
    return Options(wish.policy, packed_facts(facts), pickled, {}, wish.max_derivations), engine
