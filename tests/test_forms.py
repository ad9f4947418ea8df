"""One form, one id: times are written as the input writes them, in one process and on Spark; ids do not say how."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pyoxigraph as ox
import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.connectors.brokers.message_sender import Message
from cep.connectors.brokers.sending import Sending
from cep.connectors.files import read
from cep.connectors.inputs import inputs
from cep.connectors.rdf import triples
from cep.connectors.rdf.store import Question
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.connectors.records.times import SECOND, iso
from cep.connectors.writing import time_format
from cep.connectors.writing.writers import Writer
from cep.core.schema import Attribute, Schema
from cep.engine import Engine
from tests import spark_runs
from tests.brokers import Cluster
from tests.serving import EIGHT, program


def needs_java(test: Any) -> Any:
    grouped = pytest.mark.xdist_group("spark")(test)
    return pytest.mark.long(pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)(grouped))


RULES = """
event reading(fridge: string, temp: float) TIME time.
event warm(fridge: string, temp: float, twice: float, at: time, lasting: duration).
warm(F, T, T + T, S, D) <- reading(F, T) WHERE T > 7, S = start(), D = duration().
warm(F, T, U, E, D) <- (reading(F, T) SEQ reading(F, U)) WITHIN 2 h WHERE U > T, E = end(), D = duration().
"""
READINGS = [(0, "a", 8.0), (20, "a", 1e-7), (40, "b", 1e22), (61, "b", 2e22)]


def run(rules: Path, out: Path | str, *more: str) -> bytes:
    outcome = CliRunner().invoke(app, ["run", str(rules), "-o", str(out), *more])
    assert outcome.exit_code == 0, outcome.output
    return Path(out).read_bytes() if Path(out).is_file() else b""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fridge.cep").write_text(RULES)
    for name in ("numbers", "texts"):
        lines = ["time,fridge,temp"]
        for minute, fridge, temp in READINGS:
            ticks = EIGHT + 60 * minute * SECOND
            lines.append(f"{iso(ticks) if name == 'texts' else ticks // SECOND},{fridge},{temp}")
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_a_file_holds_what_a_server_answers(folder: Path) -> None:
    stored = set()
    with program(folder, RULES) as one:
        one.push(*READINGS)
        one.close()
        found = one.store.ask(Question("CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }", graph="nt")).result()
        stored = set(ox.parse(found.body, ox.RdfFormat.N_TRIPLES))
    for name in ("numbers", "texts"):
        given = run(folder / "fridge.cep", folder / f"{name}.nq", "-i", f"reading={folder}/{name}.csv", "--explain")
        written = {quad.triple for quad in ox.parse(given, ox.RdfFormat.N_QUADS)}
        assert {str(one) for one in written} <= {str(one.triple) for one in stored}
        assert sum("hasEnd" in str(one) for one in written) == sum("hasEnd" in str(one) for one in stored) > 3


def test_literals_are_in_the_form_in_which_the_store_gives_them_back() -> None:
    random = Random(11)
    kinds = ("float", "time", "duration", "int", "bool", "any")
    day, round = 86_400 * SECOND, (0, 1, -1, 3600 * SECOND, 86_400 * SECOND)
    values = {
        "float": [random.choice([random.gauss(0, 1) * 10.0 ** random.randint(-300, 300), 5.0]) for _ in range(600)],
        "time": [random.choice([random.randrange(10**15), random.randrange(10**9) * 10**6]) for _ in range(600)],
        "duration": [random.choice([*round, random.randrange(-day, 9 * day)]) for _ in range(600)],
        "int": [random.randrange(-(2**63), 2**63) for _ in range(600)],
        "bool": [random.random() < 0.5 for _ in range(600)],
    }
    values["float"][:4] = [0.0, float("inf"), float("-inf"), 1e-300]
    missing = {f"no_{kind}": [None if n % 3 else value for n, value in enumerate(values[kind])] for kind in kinds[:5]}
    mixed = [random.choice([values[kind][n] for kind in ("float", "int", "bool")]) for n in range(600)]
    table = pl.DataFrame({"start": values["time"], "end": values["time"], **values, **missing})
    table = table.with_columns(pl.Series("any", mixed, dtype=pl.Object))
    table = table.with_columns(pl.Series("@id", [f"{n:032x}" for n in range(600)]))
    none = tuple(Attribute(f"no_{kind}", kind, True) for kind in kinds[:5])
    schema = Schema("e", tuple(Attribute(kind, kind) for kind in kinds) + none, True, True)
    for text in (
        triples.event_triples([triples.Derived(table, schema, None)], EventVocabulary()),
        triples.reading_triples(table, schema, EventVocabulary()),
    ):
        written = set(ox.parse(text, ox.RdfFormat.N_QUADS))
        store = ox.Store()
        store.extend(written)
        assert set(store) == written and sum("/no_" in one.predicate.value for one in written) == 5 * 200


def spark(folder: Path, out: Path | str, *more: str) -> list[bytes]:
    """The lines that a run on Spark writes."""
    spark_runs.spark()
    given = ["run", str(folder / "fridge.cep"), "--on", "spark", "-o", str(out), "--buckets", "2"]
    given += ["--checkpoint", str(folder / "state"), "--dead-letter", str(folder / "dead"), *more]
    outcome = CliRunner().invoke(app, given)
    assert outcome.exit_code == 0, outcome.output
    return [line for file in Path(out).glob("[!._]*") for line in file.read_bytes().splitlines()]


def times(lines: Iterable[bytes]) -> set[Any]:
    """All that events say of times."""
    return {event[key] for event in map(json.loads, lines) for key in ("start", "end", "at")}


def test_times_are_written_as_the_input_writes_them(folder: Path) -> None:
    found = {
        (name, out): run(folder / "fridge.cep", folder / out, "-i", f"reading={folder}/{name}.csv", "--only", "warm")
        for name in ("numbers", "texts")
        for out in ("out.jsonl", "out.csv")
    }
    numbers, texts = (found[name, "out.jsonl"].splitlines() for name in ("numbers", "texts"))
    seconds = {(EIGHT + 60 * minute * SECOND) // SECOND for minute, _, temp in READINGS if temp > 7}
    assert times(numbers) == seconds
    assert times(texts) == {iso(one * SECOND) for one in seconds}
    assert pl.read_csv(found["numbers", "out.csv"])["end"].to_list() == [json.loads(line)["end"] for line in numbers]
    assert b'"because": [{"type": "reading", "start": 1714550400, "end": 1714550400,' in run(
        folder / "fridge.cep", folder / "why.jsonl", "-i", f"reading={folder}/numbers.csv", "--explain"
    )


def test_what_comes_live_writes_them_as_its_first_record_does_unless_there_is_a_file(folder: Path) -> None:
    text = "time,fridge,temp\nnever,a,8\n1714550400,a,8\n2024-05-01T09:00:00Z,a,8\n"
    for source, form in (([], int), (["-i", f"reading={folder}/texts.csv"], str)):
        given = ["run", str(folder / "fridge.cep"), "-i", "reading=-", "--format", "csv", *source]
        outcome = CliRunner().invoke(app, given, input=text)
        assert outcome.exit_code == 0 and {type(one) for one in times(outcome.stdout.encode().splitlines())} == {form}


@needs_java
def test_spark_writes_them_likewise_and_goes_on_with_it(folder: Path) -> None:
    days = folder / "days"
    days.mkdir()
    shutil.copy(folder / "numbers.csv", days / "1.csv")
    both = ["-i", f"reading={days}", "--output-format", "jsonl", "--lateness", "1 s"]
    spark(folder, folder / "out", *both, "--once")
    (days / "0.csv").write_text((folder / "texts.csv").read_text().replace("2024", "2025"))  # by name the first now
    later = b"2024-01-01T00:00:00Z,a,8.0\n"
    (days / "2.csv").write_bytes(b"time,fridge,temp\n" + later)  # late
    there = spark(folder, folder / "out", *both)
    (days / "2.csv").unlink()
    (days / "0.csv").rename(days / "3.csv")
    here = run(folder / "fridge.cep", folder / "out.jsonl", *both[:2]).splitlines()
    assert sorted(there) == sorted(here) and len(times(here)) == 6
    assert all(isinstance(one, int) for one in times(there))
    (letter,) = [json.loads(line) for file in (folder / "dead").iterdir() for line in file.read_text().splitlines()]
    assert (letter["code"], letter["record"]["time"]) == ("late", 1704067200)


@needs_java
def test_an_id_does_not_depend_on_how_times_are_written(folder: Path) -> None:
    cluster = Cluster("derived")
    place = f"kafka://{cluster.servers}/derived"
    lines = len(run(folder / "fridge.cep", folder / "out.jsonl", "-i", f"reading={folder}/texts.csv").splitlines())
    for name in ("texts", "numbers"):
        run(folder / "fridge.cep", place, "-i", f"reading={folder}/{name}.csv")
    spark(folder, place, "-i", f"reading={folder}/numbers.csv")
    found = cluster.received("derived", 3 * lines)
    rounds = [found[:lines], found[lines : 2 * lines], found[2 * lines :]]
    assert all({id for id, _, _ in each} == {id for id, _, _ in found} for each in rounds)
    assert len({id for id, _, _ in found}) == lines > 3
    texts, numbers, there = ({payload for _, _, payload in each} for each in rounds)
    assert numbers == there and times(texts) == {iso(one * SECOND) for one in times(numbers)}


def test_an_id_is_that_of_the_line_with_iso_8601(folder: Path) -> None:
    (table,) = [pl.DataFrame({"start": [EIGHT, EIGHT], "end": [EIGHT, EIGHT + 1], "because": ["[]", "[]"]})]
    schemas = {"e": Schema("e", (), True, True)}
    sent: list[Message] = []

    class Broker:
        def send(self, messages: list[Message]) -> None:
            sent.extend(messages)

    for form in ("iso", "seconds"):
        writer = Writer(str(folder / "unused"), schemas, times=form, inputs={})
        writer.close()
        sending = object.__new__(Sending)
        sending._topic, sending._by, sending._sender = "{type}", None, Broker()  # type: ignore[assignment]
        sending._revised, sending._seen = False, Counter()
        writer._sinks = {"kafka://host/{type}": sending}
        writer.write({"e": table})
    first, second = sent[:2], sent[2:]
    assert [one.id for one in first] == [blake2b(one.payload, digest_size=16).hexdigest() for one in first]
    assert [one.id for one in second] == [one.id for one in first]
    assert [one.topic for one in second] == ["e", "e"]
    assert second[1].payload == b'{"type": "e", "start": 1714550400, "end": 1714550400.000001, "because": []}'


MIXED = "event a(v: int). event b(v: int) TIME at. hit(V) <- a(V). hit(V) <- b(V)."
A = '{"type": "a", "time": "2024-05-01T08:00:00Z", "v": 1}'
B = '{"type": "b", "at": 5, "v": 1}'


@pytest.mark.parametrize(
    "files, form",
    [
        (
            {"1.jsonl": [A, B]},
            "iso",
        ),
        ({"1.jsonl": [B, A]}, "s"),
        ({"1.jsonl": ['{"type": "b", "at": 5.5e0, "v": 1, "x": {"y": "\\u0041"}}']}, "s"),
        ({"1.jsonl": ["nothing", '{"type": "b", "at": "2024", "v": 1}', B]}, "s"),
        ({"1.jsonl": ['{"type": "a", "start": 5, "end": 6, "v": 1}']}, "s"),
        ({"1.jsonl": ["{}"], "2.jsonl": [B]}, "s"),
        ({"a.csv": ["time,v", "x,1", ",1", " 5,no", "2024-05-01,1", "5,1"], "b.csv": ["time,v", "5,1"]}, "iso"),
        ({"a.csv": ["v", "1"], "b.csv": ["time,v", " 5 ,1"]}, "s"),
        ({"a.csv": ["time,v"], "b.csv": ["time,v", "2024-05-01,1"], "c.csv": ["time,v", "5,1"]}, "iso"),
        ({"a.csv": [], "b.csv": []}, None),
    ],
)
def test_it_is_the_form_of_the_first_record_of_the_first_file(tmp_path: Path, files: Any, form: str | None) -> None:
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    schemas = Engine.from_text(MIXED).inputs
    csv = any(name.endswith("csv") for name in files)
    found = inputs([f"a={tmp_path}" if csv else str(tmp_path)], schemas)
    assert time_format.form(found, schemas) == ("seconds" if form == "s" else form)
    for chunk in () if csv else (1, 1 << 20):
        outcome = [batch.times for batch in read([str(tmp_path)], schemas, chunk=chunk) if batch.times]
        assert outcome[0] == time_format.form(found, schemas)
