"""Times go out in the form in which they come in: ISO 8601, or counts of the unit or the tick of the input."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from cep.command import app
from cep.connectors.records.times import FIRST, LAST, form_of_ticks, iso, time_text
from cep.connectors.writing.json_lines import as_json, ticks_text
from tests import spark_runs
from tests.long import TIMEOUT, examples

FORMS = ("iso", "seconds", "ms", "us", "ns", "60000000 us", "7 us")
ISO = "2024-05-01T09:00:00Z"
SECONDS = 1_714_554_000
HOT = "event a(k: string%s, v: float%s)%s.\nhot(K, V) <- a(K, V) WHERE V > 5.\n"
SOSA = "PREFIX e: <http://e/>\nevent a(k: string AS e:k, v: float AS e:v) AS e:A TIME e:t.\n" + HOT.partition("\n")[2]
DMTL = "hot(X) :- Diamondminus[0,1]a(X)\n"
RTEC = "initiatedAt(hot(X)=true, T) :- happensAt(a(X), T).\nterminatedAt(hot(X)=true, T) :- happensAt(b(X), T).\n"

A, T = '{"type": "a", "k": "p", "v": 6, "time": %s}', '{"type": "a", "k": "p", "v": 6, "t": %s}'
QUADS = '_:x <http://e/t> "2024-05-01T09:00:00Z" .\n_:x <http://e/k> "p" .\n_:x <http://e/v> "6" .'
JSON_LD = '{"http://e/t": "2024-05-01T09:00:00Z", "http://e/k": "p", "http://e/v": 6}'
PAGE = '{"phenomenonTime": "2024-05-01T09:00:00Z", "result": 6, "parameters": {"k": "p"}}'
OBSERVED = HOT % (" FROM parameters.k", " FROM result", " FORMAT sensorthings")
COUNTED = HOT % ("", "", " TIME t FORMAT epoch {}")
PLAIN = HOT % ("", "", "")
LINES = HOT % ("", "", " FORMAT influx(precision: {!r})")

INPUTS: dict[str, tuple[str, str, str, list[str], object]] = {
    "json, ISO": (PLAIN, "a.jsonl", A % '"2024-05-01T11:00:00+02:00"', [], ISO),
    "json, numbers": (PLAIN, "a.jsonl", A % 1714554000, [], SECONDS),
    "json, a part of a second": (PLAIN, "a.jsonl", A % 1714554000.25, [], 1714554000.25),
    "json, ms": (COUNTED.format("ms"), "a.jsonl", T % 1714554000500, [], 1714554000500),
    "json, us in a text": (COUNTED.format("us"), "a.jsonl", T % '"1714554000000001"', [], 1714554000000001),
    "json, a pattern": (HOT % ("", "", ' TIME t FORMAT "%d.%m.%Y %H"'), "a.jsonl", T % '"01.05.2024 09"', [], ISO),
    "csv, numbers": (PLAIN, "a.csv", "time,k,v\n1714554000,p,6\n", [], SECONDS),
    "csv, ISO": (PLAIN, "a.csv", "time,k,v\n2024-05-01 09:00,p,6\n", [], ISO),
    "tsv, ns": (COUNTED.format("ns"), "a.tsv", "t\tk\tv\n1714554000000000000\tp\t6\n", [], 1714554000000000000),
    "senml": (HOT % (" FROM n", "", " FORMAT senml"), "a.senml", '[{"n": "p", "t": 1714554000, "v": 6}]', [], SECONDS),
    "sensorthings": (OBSERVED, "a.json", PAGE, [], ISO),
    "influx": (HOT % ("", "", " FORMAT influx"), "a.lp", "a,k=p v=6 1714554000000000000", [], 1714554000000000000),
    "influx, ms": (LINES.format("ms").replace("'", '"'), "a.lp", "a,k=p v=6 1714554000000", [], 1714554000000),
    "influx, s": (LINES.format("s").replace("'", '"'), "a.lp", "a,k=p v=6 1714554000", [], SECONDS),
    "nquads": (SOSA, "a.nq", QUADS, [], ISO),
    "jsonld": (SOSA, "a.jsonld", JSON_LD, [], ISO),
    "facts": (DMTL, "a.facts", "a(p)@3.5", [], 3.5),
    "facts, ms": (DMTL, "a.facts", "a(p)@3", ["--tick", "1ms"], 3),
    "facts, min": (DMTL, "a.facts", "a(p)@3.5", ["--tick", "1min"], 3.5),
    "rtec": (RTEC, "a.csv", "a|9|9|p", ["--format", "rtec"], 9),
    "rtec, 5 s": (RTEC, "a.csv", "a|9|9|p", ["--format", "rtec", "--tick", "5s"], 9),
}
"""Rules, a file, its text, options, and the time of its event as it goes out."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def given_input(name: str) -> tuple[list[str], object]:
    """The arguments of a run over an input, and the time that goes out."""
    text, file, data, options, wanted = INPUTS[name]
    rules = "rules" + {DMTL: ".dmtl", RTEC: ".prolog"}.get(text, ".cep")
    Path(rules).write_text(text)
    Path(file).write_text(data)
    return [rules, "--input", file, *options], wanted


def cep(*arguments: str) -> Result:
    result = CliRunner().invoke(app, list(arguments), prog_name="cep")
    assert result.exit_code == 0, result.output
    return result


def start(rows: list[dict[str, Any]]) -> object:
    return next(row["start"] for row in rows if row["type"] == "hot")


@pytest.mark.parametrize("name", INPUTS)
def test_the_form_of_each_reader_is_that_of_each_writer(name: str) -> None:
    arguments, wanted = given_input(name)
    rows = [json.loads(line) for line in cep("run", *arguments).stdout.splitlines()]
    assert start(rows) == wanted
    cep("run", *arguments, "--only", "hot", "--output", "out.csv")
    found = pl.read_csv("out.csv", infer_schema=False)["start"][0]
    assert found == (wanted if isinstance(wanted, str) else json.dumps(wanted))
    cep("run", *arguments, "--only", "hot", "--output", "out.parquet")
    kind = pl.read_parquet("out.parquet").schema["start"]
    assert kind == pl.Datetime("us", "UTC"), "which Parquet has for times, whatever comes in"


@pytest.mark.parametrize(
    "kind, wanted", [(pl.Datetime("ms"), ISO), (pl.Int64(), 1714554000000), (pl.String(), 1714554000000)]
)
def test_the_type_of_a_column_of_parquet_says_its_form(kind: pl.DataType, wanted: object) -> None:
    Path("rules.cep").write_text(COUNTED.format("ms"))
    times = pl.Series("t", [1714554000000]).cast(kind)
    pl.DataFrame([times, pl.Series("k", ["p"]), pl.Series("v", [6.0])]).write_parquet("a.parquet")
    rows = [json.loads(line) for line in cep("run", "rules.cep", "--input", "a.parquet").stdout.splitlines()]
    assert start(rows) == wanted


@pytest.mark.parametrize("name", INPUTS)
def test_the_form_is_that_of_what_is_revised_and_of_what_led_to_it(name: str) -> None:
    arguments, wanted = given_input(name)
    rows = [json.loads(line) for line in cep("run", *arguments, "--revise", "1h", "--explain").stdout.splitlines()]
    assert start(rows) == wanted and {row["@change"] for row in rows} == {"add"}
    (because,) = next(row["because"] for row in rows if row["because"])
    assert (because["type"], because["start"]) == ("a", wanted)
    asked = "hot" if "rules.cep" in arguments else "hot(p)"
    options = ["--input-format" if each == "--format" else each for each in arguments[1:]]
    told = json.loads(cep("explain", arguments[0], asked, *options, "--format", "json").stdout)
    assert told[0]["start"] == wanted


@pytest.mark.parametrize("name", INPUTS)
def test_a_time_of_the_output_can_be_copied_into_options(name: str) -> None:
    arguments, wanted = given_input(name)
    later = wanted + 1 if isinstance(wanted, int) and "rtec" in name else wanted  # what holds begins behind 9
    cut = cep("run", *arguments, "--from", f"{later}", "--until", f"{later}").stdout.splitlines()
    assert start([json.loads(line) for line in cut]) == later
    asked = "hot(p, true)" if "rtec" in name else "hot(p)" if "rules.cep" not in arguments else "hot"
    options = ["--input-format" if each == "--format" else each for each in arguments[1:]]
    for at in (f"{later}", f"{later}/{later}"):
        told = json.loads(cep("explain", arguments[0], asked, *options, "--format", "json", "--at", at).stdout)
        assert told[0]["start"] == wanted
    refused = CliRunner().invoke(app, ["explain", arguments[0], "--not", asked, "--at", f"{later}", *options])
    assert refused.exit_code == 1, "it is there"


def test_a_number_for_an_attribute_that_is_a_time_has_the_unit_of_the_input() -> None:
    Path("rules.cep").write_text("event a(due: time FORMAT epoch ms) TIME t FORMAT epoch ms.\nhot(D) <- a(D).\n")
    Path("a.jsonl").write_text('{"type": "a", "t": 1714554000000, "due": 1714554000500}')
    asked = ["explain", "rules.cep", "hot(1714554000500)", "--input", "a.jsonl", "--at", "1714554000000/1714554000001"]
    assert "hot(1714554000500) at 1714554000000" in cep(*asked).stdout


@pytest.mark.parametrize("option", ["--from", "--until", "--at"])
def test_a_bare_number_is_refused_where_inputs_count_in_several_units(option: str) -> None:
    Path("rules.cep").write_text(
        "event a(k: int) TIME t.\nevent b(k: int) TIME t FORMAT epoch ms.\nhot(K) <- a(K) SEQ b(K).\n"
    )
    Path("in.jsonl").write_text('{"type": "a", "t": 1714554000, "k": 1}\n{"type": "b", "t": 1714554001000, "k": 1}\n')
    command = ["explain", "rules.cep", "hot"] if option == "--at" else ["run", "rules.cep"]
    result = CliRunner().invoke(app, [*command, "--input", "in.jsonl", option, "1714554001"], prog_name="cep")
    assert result.exit_code == 2
    assert f"{option}: `1714554001` is a bare number, and the inputs count time in several units" in result.output
    assert "`2013-02-08T18:00:00Z`" in result.output
    assert cep(*command, "--input", "in.jsonl", option, "2024-05-01T09:00:01Z").exit_code == 0


def test_a_number_too_large_for_its_unit_says_which_unit_it_has() -> None:
    arguments, _ = given_input("json, numbers")
    result = CliRunner().invoke(app, ["run", *arguments, "--until", "1714554000000000"], prog_name="cep")
    assert result.exit_code == 2
    assert "--until: `1714554000000000`: this is more than 36 thousand years" in result.output
    assert "a bare number has the unit of the input's times" in result.output


@pytest.mark.parametrize("name", ["json, ms", "influx", "facts, min", "rtec, 5 s"])
def test_workers_and_rtec_s_clauses_count_likewise(name: str) -> None:
    arguments, wanted = given_input(name)
    rows = [json.loads(line) for line in cep("run", *arguments, "--workers", "2").stdout.splitlines()]
    assert start(rows) == wanted
    if "rtec" in arguments:
        assert cep("run", *arguments, "--output-format", "rtec").stdout == "holdsFor(hot(p)=true, [(10,inf)]).\n"


@pytest.mark.parametrize("name", ["json, ms", "facts, min"])
def test_what_is_read_live_counts_likewise(name: str) -> None:
    arguments, wanted = given_input(name)
    text = INPUTS[name][2]
    live = ["-" if each == INPUTS[name][1] else each for each in arguments]
    format = ["--format", "facts"] if name.startswith("facts") else []
    result = CliRunner().invoke(app, ["run", *live, *format], input=text, prog_name="cep")
    assert start([json.loads(line) for line in result.stdout.splitlines()]) == wanted


@pytest.mark.long
@pytest.mark.xdist_group("spark")
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
@pytest.mark.parametrize("name", ["json, ms", "influx", "facts, min"])
def test_spark_writes_and_reads_the_same_form(name: str, tmp_path: Path) -> None:
    from cep.core.errors import CepError
    from cep.engine import Engine
    from cep.spark.sink.reader import SinkReader

    arguments, wanted = given_input(name)
    command = [sys.executable, "-m", "cep", "run", *arguments, "--on", "spark", "--output-format", "jsonl"]
    command += ["--from", f"{wanted}", "--until", f"{wanted}"]
    places = ["--output", "out", "--checkpoint", "state"]
    result = subprocess.run([*command, *places], capture_output=True, text=True, timeout=TIMEOUT)
    assert result.returncode == 0, result.stderr
    rows = [json.loads(line) for path in Path("out").rglob("*.jsonl") for line in path.read_text().splitlines()]
    assert start(rows) == wanted
    dialect = "datalogmtl" if name.startswith("facts") else None
    engine = Engine.from_text(INPUTS[name][0], dialect=dialect, tick=60_000_000 if dialect else None)
    reader = SinkReader("out", engine.outputs)
    if dialect:
        with pytest.raises(CepError, match="its times count ticks of 60000000 us"):
            list(reader.new())
    else:
        (batch,) = reader.new()
        assert not batch.dead and batch.tables["hot"]["start"].to_list() == [
            SECONDS * 1_000_000 + 500_000 * (name == "json, ms")
        ]


# --- single times ---


@examples(300)
@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=8), st.sampled_from(FORMS))
def test_columns_are_written_as_single_times(ticks: list[int], times: str) -> None:
    column = pl.Series("t", [*ticks, None], dtype=pl.Int64)
    assert ticks_text(column, times).to_list() == [*(time_text(each, times) for each in ticks), None]
    made = as_json(column, "time", times)
    texts = [bytes(made.data[first:last]).decode() for first, last in zip(made.ends, made.ends[1:])]
    quoted = times == "iso"
    assert texts == [
        *(f'"{iso(each)}"' if quoted and FIRST <= each <= LAST else time_text(each, times) for each in ticks),
        "null",
    ]


def test_a_count_is_exact_where_its_decimals_end() -> None:
    rng = random.Random(1)
    for _ in range(1_000):
        time = rng.choice((1, -1)) * rng.randrange(2 ** rng.randint(1, 62))
        for times, unit in (("seconds", 1_000_000), ("ms", 1_000), ("us", 1), ("ns", Fraction(1, 1_000))):
            assert Fraction(time_text(time, times)) * unit == time
    assert time_text(90_000_000, "60000000 us") == "1.5"
    assert time_text(-20_000_000, "60000000 us") == "-0.333333333333"
    assert time_text(0, "ns") == "0" and time_text(-3, "ns") == "-3000"
    assert [form_of_ticks(tick) for tick in (1, 1_000, 1_000_000, 5)] == ["us", "ms", "seconds", "5 us"]
