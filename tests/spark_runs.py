"""Programs over files of events, in one process and on Spark, with the events that they derive."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from cep.compile import CompileOptions
from cep.connectors.files import read
from cep.connectors.records.times import iso
from cep.core.schema import Schema
from cep.engine import Engine
from cep.events import Event
from cep.knowledge.updates import FROM, UNTIL
from cep.rules.expressions.typed import TICKS
from cep.spark.driver.query import StopRequest, run_query
from cep.spark.driver.session import OLDEST, java, session
from cep.spark.job import Job, start
from cep.spark.program import ProgramOptions, ShippedProgram
from tests.cases_format import _seconds

THERE = (java() or 0) >= OLDEST
MISSING = f"no Java {OLDEST}: Spark needs one (Debian, Ubuntu: apt install openjdk-17-jre-headless)"
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.sql.streaming.pollingDelay": "10ms",
    "spark.python.authenticate.socketTimeout": "60s",  # of workers that start beside other tests
}


def spark() -> Any:
    """The one session of all tests."""
    return session("local[2]", SETTINGS)


def write(folder: Path, events: Sequence[Event], files: int, random: Random, lateness: int = 0) -> list[str]:
    """Events as JSON Lines in so many files; each may come before others that end up to `lateness` earlier."""
    arriving = sorted(events, key=lambda event: event.end + random.randrange(lateness + 1))
    return deliver(folder, arriving, files, random)


def deliver(
    folder: Path, arriving: Sequence[Event], files: int, random: Random, schemas: Mapping[str, Schema] | None = None
) -> list[str]:
    """The same in this order."""
    folder.mkdir()
    cuts = sorted(random.randrange(len(arriving) + 1) for _ in range(files - 1))
    for number, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(arriving)])):
        lines = [line(event, schemas and schemas[event.type]) for event in arriving[first:last]]
        (folder / f"{number:03}.jsonl").write_text("".join(lines))
    return [str(folder)]


def line(event: Event, schema: Schema | None = None) -> str:
    """A record that gives its values in order."""
    types = [attribute.type for attribute in schema.attributes] if schema else ["any"] * len(event.args)
    read = [v / 1e6 if type in TICKS and v is not None else v for v, type in zip(event.args, types, strict=True)]
    values = json.dumps(read)
    start, end = ("start", "end") if schema is None else (schema.start or "start", schema.end or "end")
    times = f'"{start}": {_seconds(event.start)}, "{end}": {_seconds(event.end)}'
    if schema is not None and schema.time is not None:
        times = f'"{schema.time}": {_seconds(event.end)}'
    return f'{{"type": "{event.type}", {times}, "args": {values}}}\n'


Updates = Sequence[tuple[int, Any, Any]]
"""Changes of knowledge: from when, and the triples that come and go."""


def alone(text: str, inputs: Sequence[str], lateness: int, updates: Updates = (), **options: Any) -> list[Event]:
    """What one process derives of the files."""
    engine = Engine.from_text(text, lateness=lateness, **options)
    for time, add, remove in updates:
        engine.update(time, add, remove)
    found: list[Event] = []
    for batch in read(inputs, engine.inputs):
        assert not batch.dead
        found += of_tables(engine.push(batch.tables).items())
    found += of_tables(engine.close().items())
    assert not engine.take_dead()
    return found


def of_tables(tables: Iterable[tuple[str, Any]]) -> list[Event]:
    return [Event(type, tuple(args), s, e) for type, table in tables for s, e, *args in table.iter_rows()]


Types = Mapping[str, tuple[str, ...]]


def job(
    text: str,
    inputs: Sequence[str],
    folder: Path,
    buckets: int = 2,
    types: Types | None = None,
    knowledge: Any = None,
    updates: Updates = (),
    **options: Any,
) -> Job:
    """What Spark is to do, with all that it writes in a folder."""
    engine = Engine.from_text(text, types=types, knowledge=knowledge)
    pickled = None if knowledge is None else pickle.dumps(knowledge)
    made = ProgramOptions(knowledge=pickled, compiling=CompileOptions(types=types or {}))
    program = ShippedProgram.of(engine, text, "<program>", made, buckets)
    (folder / "state").mkdir(parents=True, exist_ok=True)
    places = str(folder / "derived"), str(folder / "state")
    if updates:
        (folder / "updates.nq").write_text("".join(quads_of(*update) for update in updates))
        options["updates"] = (str(folder / "updates.nq"),)
    return Job(program, tuple(inputs), *places, tuple(program.outputs), **{"format": "jsonl"} | options)


def quads_of(time: int, add: Sequence[Any], remove: Sequence[Any]) -> str:
    """A change of knowledge as two graphs of N-Quads, of which one takes away what the other does not give."""
    when = f'"{iso(time)}"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    lines = []
    for word, triples in ((UNTIL, remove), (FROM, add)):
        graph = f"<urn:{word.rpartition('#')[2]}:{time}>"
        lines += [f"{graph} <{word}> {when} .\n", *(f"{triple} {graph} .\n" for triple in triples)]
    return "".join(lines)


def distributed(wanted: Job) -> list[Event]:
    """What Spark derives; as the command does, again where a Python process of its was slow to start."""
    stop = StopRequest(Path(wanted.checkpoint))
    done = Path(wanted.checkpoint)

    def finished() -> int:
        return len(list(done.glob("**/commits/[0-9]*")))

    run_query(lambda: start(spark(), wanted), stop, False, finished, lambda *quads_of, **more: None)
    return derived(wanted)


def derived(wanted: Job) -> list[Event]:
    """What the folder of the sink holds, read as any reader does."""
    schemas = wanted.program.schemas
    found = []
    for file in sorted(Path(wanted.output).glob("part-*")):
        for text in file.read_text().splitlines():
            record = json.loads(text)
            values = (_value(record[each.name], each.type) for each in schemas[record["type"]].attributes)
            found.append(Event(record["type"], tuple(values), _ticks(record["start"]), _ticks(record["end"])))
    return found


def _value(value: Any, type: str) -> Any:
    if value is None or type not in TICKS:
        return value
    return _ticks(value) if type == "time" else round(value * 1e6)


def _ticks(time: str | float) -> int:
    from cep.connectors.records.times import of_iso

    return of_iso(time) if isinstance(time, str) else round(time * 1e6)
