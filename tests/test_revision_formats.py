"""Records that come late, are corrected and withdrawn change the same in every format, or are refused with a reason."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.connectors.brokers.messages import Inbox, Messages
from cep.connectors.files import read
from cep.connectors.formats.known import NAMES
from cep.connectors.frames.reading import read_data
from cep.connectors.inputs import Input
from cep.connectors.records.batch import Batch
from cep.connectors.records.revised import changes_of, says_changes, with_changes
from cep.connectors.records.times import of_iso
from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.engine import Engine
from cep.events import Event
from tests.keyed_programs import keyed
from tests.long import TIMEOUT, seeds
from tests.programs import program, window
from tests.revised_forms import FORMS, SECOND, Change, Form, is_fluent, table
from tests.revising_programs import KEYS, revising_events, revising_program
from tests.test_equivalence import types
from tests.test_revision import Rows, rows, tables
from tests.test_serve import Server

BEGIN = 1_714_554_000 * SECOND
DIALECTS = {"facts": "datalogmtl", "rtec": "rtec"}
FLUENTS = """
fluent up(k: string) START s END e.
fluent lately(k: string).
lately(K) WHILE ONCE[0, 0.000003 s] up(K).
above(K, V) <- b(K, V) WHERE up(K).
ended(K) <- END OF up(K).
"""


def test_all_formats_are_held_to_it() -> None:
    assert FORMS.keys() == set(NAMES)


# --- random programs and records ---


def own_case(rng: random.Random, form: Form) -> tuple[str, list[Event], list[str]]:
    """A program of the language without declarations of its events, records of it, and the events with a KEY."""
    if rng.random() < 0.7:
        text = revising_program(rng)
        text = text if form.missing else text.replace("string?", "string")
        some = [each for each in re.findall(r"event (\w+)", text) if rng.random() < 0.6]
        events = revising_events(rng, text, some)
        if form.fluents is None:
            text += FLUENTS
            events += _intervals(rng, form)
    else:
        made = rng.choice((program, window, keyed))(rng)
        text, events = made.text, list(made.events)
        names = [event.type for event in events if event.args]
        some = [each for each in dict.fromkeys(names) if rng.random() < 0.6]
    return text, events, some


def _intervals(rng: random.Random, form: Form) -> list[Event]:
    """Records of the fluent `up`, some open, of which a later one may close some."""
    found = []
    for _ in range(rng.randint(0, 12)):
        start = rng.randint(0, 40)
        end = None if rng.random() < 0.2 else start + rng.randint(0, 9)
        bounds = rng.choice(("[]", "[)", "(]", "()")) if form.bounds and end is not None and end > start else "[]"
        found.append(Event("up", (rng.choice(KEYS), end, bounds), start, start))
        if end is None and rng.random() < 0.5:
            end = start + rng.randint(1, 9)
            found.append(Event("up", (found[-1].args[0], end, "[]"), start, start))
    return found


FACTS = (
    "H(X) :- P(X), Diamondminus[0,2]Q(X)",
    "I(X) :- Boxminus[0,3]P(X)",
    "J(X) :- P(X) Since[0,4] Q(X)",
    "L(X) :- S(X,Y), P(Y), not Q(X)",
    "Boxplus[0,2]P(X) :- Q(X), S(X,X)",
)


def facts_case(rng: random.Random) -> tuple[str, list[Event]]:
    text = "\n".join(rng.sample(FACTS, rng.randint(1, len(FACTS)))) + "\n"
    found = []
    for _ in range(rng.randint(1, 25)):
        name = rng.choice([each for each in "PQS" if f"{each}(" in text])
        start = rng.randint(0, 40) * SECOND // 2
        end = rng.choice((start, start + SECOND, start + 5 * SECOND, None))
        bounds = "[]" if start == end else rng.choice(("[]", "[)", "(]", "()")) if end is not None else "[)"
        found.append(Event(name, (*rng.choices("ab", k=1 + (name == "S")), end, bounds), start, start))
    return text, found


RTEC = """initiatedAt(f(X)=true, T) :- happensAt(a(X, V), T), V > 1.
terminatedAt(f(X)=true, T) :- happensAt(b(X), T).
"""
MORE = (
    "terminatedAt(f(X)=true, T) :- happensAt(a(X, 0), T), holdsAt(near(X)=true, T).",
    "collectIntervals(near(X)=true).",
    "initiatedAt(g(X)=V, T) :- happensAt(a(X, V), T), \\+ holdsAt(f(X)=true, T).",
    "holdsFor(h(X)=true, I) :- holdsFor(f(X)=true, I1), holdsFor(near(X)=true, I2), intersect_all([I1,I2], I).",
)


def rtec_case(rng: random.Random) -> tuple[str, list[Event]]:
    text = RTEC + "\n".join(rng.sample(MORE, rng.randint(1, len(MORE)))) + "\n"
    found = []
    for _ in range(rng.randint(1, 25)):
        name = rng.choice(("a", "a", "b", *(["near"] if "near" in text else [])))
        time = rng.randint(1, 40) * SECOND
        args: tuple[object, ...] = (rng.choice("pq"),)
        if name == "near":
            args = (*args, "true", rng.choice((time + SECOND, time + 6 * SECOND, None)), "(]")
        found.append(Event(name, (*args, rng.randint(0, 3)) if name == "a" else args, time, time))
    return text, found


def changed(rng: random.Random, events: Sequence[Event], keys: Iterable[str]) -> list[Change]:
    """Records in some order, a part of them twice, or withdrawn; of those with a KEY some by that and their time."""
    if rng.random() < 0.5:
        events = rng.sample(events, len(events))
    changes: list[Change] = []
    for number, event in enumerate(events):
        changes.append((event, 1))
        if rng.random() < 0.3:
            gone = rng.choice(events[: number + 1])
            if gone.type in keys and rng.random() < 0.5:
                gone = replace(gone, args=(gone.args[0], *[None] * (len(gone.args) - 1)))
            changes.append((gone, -1))
        if rng.random() < 0.1:
            changes.append((event, 1))
    return changes


def declared(text: str, schemas: Mapping[str, Schema], form: Form, keys: Sequence[str]) -> str:
    """The program with declarations of what comes in, as the format has it. KeyError: it has no room for one."""
    rest = re.sub(r"(?m)^(event \w+\b.*|fluent \w+\(.*\) START .*)\.\n?", "", text)
    lines = []
    for name, schema in schemas.items():
        key = f" KEY {schema.attributes[0].name}" if name in keys else ""
        lines.append(f"{'fluent' if is_fluent(schema) else 'event'} {name}{form.declared(schema)}{key}.")
    return "\n".join([*lines, rest])


def case(rng: random.Random, form: Form) -> tuple[str, dict[str, object], list[Event], list[str]]:
    """A program as its events come in the format, how it is compiled, its records, and the events with a KEY. KeyError,
    CepError: what is drawn is no program, or has no room in the format."""
    if dialect := DIALECTS.get(form.format):
        text, events = facts_case(rng) if form.format == "facts" else rtec_case(rng)
        return text, {"dialect": dialect}, events, []
    text, events, keys = own_case(rng, form)
    plain = Engine.from_text(text, types=types(event for event in events if event.type != "up"))
    if form.instants:
        events = [replace(event, start=event.end) for event in events]
    if not form.missing:
        events = [event for event in events if None not in event.args]
    events = [replace(event, start=BEGIN + event.start, end=BEGIN + event.end) for event in events]
    events = [_later(event) if is_fluent(plain.inputs[event.type]) else event
              for event in events if event.type in plain.inputs]  # fmt: skip
    keys = [each for each in keys if each in plain.inputs]
    return declared(text, plain.inputs, form, keys), {}, events, keys


def _later(record: Event) -> Event:
    """The record of a fluent with its end as much later as its start."""
    *args, end, bounds = record.args
    return replace(record, args=(*args, None if end is None else BEGIN + end, bounds))


# --- reading ---


def batches(way: str, form: Form, folder: Path, engine: Engine, changes: Sequence[Change]) -> Iterator[Batch]:
    """The records, read as files, as messages, or as frames of Python."""
    schemas = with_changes(engine.inputs)
    if way == "files":
        size = len(changes) % 300 + 30
        yield from read(form.files(folder, engine.inputs, changes), schemas, format=form.format, chunk=size, rows=7)
        return
    if way == "frames":
        first = 0
        for type, run in groupby(changes, lambda change: change[0].type):
            frame = table(engine.inputs[type], list(run))
            yield from read_data({type: frame}, schemas, None, first)
            first += frame.height
        return
    each: Iterable[str | None] = engine.inputs if form.each_type else [None]
    inboxes = {type: Inbox(Input("topic", form.format, type, form.each_type), schemas) for type in each}
    for number, (event, sign) in enumerate(changes):
        payload = form.text(engine.inputs[event.type], [(event, sign)])
        inbox = inboxes[event.type if form.each_type else None]
        yield inbox.batch(Messages(["topic"], [number], [payload]), number)


def outcome(engine: Engine, pushes: Iterable[Mapping[str, object]]) -> tuple[Rows, Counter[str]]:
    """The rows that stand at the end, and the dead letters. Records come in turn, as a run takes them."""
    net = Rows()
    for each in [*pushes, None]:
        if each is not None:
            engine.receive(each, in_turn=True)  # type: ignore[arg-type]
        made = engine.close() if each is None else engine.advance(engine.reached)
        net.subtract(rows(made, -1))
        net.update(rows(made, 1))
    return +net, Counter(row.code for row in engine.take_dead())


@pytest.mark.parametrize("seed", seeds(24))
@pytest.mark.parametrize("format", FORMS)
def test_the_law_in_every_format(format: str, seed: int, tmp_path: Path) -> None:
    """Reading a stream in each format gives the same as pushing its events."""
    rng, form = random.Random(f"{format} {seed}"), FORMS[format]
    try:
        text, options, events, keys = case(rng, form)
        length = rng.choice((3, 10, 100, 10**9)) * (SECOND if options else 1)
        engine = Engine.from_text(text, revise=length, **options)
    except (KeyError, CepError):
        return  # some of what is drawn is no program, or has no room in the format
    changes = changed(rng, events, keys)
    way = rng.choice(form.ways)
    read_ = list(changes_of(batches(way, form, tmp_path, engine, changes)))
    assert [one for batch in read_ for one in batch.dead] == [], (text, changes)
    assert sum(batch.rows for batch in read_) == len(changes)
    expected = outcome(Engine.from_text(text, revise=length, **options), _pieces(rng, engine, changes))
    assert outcome(engine, (batch.tables for batch in read_)) == expected, (text, changes, length)


def _pieces(rng: random.Random, engine: Engine, changes: Sequence[Change]) -> Iterator[Mapping[str, object]]:
    at, every = 0, list(enumerate(changes))
    while at < len(every):
        piece = every[at : at + rng.choice((1, 2, 5))]
        at += len(piece)
        yield tables(engine, piece)


# --- what a format cannot, and what is said of it ---

OWNS = "event a(k: string, v: int).\nhot(K, V) <- a(K, V) WHERE V > 5.\n"
OWN = """event a(k: string, v: int).
fluent up(k: string) START s END e.
fluent lately(k: string).
hot(K, V) <- a(K, V) WHERE V > 5.
lately(K) WHILE ONCE[0, 2 s] up(K).
"""


@pytest.mark.parametrize("format", [name for name, form in FORMS.items() if form.key])
def test_a_dialect_has_no_key_and_its_format_no_event_with_one(format: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a|1|1|p|3\n")
    engine = Engine.from_text("event a(k: string, v: int) KEY k.\nhot(K, V) <- a(K, V).\n")
    with pytest.raises(CepError, match=re.escape(str(FORMS[format].key))) as refused:
        list(read([str(tmp_path / "in")], with_changes(engine.inputs), format=format))
    assert refused.value.hint == f"use `--dialect {DIALECTS[format]}` or another format"


@pytest.mark.parametrize("format", [name for name, form in FORMS.items() if form.fluents])
def test_a_format_without_fluents_says_why_and_what_to_write(format: str, tmp_path: Path) -> None:
    text = declared(OWN, Engine.from_text(OWN).inputs, FORMS[format], [])
    (tmp_path / "in").write_text("[]\n")
    for schemas in (Engine.from_text(text).inputs, with_changes(Engine.from_text(text).inputs)):
        with pytest.raises(CepError, match=str(FORMS[format].fluents)) as refused:
            list(read([f"up={tmp_path / 'in'}"], schemas, format=format))
        assert "`initiate` and `terminate`" in str(refused.value.hint)


def test_clauses_that_withdraw_are_dead_letters_where_nothing_is_revised(tmp_path: Path) -> None:
    (tmp_path / "in.facts").write_text("P(a)@3\n- P(a)@3\n-P(a) @ [4, 5]\n-P(a)@oo\n")
    engine = Engine.from_text(FACTS[1], dialect="datalogmtl")
    (batch,) = read([str(tmp_path / "in.facts")], engine.inputs)
    assert batch.rows == 1
    assert [(one.line, one.code, one.text) for one in batch.dead] == [
        (4, "time", "-P(a)@oo"), (2, "change", "- P(a)@3"), (3, "change", "-P(a) @ [4, 5]"),
    ]  # fmt: skip
    assert batch.dead[1].reason == "withdraws a record, which needs `--revise`"


@pytest.mark.parametrize("format", ["jsonl", "senml", "sensorthings", "influx", "jsonld"])
def test_messages_that_say_changes_are_seen_where_nothing_is_revised(format: str) -> None:
    text = OWNS if FORMS[format].fluents else OWN
    engine = Engine.from_text(declared(text, Engine.from_text(text).inputs, FORMS[format], []))
    for sign in (1, -1):
        (batch,) = batches("messages", FORMS[format], Path(), engine, [(Event("a", ("p", 6), BEGIN, BEGIN), sign)])
        assert batch.rows == 1 and says_changes(batch) == (sign < 0)


# --- commands ---


def _a(key: str, value: int, time: int) -> Event:
    return Event("a", (key, value), BEGIN + time * SECOND, BEGIN + time * SECOND)


def _held(name: str, start: int, end: int, bounds: str, *args: str) -> Event:
    time = BEGIN + start * SECOND
    return Event(name, (*args, BEGIN + end * SECOND, bounds), time, time)


RECORDS = [(_a("p", 6, 10), 1), (_a("q", 7, 20), 1), (_a("q", 8, 5), 1), (_a("p", 9, 10), 1), (_a("q", 7, 20), -1)]
INTERVALS = [(_held("up", 30, 40, "[]", "x"), 1), (_held("up", 31, 35, "[]", "y"), 1),
             (_held("up", 30, 40, "[]", "x"), -1), (_held("up", 3, 6, "[]", "z"), 1)]  # fmt: skip
HELD = ["lately z 3 8", "lately y 31 37", "up z 3 6", "up y 31 35"]


def told(format: str, folder: Path) -> tuple[Path, list[str], list[str]]:
    """Rules, inputs, and what the records come to."""
    form = FORMS[format]
    if format == "facts":
        text, name = "Q(X) :- Diamondminus[0,2]P(X)\n", "rules.dmtl"
        changes = [(_held("P", 1, 3, "[)", "a"), 1), (_held("P", 9, 9, "[]", "b"), 1),
                   (_held("P", 4, 5, "[]", "a"), 1), (_held("P", 9, 9, "[]", "b"), -1)]  # fmt: skip
        expected = ["P a 1 3", "P a 4 5", "Q a 1 7"]
    elif format == "rtec":
        text, name = RTEC + MORE[1] + "\n", "rules.prolog"
        ends = [(Event("b", ("p",), BEGIN + time * SECOND, BEGIN + time * SECOND), 1) for time in (20, 15)]
        changes = [(_a("p", 6, 10), 1), *ends, (_a("q", 3, 2), 1), (_a("q", 3, 2), -1),
                   (_held("near", 3, 9, "(]", "p", "true"), 1)]  # fmt: skip
        expected = ["f p 10 15", "near p 3 9"]
    else:
        text, name = OWNS if form.fluents else OWN, "rules.cep"
        text = declared(text, Engine.from_text(text).inputs, form, ["a"])
        changes = RECORDS + ([] if form.fluents else INTERVALS)
        expected = ["hot q 5 5", "hot p 10 10", *([] if form.fluents else HELD)]
    (folder / name).write_text(text)
    schemas = Engine.from_text(text, dialect=DIALECTS.get(format)).inputs
    inputs = [part for spec in form.files(folder, schemas, changes) for part in ("--input", spec)]
    return folder / name, [*inputs, "--format", format], sorted(expected)


def _seconds(time: int | str) -> int:
    """Seconds of ISO 8601, of seconds, or of the nanoseconds of line protocol."""
    return of_iso(time) // SECOND if isinstance(time, str) else time if time < 10**12 else time // 10**9


def net(lines: Iterable[str]) -> list[str]:
    """The rows that stand at the end: name, key, start and end."""
    found = Counter[str]()
    for row in map(json.loads, lines):
        times = (_seconds(row[key]) for key in ("start", "end"))
        key = next(row[name] for name in ("k", "x", "arg1") if name in row)
        text = f"{row['type']} {key} {' '.join(str(time - BEGIN // SECOND) for time in times)}"
        found[text] += {"add": 1, "withdraw": -1}[row["@change"]]
    return sorted((+found).elements())


@pytest.mark.parametrize("format", FORMS)
def test_a_run_puts_right_what_comes_late_in_every_format(format: str, tmp_path: Path) -> None:
    rules, inputs, expected = told(format, tmp_path)
    arguments = ["run", str(rules), *inputs, "--revise", "1h", "--batch", "1", "--strict"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert net(result.stdout.splitlines()) == expected
    result = CliRunner().invoke(app, [*arguments, "--workers", "2"])
    assert result.exit_code == 0 and net(result.stdout.splitlines()) == expected, result.output


@pytest.mark.long
@pytest.mark.parametrize("format", FORMS)
def test_spark_puts_right_what_comes_late_in_every_format(format: str, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    rules, inputs, expected = told(format, tmp_path)
    places = ["--output", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "checkpoint")]
    arguments = ["run", str(rules), *inputs, "--revise", "1h", "--on", "spark", "--output-format", "jsonl", *places]
    command = [sys.executable, "-m", "cep", *arguments, "--lateness", "0s", "--files", "1", "--strict"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert result.returncode == 0, result.stderr
    found = [line for path in (tmp_path / "out").rglob("*.jsonl") for line in path.read_text().splitlines()]
    assert net(found) == expected


HELD_IN_STORE = """SELECT ?t ?b ?e { ?x a ?t ; time:hasBeginning/time:inXSDDateTimeStamp ?b .
    OPTIONAL { ?x time:hasEnd/time:inXSDDateTimeStamp ?e } FILTER(?t != prov:Activity) } ORDER BY ?t ?b"""


@pytest.mark.long
@pytest.mark.parametrize("format", FORMS)
def test_a_server_puts_right_what_comes_late_in_every_format(format: str, tmp_path: Path) -> None:
    rules, inputs, expected = told(format, tmp_path)
    server = Server(str(rules), *inputs, "--revise", "1h", "--batch", "1", "--explain")
    try:
        next(line for line in server.lines if line["event"] == "input_ended")
        found = [
            f"{type.rpartition('/')[2]} {' '.join(str(of_iso(time) // SECOND - BEGIN // SECOND) for time in times)}"
            for type, *times in server.rows(HELD_IN_STORE, len(expected))
        ]
    finally:
        server.end(signal.SIGTERM)
    assert sorted(found) == sorted(re.sub(r" \w+", "", text, count=1) for text in expected)
