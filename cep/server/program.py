"""Open the program of a server: its engine, which is restored from a snapshot if one exists, and its input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from cep.app.durations import duration, idle_seconds, refuse
from cep.app.knowledge_updates import KnowledgeUpdates, knowledge_updates
from cep.app.opening import ProgramSource, open_batches
from cep.app.program_thread import Acknowledgements, JournaledBatches
from cep.app.terminal import announce_compiling, knowledge_of, source_log, warn, warnings_of
from cep.app.things import ThingsFollower, check_refreshed, services
from cep.connectors.brokers.sources import Sources
from cep.connectors.inputs import Input, is_endless
from cep.connectors.inputs import inputs as find
from cep.connectors.journal import Journal
from cep.connectors.records.batch import Batch
from cep.connectors.records.revised import changes_of, unrevised, with_changes
from cep.connectors.serving.state_folder import StateFolder
from cep.connectors.serving.versions import FILES, Version, Versions, files_hash, running_version
from cep.connectors.why.origins import MOST, Origins
from cep.core import checksum
from cep.core.errors import CepError, reason_of
from cep.core.fluents import EDGES
from cep.core.private_files import private_folder
from cep.core.schema import Schema
from cep.core.suggest import astray
from cep.engine import Engine
from cep.knowledge.graph import Knowledge
from cep.language.reading import parameters_of
from cep.runtime.options import EngineOptions
from cep.runtime.snapshot import DAMAGED
from cep.server.options import ServeOptions
from cep.server.shadow import kept_texts
from cep.spark.sink.reader import SinkReader
from cep.succession import Successor, former_texts

IDLE = 1.0
"""The default of `--idle` for live input: the seconds of silence after which the watermark follows the clock."""


@dataclass(frozen=True, slots=True)
class ServedProgram:
    """The program that a server runs, with its input and its stored state.

    - `alert_engine`: for a program on Spark, an engine that evaluates the program's ALERT statements on the derived
      events.
    - `schemas`: the events that are read from the input.
    - `inputs`: the inputs; empty for a program on Spark.
    - `live`: True if the inputs have no end.
    - `rest`: the object that acknowledges messages to brokers, or None.
    - `origins`: the file and line of each record.
    - `journal`: the journal of the input, or None if there is none.
    - `running`: the options of the program's engines.
    - `versions`: the stored versions, or None if they are not kept.
    - `meant`: the fingerprints of the program's events in the folder of --state, or None.
    - `since`: the events that an earlier program derived while this server ran. Each is mapped to the time up to which
      the earlier program derived it.
    """

    text: str
    known: Knowledge | None
    engine: Engine
    alert_engine: Engine | None
    schemas: Mapping[str, Schema]
    inputs: Sequence[Input]
    live: bool
    batches: JournaledBatches
    changes: KnowledgeUpdates
    rest: Acknowledgements | None
    sources: Sources
    origins: Origins
    folder: Path
    journal: Journal | None
    running: EngineOptions
    version: Version
    versions: Versions | None
    meant: StateFolder | None
    since: Mapping[str, int] = field(default_factory=dict)

    @property
    def behind(self) -> int:
        """How many microseconds older than the latest record a record may be and still be processed."""
        return (self.running.lateness or 0) + (self.running.revise or 0)

    @property
    def keeps_input(self) -> bool:
        """True if the input is kept, so that another program can read it again before it takes over."""
        return self.journal is not None and self.versions is not None and self.live


def program_source(
    options: ServeOptions,
    texts: Mapping[Path, str] | None = None,
    known: Knowledge | None = None,
    rules: Sequence[Path] | None = None,
    later: bool = False,
) -> ProgramSource:
    """Return the source of the program that the options name.

    - `texts`: the texts to use instead of reading files.
    - `known`: the knowledge, if it is already loaded.
    - `rules`: other files to read instead of the program's files.
    - `later`: True if the program may be newer than the options. Parameters that it does not declare are then
      ignored.

    Raises CepError if the program cannot be read or is not valid.
    """
    evaluation = options.evaluation
    source = ProgramSource.read(
        rules or options.rules, options.knowledge, evaluation.policy, options.dialect,
        None if later else options.parameters, options.source.strict_types, evaluation.distinct, texts, known,
    )  # fmt: skip
    values = options.parameters.values if later else None
    if not values:
        return source
    declared = parameters_of(source.text, source.name, source.options.files, source.options.dialect).by_name
    params = {name: value for name, value in values.items() if name in declared}
    return replace(source, options=replace(source.options, params=params))


def open_program(options: ServeOptions, stack: ExitStack) -> ServedProgram:
    """Compile the program and open its input. Only the knowledge is read completely; the input is read later.

    `stack`: the exit stack, which closes everything that this function opens. Raises CepError if the program is not
    valid or its input cannot be opened.
    """
    files = options.files_texts()
    versions = version = None
    state = options.retention.state
    if state is not None and (options.changeable or (state / "versions").is_dir()):
        _make_folder(state)
        versions = Versions(state / "versions")
        version = _version(options, versions, state, files)
    texts = files if version is None else version.texts
    named = dict(zip(options.rules, (texts[name] for name in options.file_names)))
    known, kept = _knowledge(options)
    source = program_source(options, named, known, later=texts != files)
    running = replace(
        options.evaluation.engine,
        lateness=duration(options.source.lateness or "0", "--lateness"),
        lateness_by=options.source.lateness_by,
        explain=options.retention.explain,
        remember=options.retention.remembered,
        begins=True,
        revise=options.source.revised,
    )
    engine = source.engine(running, alerts=True)
    alert_engine = source.engine(EngineOptions(lateness=None, stage=0), alerts=True) if options.place.on_spark else None
    derived = None if alert_engine is None else _derived(options, engine, alert_engine)
    schemas = _read_for(options, engine, files, texts, source.known)
    listed = find(options.source.inputs, schemas, options.source.format) if derived is None else []
    live = any(file.size is None for file in listed)
    if not live:
        schemas = engine.inputs
    if live:
        engine.refuse_endless("a live input")
    check_refreshed(options.knowledge.files, live)
    silence = _silence(options, live)
    warn(warnings_of(engine, source.name, options.knowledge.predicates), options.rules, options.log)
    announce_compiling(options.log)
    folder, meant = _folder(options, engine, stack)
    changeable = options.changeable and live
    journaled_input = (options.retention.state is not None or changeable) and live
    if changeable and versions is None:
        versions = Versions(folder / "versions")
    version = version or _first_version(files, 1)
    if versions is not None:
        versions.write(version)
    journal = stack.enter_context(closing(Journal(folder, schemas, changeable))) if journaled_input else None
    if journal is not None:
        if blob := journal.snapshot():
            engine = _restored(options, engine, source, running, blob)
        journal.version = version.number
    if journal is None or options.knowledge.service is None:
        changes = knowledge_updates(engine, options.knowledge.updates, silence)
    elif options.knowledge.updates:
        hint = "use a file in place of the service: `cep knowledge fetch ADDRESS > things.nt`"
        raise refuse("--knowledge-updates: a snapshot already has the changes of a service's Things", hint)
    else:
        changes = KnowledgeUpdates(())
    rest = (
        Acknowledgements(journal) if any(src.address is not None and src.format != "nquads" for src in listed) else None
    )
    sources = Sources(source_log(options.log), lasting=True, ahead=options.source.ahead_limits)
    sources.expect(file.path for file in listed if file.address is not None)
    origins = Origins(MOST if options.retention.explain else 0, engine.position)
    follower = ThingsFollower(options.knowledge.files if live else (), known, engine.changes, kept, options.log)
    batches = (
        origins.noted(_batches(options, engine, schemas, silence, rest, journal, sources, follower))
        if derived is None
        else derived.follow()
    )
    journaled = JournaledBatches(batches, journal)
    if schemas.keys() != engine.inputs.keys():
        journaled.read_by(engine.inputs)
    text, known = source.text, source.known
    return ServedProgram(
        text, known, engine, alert_engine, schemas, listed, live, journaled, changes, rest, sources, origins, folder,
        journal, running, version, versions, meant,
    )  # fmt: skip


def _read_for(
    options: ServeOptions,
    engine: Engine,
    files: Mapping[str, str],
    texts: Mapping[str, str],
    known: Knowledge | None,
) -> Mapping[str, Schema]:
    """Return the schemas of the events that the server reads from the input.

    The events of all programs that may run are included: the program, its shadow, and the program in the files if
    another version runs. With --revise, the former program in the snapshot is included, too.
    """
    if not options.changeable or options.place.on_spark:
        return engine.inputs
    kept = None if options.server.shadow else kept_texts(options.retention.state, options.file_names)
    others: list[tuple[Sequence[Path], Mapping[str, str] | None]] = [(options.rules, files)] if texts != files else []
    others += [(options.rules, old_texts) for old_texts in (kept, _former_texts(options)) if old_texts is not None]
    others += [(options.server.shadow, None)] if options.server.shadow else []
    input_schemas: dict[str, Schema] = {}
    for rules, own in others:
        with suppress(CepError):  # an error is reported when the program takes over
            named = None if own is None else dict(zip(rules, (own[name] for name in options.file_names)))
            other = Engine(program_source(options, named, known, rules, later=True).compiled(alerts=True))
            if other.revises == engine.revises:
                input_schemas = {**other.inputs, **input_schemas}
    return {**input_schemas, **engine.inputs}


def _former_texts(options: ServeOptions) -> Mapping[str, str] | None:
    path = None if options.retention.state is None else options.retention.state / "snapshot"
    if options.source.revised is None or path is None or not path.is_file():
        return None
    with suppress(CepError):  # an error is reported when the snapshot is restored
        return former_texts(path.read_bytes())
    return None


def _version(options: ServeOptions, versions: Versions, folder: Path, files: Mapping[str, str]) -> Version:
    """Return the version that runs now.

    If the files have not changed since the last run, this is the version that ran last. Otherwise it is a version with
    the texts of the files.
    """
    blob = folder / "snapshot"
    name = checksum.name(blob.read_bytes() if blob.is_file() else b"").hex()
    number = running_version(folder, name)
    _remove_not_taken(versions, number, files)
    last = None if number is None else versions.read(number)
    if last is not None and (last.files == files_hash(files) or last.texts == files):
        if last.texts != files:
            text = f"version {last.number} of {last.author} continues; the program files are older"
            options.log("program", text, version=last.number, author=last.author)
        return last
    newest = max(versions.numbers(), default=0)
    version = versions.read(newest)
    if version is None or version.author != FILES or version.texts != files:
        version = _first_version(files, newest + 1)
    return version


def _remove_not_taken(versions: Versions, running: int | None, files: Mapping[str, str]) -> None:
    for number in versions.numbers() if running is not None else ():
        version = versions.read(number) if running is not None and number > running else None
        if version is not None and (version.author != FILES or version.texts != files):
            versions.remove(number)


def _first_version(files: Mapping[str, str], number: int) -> Version:
    time = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Version(number, files, FILES, time, files_hash(files))


def _derived(options: ServeOptions, engine: Engine, alert_engine: Engine) -> SinkReader:
    """Return a reader of the results of a job on Spark.

    For alerts, the reader also returns the beginnings and ends of fluents.
    """
    taken = (schema for name, schema in alert_engine.plan.schemas.items() if name in alert_engine.plan.inputs)
    edges = {event.fluent.name: event for event in taken if event.fluent is not None and event.fluent.part == EDGES}
    return SinkReader(options.source.inputs[0], engine.outputs, edges)


def _batches(
    options: ServeOptions,
    engine: Engine,
    schemas: Mapping[str, Schema],
    silence: float | None,
    rest: Acknowledgements | None,
    journal: Journal | None,
    sources: Sources,
    follower: ThingsFollower,
) -> Iterator[Batch]:
    """Yield the input that arrived after the last snapshot, as the journal has stored it. Then yield new input."""
    if journal is not None:
        if journal.behind:
            options.log(
                "again", f"{journal.behind} records from after the last snapshot are read again", records=journal.behind
            )
        again = follower.repeated(journal.replayed())
        yield from again if engine.revises else unrevised(again)
    first = 0 if journal is None else journal.first
    schemas = with_changes(schemas) if engine.revises else schemas
    arriving = open_batches(options.source.taken, options.source.batch, schemas, silence, sources, rest, first)
    arriving = follower.followed(arriving)
    yield from changes_of(arriving) if engine.revises else arriving


def _knowledge(options: ServeOptions) -> tuple[Knowledge | None, bool]:
    """Load the knowledge. Also return True if it contains descriptions of Things that an earlier start has stored.

    Stored descriptions are used if the input continues from a snapshot. Raises CepError if loading fails.
    """
    state, files = options.retention.state, options.knowledge.files
    if options.place.on_spark or not (fetched := services(files)):
        return knowledge_of(files, options.knowledge.reasoning), False
    if state is None or not any(map(is_endless, options.source.inputs)):
        return knowledge_of(files, options.knowledge.reasoning, fetching=True), False
    _make_folder(state)
    kept = any(document.file(state).is_file() for document in fetched)
    return knowledge_of(files, options.knowledge.reasoning, True, state), kept


def _silence(options: ServeOptions, live: bool) -> float | None:
    """Return the seconds of silence after which the watermark follows the clock, or None if it never does.

    For live input the default is a number, because an alert must not wait for a record that may never arrive.
    """
    if options.source.idle is not None and options.source.idle.strip() != "never":
        return idle_seconds(options.source.idle, not live)
    if options.source.idle is not None or not live:
        return None
    after = f"when no record has arrived for {IDLE:g} s, time follows the clock (less --lateness)"
    options.log("idle", f"{after}; to change this, use `--idle` with another duration or `never`", seconds=IDLE)
    return IDLE


def _folder(options: ServeOptions, engine: Engine, stack: ExitStack) -> tuple[Path, StateFolder | None]:
    """Return the state folder, locked against other servers, and the fingerprints of events that the folder contains.

    Also log the events whose meaning has changed since the last start.
    """
    if options.retention.state is None:
        return Path(stack.enter_context(TemporaryDirectory(prefix="semcep-"))), None
    _make_folder(options.retention.state)
    meant = stack.enter_context(closing(StateFolder(options.retention.state, engine.meanings())))
    if changed := meant.changed:
        options.log("changed", f"{', '.join(changed)}: changed or removed since the last start", events=changed)
    return options.retention.state, meant


def _make_folder(folder: Path) -> None:
    try:
        private_folder(folder)
    except FileExistsError:
        raise refuse(f"--state {folder}: {astray(folder) or 'this is a file, not a folder'}") from None
    except OSError as error:
        raise refuse(f"--state {folder}: {reason_of(error)}") from None


def _restored(
    options: ServeOptions, engine: Engine, source: ProgramSource, running: EngineOptions, blob: bytes
) -> Engine:
    """Return an engine that continues from a snapshot.

    If the program has changed, the rules whose meaning is unchanged keep their state.
    """
    from cep.runtime.prior_state import PriorState

    def made(texts: Mapping[str, str]) -> Successor:
        named = dict(zip(options.rules, (texts[name] for name in options.file_names)))
        former = program_source(options, named, source.known, later=True)
        return Successor(former.compiled(alerts=True), running)

    try:
        if engine.goes_on(blob):
            return engine.restore(blob)
        if (successor := Successor(source.compiled(alerts=True), running)).goes_on(blob):
            return successor.go_on_with(blob, made)
        if engine.withdraws:
            raise refuse(
                "the program has changed, and with --revise no rule can keep its state: earlier results "
                "stay, and earlier records can no longer be corrected or withdrawn"
            )
        engine = source.engine(replace(running, before=PriorState(blob)), alerts=True)
    except CepError as error:
        if error.code == DAMAGED:
            raise refuse(
                f"--state {options.retention.state}: {error.message}",
                "restore it from a copy, or use another folder",
            ) from None
        options.log(
            "begins_anew",
            f"--state {options.retention.state}: {error}; the program begins anew",
            "warning",
            code=error.code,
        )
        return source.engine(running, alerts=True)
    kept, anew = ([rule for rule, goes in engine.carried.items() if goes is way] for way in (True, False))
    what = f"the program has changed; rules that keep their state: {', '.join(kept) or 'none'}; "
    what += f"rules that start empty: {', '.join(anew) or 'none'}"
    options.log("carried", what, carried=kept, empty=anew)
    return engine
