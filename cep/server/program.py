"""The program that is served: its engine, as it was left where it goes on, and what it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cep.app.durations import duration, refuse, waiting
from cep.app.knowledge_feed import KnowledgeFeed, changing
from cep.app.program_thread import JournaledBatches, Rest
from cep.app.terminal import compiles, facts_of, knowledge_of, of_sources, text_of, warn, warnings_of
from cep.core.errors import CepError
from cep.engine import Engine
from cep.runtime.snapshot import DAMAGED
from cep.server.options import ServeOptions
from cep.spark.sink.reader import SinkReader
from connectors.batch import Batch
from connectors.files import read, replay
from connectors.inputs import inputs as find
from connectors.journal import Journal
from connectors.serving.state_folder import StateFolder
from connectors.sources import Sources
from connectors.why.origins import MOST, Origins
from knowledge.graph import Knowledge

IDLE = 1.0
"""Seconds of silence after which time goes on by itself where input is live."""


@dataclass(frozen=True, slots=True)
class ServedProgram:
    """`teller`: of a program that runs on Spark, the engine of its ALERT statements, over what it has derived.
    `live`: its input has no end of its own. `folder`: where the server keeps what it keeps; `journal`: where the
    program is kept in it, None: nowhere. `sources`: what of the input is lost.
    `origins`: where the records came from."""

    text: str
    known: Knowledge | None
    engine: Engine
    teller: Engine | None
    live: bool
    batches: JournaledBatches
    changes: KnowledgeFeed
    rest: Rest | None
    sources: Sources
    origins: Origins
    folder: Path
    journal: Journal | None


def opened(wish: ServeOptions, stack: ExitStack) -> ServedProgram:
    """Nothing is read yet but the knowledge. `stack`: what is let go of at its end. Raises CepError."""
    text = text_of(wish.rules)
    known = knowledge_of(wish.knowledge, wish.reasoning)
    options: dict[str, Any] = {
        "name": str(wish.rules),
        "facts": facts_of(wish.facts),
        "knowledge": known,
        "policy": wish.policy,
        "alerts": True,
    }
    made = partial(
        Engine.from_text,
        text,
        lateness=duration(wish.lateness or "0", "--lateness"),
        explain=wish.explain,
        remember=wish.remembered,
        max_derivations=wish.max_derivations,
        **options,
    )
    engine = made()
    teller = Engine.from_text(text, lateness=None, stage=0, **options) if wish.elsewhere else None
    derived = None if teller is None else SinkReader(wish.inputs[0], engine.outputs)
    found = find(wish.inputs, engine.inputs, wish.format) if derived is None else []
    live = any(one.size is None for one in found)
    silence = _silence(wish, live)
    warn(warnings_of(engine, wish.rules), wish.rules, wish.log)
    compiles(wish.log)
    folder = _folder(wish, engine, stack)
    kept = wish.state is not None and live
    if kept and wish.updates:
        hint = "without --state, or with input from files"
        raise refuse("--knowledge-updates: live input that goes on from a snapshot cannot have them", hint)
    journal = stack.enter_context(closing(Journal(folder, engine.inputs))) if kept else None
    if journal is not None and (blob := journal.snapshot()):
        engine = _restored(wish, engine, made, blob)
    changes = changing(engine, wish.updates, silence)
    rest = Rest(journal) if any(one.address is not None and one.format != "nquads" for one in found) else None
    sources = Sources(of_sources(wish.log), lasting=True)
    origins = Origins(MOST, engine.position)
    batches = (
        origins.noted(_batches(wish, engine, silence, rest, journal, sources)) if derived is None else derived.follow()
    )
    turns = JournaledBatches(batches, journal)
    return ServedProgram(text, known, engine, teller, live, turns, changes, rest, sources, origins, folder, journal)


def _batches(
    wish: ServeOptions,
    engine: Engine,
    silence: float | None,
    rest: Rest | None,
    journal: Journal | None,
    sources: Sources,
) -> Iterator[Batch]:
    """What came after the last snapshot of a run that was killed, then what comes."""
    if journal is not None:
        if journal.behind:
            wish.log("again", f"{journal.behind} records that came after the last snapshot", records=journal.behind)
        yield from journal.replayed()
    take = read if wish.lateness else replay
    yield from take(
        wish.inputs,
        engine.inputs,
        format=wish.format,
        rows=wish.batch,
        chunk=wish.batch * 128,
        idle=silence,
        rest=rest,
        first=0 if journal is None else journal.first,
        sources=sources,
    )


def _silence(wish: ServeOptions, live: bool) -> float | None:
    """The seconds of silence after which time goes on by the clock, None: never. Live it does, unless `--idle` is
    `never`: an alert is not to wait for a record that may not come."""
    if wish.idle is not None and wish.idle.strip() != "never":
        return waiting(wish.idle, not live)
    if wish.idle is not None or not live:
        return None
    after = f"when nothing has come for {IDLE:g} s, time goes on by the clock (less --lateness)"
    wish.log("idle", f"{after}; `--idle` takes another duration, or `never`", seconds=IDLE)
    return IDLE


def _folder(wish: ServeOptions, engine: Engine, stack: ExitStack) -> Path:
    """Where the server keeps what it keeps, for itself alone; tells which events mean something else than before."""
    if wish.state is None:
        return Path(stack.enter_context(TemporaryDirectory(prefix="semcep-")))
    try:
        wish.state.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise refuse(f"--state {wish.state}: this is a file, not a folder") from None
    except OSError as error:
        raise refuse(f"--state {wish.state}: {(error.strerror or str(error)).lower()}") from None
    changed = stack.enter_context(closing(StateFolder(wish.state, engine.meanings()))).changed
    if changed:
        wish.log("changed", f"{', '.join(changed)}: changed since the last start, or gone", events=changed)
    return wish.state


def _restored(wish: ServeOptions, engine: Engine, made: Callable[..., Engine], blob: bytes) -> Engine:
    """The engine with what was saved; of another program with that of the rules that mean the same."""
    from cep.runtime.prior_state import PriorState

    try:
        if engine.goes_on(blob):
            return engine.restore(blob)
        if engine.explain:
            raise refuse("the program has changed, and with --explain nothing that is begun can go on in another")
        engine = made(before=PriorState(blob))
    except CepError as error:
        if error.code == DAMAGED:
            raise refuse(
                f"--state {wish.state}: {error.message}", "bring it back from a copy, or name another folder"
            ) from None
        wish.log("begins_anew", f"--state {wish.state}: {error}; the program begins anew", "warning", code=error.code)
        return made()
    on, anew = ([rule for rule, goes in engine.carried.items() if goes is way] for way in (True, False))
    what = f"the program has changed; go on: {', '.join(on) or 'none'}; begin empty: {', '.join(anew) or 'none'}"
    wish.log("carried", what, carried=on, empty=anew)
    return engine
