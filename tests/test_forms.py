"""One form, one id: what a program derives is written alike by a run, a server, on Spark and for a broker."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import polars as pl
import pyoxigraph as ox
import pytest
from typer.testing import CliRunner

from cep.cli import app
from cep.schema import Attribute, Schema
from connectors.rdf import triples
from connectors.rdf.store import Question
from connectors.rdf.words import Words
from connectors.sending import Message, Sending
from connectors.times import SECOND, iso
from tests import spark_runs
from tests.serving import EIGHT, program

RULES = """
event reading(fridge: string, temp: float) TIME time.
event warm(fridge: string, temp: float, twice: float, at: time, lasting: duration).
warm(F, T, T + T, S, D) <- reading(F, T) WHERE T > 7, S = start(), D = duration().
warm(F, T, U, E, D) <- (reading(F, T) SEQ reading(F, U)) WITHIN 2 h WHERE U > T, E = end(), D = duration().
"""
READINGS = [(0, "a", 8.0), (20, "a", 1e-7), (40, "b", 1e22), (61, "b", 2e22)]


def run(rules: Path, out: Path, *more: str) -> bytes:
    told = CliRunner().invoke(app, ["run", str(rules), "-o", str(out), *more])
    assert told.exit_code == 0, told.output
    return out.read_bytes() if out.is_file() else b""


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
    for text in (triples.events(table, schema, Words(), None), triples.readings(table, schema, Words())):
        written = set(ox.parse(text, ox.RdfFormat.N_QUADS))
        store = ox.Store()
        store.extend(written)
        assert set(store) == written and sum("/no_" in one.predicate.value for one in written) == 5 * 200


def test_numbers_and_texts_as_times_give_the_same_lines_and_ids(folder: Path) -> None:
    found = [
        run(folder / "fridge.cep", folder / f"{name}.jsonl", "-i", f"reading={folder}/{name}.csv")
        for name in ("numbers", "texts")
    ]
    assert found[0] == found[1]
    assert json.loads(found[0].splitlines()[0])["end"] == "2024-05-01T08:00:00Z"


@pytest.mark.xdist_group("spark")
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
def test_spark_writes_the_same_lines_so_a_broker_gets_the_same_ids(folder: Path) -> None:
    spark_runs.spark()
    source = ["-i", f"reading={folder}/numbers.csv"]
    here = run(folder / "fridge.cep", folder / "out.jsonl", *source).splitlines()
    out = folder / "out"
    places = ["--checkpoint", str(folder / "state"), "--output-format", "jsonl", "--buckets", "2"]
    run(folder / "fridge.cep", out, "--on", "spark", *source, *places)
    there = [line for file in out.glob("[!._]*") for line in file.read_bytes().splitlines()]
    assert sorted(there) == sorted(here) and len(here) > 3
    ids = [_ids(lines) for lines in (here, there)]
    assert ids[0] == ids[1] and len(ids[0]) == len(set(here))


def _ids(lines: list[bytes]) -> set[str]:
    """Those of messages."""
    sent: list[Message] = []

    class Broker:
        def send(self, messages: list[Message]) -> None:
            sent.extend(messages)

    sending = object.__new__(Sending)
    sending._topic, sending._by, sending._sender = "derived", None, Broker()  # type: ignore[assignment]
    sending.write(b"\n".join(lines))
    return {message.id for message in sent}
