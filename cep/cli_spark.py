"""`cep run --on spark`: what the options mean there, and the run from its start to what is told at its end."""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cep.logs import Log
from cep.options import distinct, duration, refuse, selected
from cep.terminal import CLEAN, DEAD_LETTERS, compiles, facts_of, knowledge_of, text_of, warn, warnings_of

if TYPE_CHECKING:
    from cep.engine import Engine
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
    from cep.progress import Tally
    from cep.spark.program import Program
    from cep.watch import Watch
    from connectors.addresses import bare
    from connectors.live import reach

    inputs, checkpoint = _checked(wish)
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
    from cep.spark import checkpoint as kept
    from cep.spark import files, letters, listener, lock, migration, noise, stopping, tidy

    program = Program.of(engine, text, str(wish.rules), options, wish.buckets or BUCKETS)
    session.needs_java()
    absent = ("no-files",) if wish.follow or wish.once else ()  # they come later
    found = [one.path for one in files.found(engine.inputs, inputs, wish.format, absent)]
    live = [one for spec in inputs for one in files.alive(engine.inputs, spec, wish.format)]
    for one in live:
        reach(one)
    distinct(found, {"--output": wish.output, "--dead-letter": wish.dead_letter, "--checkpoint": wish.checkpoint})
    query = job.Job(
        program,
        tuple(inputs),
        str(Path(wish.output).absolute()),
        checkpoint,
        wanted,
        None if wish.lateness is None else duration(wish.lateness, "--lateness"),
        wish.output_format or "parquet",
        wish.format,
        wish.files,
        not (wish.once or wish.follow),
        None if wish.dead_letter is None else str(Path(wish.dead_letter).absolute()),
        None if wish.lateness is None else MESSAGES,
        duration(wish.every or EVERY, "--every"),
    )
    warn(warnings_of(engine, wish.rules), wish.rules, wish.log)
    compiles(wish.log)
    facts = {name: hashlib.sha256(table).hexdigest() for name, table in options.facts.items()}
    updates = hashlib.sha256(repr(options.updates).encode()).hexdigest() if options.updates else None
    folder = Path(checkpoint)
    before = (folder / kept.NAME).exists()
    if before:
        held.enter_context(lock.locked(folder))
    state, moved = kept.claim(
        folder,
        kept.Kept(
            engine.program,
            text,
            wish.policy,
            facts,
            None if engine.changes is None else engine.changes.loaded.fingerprint,
            updates,
            program.buckets,
            query.output,
            query.format,
            list(wanted),
            migration.Laid.of(engine, wanted),
        ),
        wish.migrate,
    )
    if not before:
        held.enter_context(lock.locked(folder))
    if kept.ended(folder):
        known = {one.path for one in files.Journal(str(folder / files.JOURNAL)).entries()}
        if wish.follow or not known.issuperset(found):
            raise refuse(
                f"--checkpoint: the input of {checkpoint} has ended, what comes now would be late",
                "start anew with other folders; where more is to come, end a run with `--once` or `--follow`",
            )
    if moved is not None:
        told = {"on": moved.on, "empty": moved.empty, "gone": moved.gone}
        wish.log("migrate", f"carried over: {moved}" if str(moved) else "nothing to carry over", "info", **told)
    query = replace(query, program=replace(program, earlier=state.states))
    tidy.sweep(Path(query.output), any((folder / "spark" / "commits").glob("[0-9]*")))
    watch = Watch(charts(engine.plan, program.stages), Tally(), wish.log, 0)
    looking = Looking(watch, None if wish.follow or live else len(found))
    begins = {
        "program": str(wish.rules),
        "inputs": [bare(one) for one in inputs],
        "output": query.output,
        "checkpoint": checkpoint,
    }
    with noise.kept(Path(checkpoint)):
        spark = session.session(wish.master, settings)
    with (
        watch.looking(wish.metrics, quiet=False, **begins),
        stopping.Wish(Path(checkpoint)).listening() as stop,
        listener.listening(spark, looking),
    ):
        stop.wait(job.start(spark, query, wish.follow), wish.follow)
    tidy.sweep(Path(query.output))
    dead = watch.meter.dead if query.letters is None else letters.counted(Path(query.letters))
    derived = tidy.rows(spark, query)
    numbers = {"records": watch.meter.records, "dead": dict(dead), "derived": dict(derived)}
    wish.log("stop", _closing(derived, dead, bool(stop.wished)), signal=stop.wished or None, **numbers)
    if stop.wished:
        return 128 + stop.wished
    return DEAD_LETTERS if wish.strict and watch.meter.dead else CLEAN


def _checked(wish: Wish) -> tuple[list[str], str]:
    """The inputs and the checkpoint. CepError: what Spark cannot do, or needs to be told."""
    from connectors.addresses import bare

    for option, value in (("--explain", wish.explain), ("--idle", wish.idle)):
        if value:
            raise refuse(f"{option} is not for Spark", "run it in one process, without `--on spark`")
    if not wish.inputs:
        raise refuse("there is no --input", "name files, or a folder: `--input readings/`")
    if "-" in wish.inputs:
        raise refuse("--input -: Spark cannot read standard input", "name files, or a folder")
    if wish.output == "-":
        raise refuse("there is no --output", "name a folder: `--output derived`")
    if wish.output_format not in (None, "jsonl", "parquet"):
        raise refuse(f"--output-format: Spark does not write {wish.output_format}", "jsonl or parquet")
    if wish.checkpoint is None:
        raise refuse("there is no --checkpoint", "name a folder, in which the state is kept: `--checkpoint state`")
    for option, place in (
        ("--output", wish.output),
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
    changes: list[tuple[int, bytes]] = []
    if wish.updates:
        from knowledge.updates import read

        if engine.changes is None:
            raise refuse("--knowledge-updates: there is no --knowledge that could change")
        loaded = engine.changes.loaded
        changes = [(one.time, loaded.change(one.add, one.remove)) for one in read(wish.updates)]
    options = Options(wish.policy, packed_facts(facts), pickled, tuple(changes), {}, wish.max_derivations)
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
