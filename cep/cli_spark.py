"""`cep run --on spark`: what the options mean there, and the run from its start to what is told at its end."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cep.logs import Log
from cep.options import distinct, duration, refuse, selected
from cep.terminal import CLEAN, DEAD_LETTERS, compiles, facts_of, knowledge_of, text_of, warn, warnings_of

if TYPE_CHECKING:
    from cep.engine import Engine
    from cep.spark.job import Job
    from cep.spark.listener import MicroBatch
    from cep.spark.program import Options
    from cep.watch import Watch

BUCKETS = 16
EVERY = "1s"
MESSAGES = 500_000
"""Of a live input, about how many messages a micro-batch has at most."""

On = Annotated[
    str | None,
    typer.Option("--on", metavar="WHERE", show_default=False, help="`spark`: as a streaming query, exactly once."),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL", show_default=False, help="Spark: the cluster, by default that of spark-submit, else `local[*]`."
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(metavar="FOLDER", show_default=False, help="Spark: where the state is kept, to go on from."),
]
Once = Annotated[
    bool, typer.Option("--once", help="Spark: take what there is, and leave open what is open, for the next time.")
]
Follow = Annotated[bool, typer.Option("--follow", help="Spark: wait for more files, until Ctrl-C or SIGTERM.")]
Every = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        show_default=False,
        help="Spark: with --follow, from one micro-batch to the next, at least: 10s. By default 1s.",
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        show_default=False,
        help="Spark: how long derived events stay in --output after their end, by the time of the events: 30d. By "
        "default for good.",
    ),
]
Buckets = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, show_default=False, help=f"Spark: how many buckets keys have ({BUCKETS})."),
]
Migrate = Annotated[
    bool,
    typer.Option("--migrate", help="Spark: the rules have changed: go on with what the unchanged ones remember."),
]
FilesEach = Annotated[
    int | None,
    typer.Option("--files", metavar="N", min=1, show_default=False, help="Spark: files of a micro-batch, at most."),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", show_default=False, help="Spark: a setting of the session. Repeatable."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The options of a run, as they were given."""

    rules: Path
    inputs: list[str] | None
    format: str | None
    output: str
    output_format: str | None
    only: list[str] | None
    policy: str | None
    lateness: str | None
    dead_letter: str | None
    strict: bool
    facts: list[str] | None
    knowledge: list[str] | None
    reasoning: str | None
    updates: list[str] | None
    max_derivations: int
    idle: str | None
    explain: bool
    on: str | None
    master: str | None
    checkpoint: str | None
    once: bool
    follow: bool
    every: str | None
    keep: str | None
    migrate: bool
    buckets: int | None
    files: int | None
    conf: list[str] | None
    metrics: str | None
    log: Log

    @property
    def spark(self) -> bool:
        """Whether it is for Spark. CepError: it is for what there is not, or half of it is."""
        if self.on == "spark":
            return True
        if self.on is not None:
            raise refuse(f"--on: `{self.on}` is nothing that programs run on", "`--on spark`, or none for one process")
        given = {
            "--master": self.master,
            "--checkpoint": self.checkpoint,
            "--once": self.once,
            "--follow": self.follow,
            "--every": self.every,
            "--keep": self.keep,
            "--migrate": self.migrate,
            "--buckets": self.buckets,
            "--files": self.files,
            "--conf": self.conf,
        }
        for option, value in given.items():
            if value:
                raise refuse(f"{option} is for Spark", "add `--on spark`")
        return False


@dataclass(frozen=True, slots=True)
class Looking:
    """Shows each micro-batch to those who look. `files`: how many there are to read, None: it has no end."""

    watch: Watch
    files: int | None

    def __call__(self, done: MicroBatch) -> None:
        self.watch.batch(done.reports, done.seconds, batch=done.number, phases=done.phases, store_bytes=done.stored)
        self.watch.tell()
        if self.files and done.files is not None:
            self.watch.tally.done = min(1.0, done.files / self.files)


def run(wish: Wish) -> int:
    """Run the query to its end; the exit status."""
    with ExitStack() as held:
        return _run(wish, held)


def _run(wish: Wish, held: ExitStack) -> int:
    """Likewise. `held`: what is let go of at its end."""
    from cep.meter import charts
    from cep.progress import Tally, count
    from cep.spark.program import Program
    from cep.watch import Watch
    from connectors.addresses import bare
    from connectors.live import reach
    from connectors.sending import Sending, is_topic, outlet

    inputs, checkpoint = _checked(wish)
    sent = is_topic(wish.output)
    settings = dict(_setting(one) for one in wish.conf or ())
    text = text_of(wish.rules)
    options, engine = _engine(wish, text)
    wanted = tuple(selected(engine.outputs, wish.only or ()))
    if not wanted:
        raise refuse(f"{wish.rules} has no rules, so it derives nothing", "`warning(S) <- reading(S, W) WHERE W > 15.`")
    try:
        from cep.spark import job, session
    except ModuleNotFoundError as error:
        raise refuse(f"Spark is not installed: no module {error.name}", "pip install 'semcep[spark]'") from None
    from cep.spark import (
        changes,
        files,
        journal,
        ledger,
        listener,
        lock,
        mending,
        migration,
        patience,
        starting,
        stopping,
        telling,
        tidy,
    )
    from cep.spark import checkpoint as kept
    from cep.spark.relay import FOLDER, relaying

    program = Program.of(engine, text, str(wish.rules), options, wish.buckets or BUCKETS)
    session.needs_java()
    if (master := wish.master or settings.get(starting.MASTER)) is not None:
        starting.checked(master)
    folder = Path(checkpoint)
    with kept.reached(folder):
        known = journal.Journal(str(folder / journal.JOURNAL)).known
        before = (folder / kept.NAME).exists()
    absent = ("no-files",) if wish.follow or wish.once else ()  # they come later
    found = [one.path for one in files.found(engine.inputs, inputs, wish.format, absent, known)]
    live = [one for spec in inputs for one in files.alive(engine.inputs, spec, wish.format)]
    for one in live:
        reach(one)
    distinct(found, {"--output": wish.output, "--dead-letter": wish.dead_letter, "--checkpoint": wish.checkpoint})
    query = job.Job(
        program,
        tuple(inputs),
        str(Path(checkpoint) / FOLDER if sent else Path(wish.output).absolute()),
        checkpoint,
        wanted,
        None if wish.lateness is None else duration(wish.lateness, "--lateness"),
        wish.output_format or ("jsonl" if sent else "parquet"),
        wish.format,
        wish.files,
        not (wish.once or wish.follow),
        None if wish.dead_letter is None else str(Path(wish.dead_letter).absolute()),
        None if wish.lateness is None else MESSAGES,
        duration(wish.every or EVERY, "--every"),
        None if wish.idle is None else duration(wish.idle, "--idle"),
        None if wish.keep is None else duration(wish.keep, "--keep"),
        tuple(wish.updates or ()),
    )
    warn(warnings_of(engine, wish.rules), wish.rules, wish.log)
    compiles(wish.log)
    facts = {name: hashlib.sha256(table).hexdigest() for name, table in options.facts.items()}
    schemas = {event: program.schemas[event] for event in wanted}
    if sent:
        outlet(wish.output, schemas)
    if sent and not before:
        Sending(wish.output, schemas).close()  # later what is derived waits, if it has to
    now = kept.Kept(
        engine.program,
        text,
        wish.policy,
        facts,
        None if engine.changes is None else engine.changes.loaded.fingerprint,
        program.buckets,
        query.output,
        query.format,
        list(wanted),
        migration.Laid.of(engine, wanted),
    )
    with kept.reached(folder):
        if before:
            held.enter_context(lock.locked(folder))
        state, moved = kept.claim(folder, now, wish.migrate, query.lateness or 0)
        if not before:
            held.enter_context(lock.locked(folder))
    own = state.generation.spark(folder)
    mending.mend(own)
    mending.agree(own, Path(query.output), state.generation.first)
    told = telling.ends(own) > 0
    over = kept.ended(own) or (told and not query.closing)
    if over and (wish.follow or live or found):
        raise refuse(
            f"--checkpoint: the input of {checkpoint} has ended, what comes now would be late",
            "start anew with other folders; where more is to come, as it does live, run with `--once` or `--follow`",
        )
    if told and found:
        late = f"{count(len(found), 'file')} came after the end of the input was told, and will not be read"
        wish.log("after", f"{late}: {', '.join(found[:3])}{', ...' if len(found) > 3 else ''}", "warning")
    if moved is not None:
        carried = {"on": moved.on, "empty": moved.empty, "gone": moved.gone}
        wish.log("migrate", f"carried over: {moved}" if str(moved) else "nothing to carry over", "info", **carried)
    mark = f"{state.name}-" if state.name else ""
    query = replace(query, generation=state.generation, mark=mark)
    _tidied(query, folder)
    changes.Chronicle(folder, [os.path.abspath(one) for one in query.updates]).look(query.closing, strict=True)
    written = ledger.Ledger(Path(query.output))
    earlier = written.totals()
    watch = Watch(charts(engine.plan, program.stages), Tally(), wish.log, 0)
    looking = Looking(watch, None if wish.follow or live else len(known) + len(found))
    begins = {
        "program": str(wish.rules),
        "inputs": [bare(one) for one in inputs],
        "output": bare(wish.output) if sent else query.output,
        "checkpoint": checkpoint,
    }

    def waits(told: str) -> None:
        wish.log("waiting", told, "warning")

    spark = starting.started(wish.master, settings, folder, waits)

    with (
        watch.looking(wish.metrics, quiet=False, **begins),
        stopping.Wish(Path(checkpoint)).listening() as stop,
        listener.listening(spark, looking),
        relaying(folder, wish.output, schemas, waits) if sent else nullcontext(),
    ):
        patience.endured(
            lambda: job.start(spark, query, wish.follow), stop, wish.follow, lambda: watch.meter.batches, wish.log
        )
    tidy.sweep(Path(query.output))
    dead, derived = watch.meter.dead, written.totals() - earlier
    numbers = {"records": watch.meter.records, "dead": dict(dead), "derived": dict(derived)}
    wish.log("stop", _closing(derived, dead, bool(stop.wished)), signal=stop.wished or None, **numbers)
    if stop.wished:
        return 128 + stop.wished
    return DEAD_LETTERS if wish.strict and watch.meter.dead else CLEAN


def _tidied(query: Job, checkpoint: Path) -> None:
    """Away with what a killed run has left. CepError: see `cep.spark.tidy`."""
    from cep.spark import states, tidy

    generation = query.generation
    tidy.sweep(Path(query.output))
    states.sweep(generation.states(checkpoint))
    generation.retire(checkpoint)
    if query.letters is not None:
        tidy.hidden(Path(query.letters), query.mark)


def _checked(wish: Wish) -> tuple[list[str], str]:
    """The inputs and the checkpoint. CepError: what Spark cannot do, or needs to be told."""
    from connectors.addresses import bare
    from connectors.sending import is_topic

    if wish.explain:
        raise refuse("--explain is not for Spark", "run it in one process, without `--on spark`")
    if not wish.inputs:
        raise refuse("there is no --input", "name files, or a folder: `--input readings/`")
    if "-" in wish.inputs:
        raise refuse("--input -: Spark cannot read standard input", "name files, or a folder")
    if wish.output == "-":
        raise refuse("there is no --output", "name a folder: `--output derived`")
    if is_topic(wish.output) and wish.output_format not in (None, "jsonl"):
        raise refuse(f"--output-format: messages are lines of JSON, not {wish.output_format}")
    if is_topic(wish.output) and wish.keep is not None:
        raise refuse("--keep is for folders", "how long a broker keeps messages is for it to say")
    if wish.output_format not in (None, "jsonl", "parquet"):
        raise refuse(f"--output-format: Spark does not write {wish.output_format}", "jsonl or parquet")
    if wish.checkpoint is None:
        raise refuse("there is no --checkpoint", "name a folder, in which the state is kept: `--checkpoint state`")
    for option, place in (
        ("--output", None if is_topic(wish.output) else wish.output),
        ("--checkpoint", wish.checkpoint),
        ("--dead-letter", wish.dead_letter),
    ):
        if place is not None and "://" in place:
            hint = "a folder that all machines have, mounted at the same place"
            raise refuse(f"{option}: `{bare(place)}` is an address, not a folder", hint)
    if wish.once and wish.follow:
        raise refuse("--once and --follow exclude each other")
    if (wish.once or wish.follow) and wish.lateness is None:
        option = "--once" if wish.once else "--follow"
        raise refuse(f"{option} needs a --lateness", "how much later than others an event may come: `--lateness 10min`")
    if wish.idle is not None and not wish.follow:
        hint = "add `--follow`; a run that takes what there is leaves open what is open, or ends the input"
        raise refuse("--idle is for what comes live, and without --follow nothing does", hint)
    if wish.every is not None and not wish.follow:
        raise refuse("--every is for --follow", "without it a run takes what there is, and ends")
    if wish.files is not None and wish.lateness is None:
        raise refuse("--files needs a --lateness", "without one, all files are one micro-batch, sorted by time")
    return wish.inputs, str(Path(wish.checkpoint).absolute())


def _engine(wish: Wish, text: str) -> tuple[Options, Engine]:
    """The program in one engine, by which it is checked and cut, and what others are made of."""
    import pickle

    from cep.engine import Engine
    from cep.spark.program import Options, packed_facts
    from knowledge.growing import there

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
        if not (wish.follow or wish.once or there([name])):
            raise refuse(f"--knowledge-updates: there is no file {name}")
    options = Options(wish.policy, packed_facts(facts), pickled, {}, wish.max_derivations)
    return options, engine


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise refuse(f"--conf: expected `name=value`, found `{text}`", "`--conf spark.sql.shuffle.partitions=8`")
    return name, value


def _closing(derived: Counter[str], dead: Counter[str], stopped: bool) -> str:
    """`stopped: 12 dead letters (12 late), 120 derived events: storm 100, ...`."""
    from cep.progress import REASONS, count, ranked

    parts = []
    if dead:
        reasons = ", ".join(f"{number:,} {REASONS.get(code, code)}" for code, number in ranked(dead))
        parts.append(f"{count(dead.total(), 'dead letter')} ({reasons})")
    types = ", ".join(f"{name} {number:,}" for name, number in ranked(derived))
    told = count(derived.total(), "derived event")
    parts.append(f"{told}: {types}" if types else told)
    return ("stopped: " if stopped else "") + ", ".join(parts)
