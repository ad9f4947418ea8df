"""What each output of `cep run --revise` shows of rows that are withdrawn and come again."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import polars as pl
import pyoxigraph as ox
import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from cep.connectors.records.revised import RowVersions
from cep.core.compilation import Compilation
from tests.brokers import Cluster

PROGRAM = """event reading(sensor: string, seq: int, temp: float) TIME time KEY sensor, seq.
hot(S, T) <- reading(S, _, T) WHERE T > 30.
fluent warm(s: string).
initiate warm(S) <- reading(S, _, T) WHERE T > 20.
terminate warm(S) <- reading(S, _, T) WHERE T <= 20.
"""
RECORDS = [
    {"time": "2024-05-01T10:00:00Z", "seq": 1, "temp": 31.0},
    {"time": "2024-05-01T11:00:00Z", "seq": 2, "temp": 10.0},
    {"time": "2024-05-01T10:00:00Z", "seq": 1, "temp": 25.0},  # hot is withdrawn
    {"time": "2024-05-01T10:30:00Z", "seq": 3, "temp": 11.0},  # warm ends at 10:30 now
    {"time": "2024-05-01T10:00:00Z", "seq": 1, "temp": 31.0},  # hot comes again
    {"time": "2024-05-01T10:30:00Z", "seq": 3, "@change": "withdraw"},  # warm ends at 11:00 again
]
CHANGES = ["add hot", "add warm 11:00", "withdraw hot", "withdraw warm 11:00", "add warm 10:30", "add hot"]
CHANGES += ["withdraw warm 10:30", "add warm 11:00"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    Path("rules.cep").write_text(PROGRAM)
    records = ({"type": "reading", "sensor": "a"} | each for each in RECORDS)
    Path("in.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))


def run(*options: str) -> Result:
    arguments = ["run", "rules.cep", "--input", "in.jsonl", "--revise", "6h", "--batch", "1", *options]
    found = CliRunner().invoke(app, arguments, prog_name="cep")
    assert found.exit_code == 0, found.output
    return found


def told(row: dict[str, str]) -> str:
    return f"{row['@change']} {row['type']}" + (f" {row['end'][11:16]}" if row["type"] == "warm" else "")


def test_lines_withdraw_before_they_add() -> None:
    result = run()
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert list(map(told, rows)) == CHANGES
    assert len({row["@id"] for row in rows}) == 2
    assert "5 derived events: warm 3, hot 2" in result.stderr, "what is withdrawn is not derived"
    assert "revised: 6 late changes, 3 events withdrawn, " in result.stderr
    assert "3 of 5 derived events written: warm 3" in run("--only", "warm").stderr


def test_counts_of_revision_are_in_the_log() -> None:
    (stop,) = (
        each for line in run("--log", "json").stderr.splitlines() if (each := json.loads(line))["event"] == "stop"
    )
    revision = stop["revision"]
    assert (revision["late"], revision["revisions"], revision["withdrawn"]) == (6, 4, 3)
    assert revision["keys_replayed"] >= 4 and revision["seconds"] >= 0


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_have_columns_of_changes(suffix: str) -> None:
    run("--output", f"out.{suffix}", "--only", "hot")
    if suffix == "csv":
        with open("out.csv", newline="") as file:
            rows = list(csv.DictReader(file))
    else:
        rows = pl.read_parquet("out.parquet").to_dicts()
    assert [row["@change"] for row in rows] == ["add", "withdraw", "add"]
    assert len({row["@id"] for row in rows}) == 1


@pytest.mark.parametrize("suffix", ["nq", "nt", "ttl", "trig", "jsonld"])
def test_in_rdf_what_is_withdrawn_is_invalidated(suffix: str) -> None:
    run("--output", f"out.{suffix}")
    plain = run("--output", f"final.{suffix}", "--final")
    store = ox.Store()
    store.load(path=f"out.{suffix}")
    prov = "PREFIX prov: <http://www.w3.org/ns/prov#> PREFIX time: <http://www.w3.org/2006/time#> "
    there = "?event time:hasEnd ?end FILTER NOT EXISTS { ?event prov:invalidatedAtTime ?when }"
    found = store.query(f"{prov} SELECT ?event ?end {{ {there} }}")
    now = sorted((row["event"].value.rpartition("event/")[2][32:], row["end"].value[-17:-11]) for row in found)
    assert now == [("/2", "T10:00"), ("/3", "T11:00")], "that of hot, and that of warm"
    gone = list(store.query(f"{prov} SELECT ?when {{ ?event prov:wasInvalidatedBy [ prov:endedAtTime ?when ] }}"))
    assert [row["when"].value for row in gone] == ["2024-05-01T11:00:00Z"] * 3
    assert store.query(f"{prov} ASK {{ ?third prov:wasRevisionOf ?second . ?second prov:wasRevisionOf ?first }}")
    final = ox.Store()
    final.load(path=f"final.{suffix}")
    ends = final.query(f"{prov} SELECT ?end {{ ?event time:hasEnd ?end }}")
    assert sorted(row["end"].value[-17:-11] for row in ends) == ["T10:00", "T11:00"]
    assert not final.query(f"{prov} ASK {{ ?event prov:wasInvalidatedBy ?why }}"), plain.output


def test_of_fluents_what_is_cut_away_is_no_change() -> None:
    rows = [
        json.loads(line)
        for line in run("--from", "2024-05-01T10:05", "--until", "2024-05-01T10:20").stdout.splitlines()
    ]
    assert [(row["@change"], row["start"][11:16], row["end"][11:16]) for row in rows] == [("add", "10:05", "10:20")]
    rows = [json.loads(line) for line in run("--until", "2024-05-01T10:40").stdout.splitlines()]
    ends = [(row["@change"], row["end"][11:16]) for row in rows if row["type"] == "warm"]
    assert ends == [("add", "10:40"), ("withdraw", "10:40"), ("add", "10:30"), ("withdraw", "10:30"), ("add", "10:40")]


def test_what_begins_and_ends_is_withdrawn_by_itself() -> None:
    rows = [json.loads(line) for line in run("--changes", "--only", "warm").stdout.splitlines()]
    assert [(row["@change"], row["@edge"], row["time"][11:16]) for row in rows] == [
        ("add", "begins", "10:00"),
        ("add", "ends", "11:00"),
        ("withdraw", "ends", "11:00"),
        ("add", "ends", "10:30"),
        ("withdraw", "ends", "10:30"),
        ("add", "ends", "11:00"),
    ]


def test_messages_have_versions_and_each_an_id_of_its_own() -> None:
    cluster = Cluster("changes")
    run("--output", f"kafka://{cluster.servers}/changes")
    found = cluster.received("changes", len(CHANGES))
    rows = [(id, key.decode(), json.loads(payload)) for id, key, payload in found]
    assert len({id for id, _, _ in rows}) == len(CHANGES), "one that is added again is no duplicate"
    assert all(key == row["@id"] for _, key, row in rows), "what withdraws a row follows it"
    for id in {row["@id"] for *_, row in rows}:
        own = [row for *_, row in rows if row["@id"] == id]
        assert [row["@version"] for row in own] == list(range(1, len(own) + 1))
        assert [row["@change"] for row in own] == (["add", "withdraw"] * 3)[: len(own)]


def test_versions_of_what_is_final_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cep.connectors.records.revised._MANY", 2)
    versions = RowVersions()
    for number in range(100):
        table = pl.DataFrame({"end": [number], "@id": [f"r{number}"], "@change": [-1]})
        found = versions.numbered({"r": table}, number - 5)["r"]
        assert found["@version"].to_list() == [2]
    assert len(versions._withdrawn) < 20
    assert versions.numbered({"r": table.with_columns(pl.lit(1).alias("@change"))}, 90)["r"]["@version"].item() == 3


def test_clauses_have_no_place_for_what_is_withdrawn() -> None:
    arguments = ["run", "rules.cep", "--input", "in.jsonl", "--revise", "6h", "--output-format", "rtec"]
    found = CliRunner().invoke(app, arguments, prog_name="cep")
    assert found.exit_code == 2
    assert "clauses cannot say that an event is withdrawn" in found.stderr and "--final" in found.stderr
