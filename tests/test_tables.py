"""Derived events as a Delta or an Iceberg table: replaced, or added once, by one commit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import deltalake
import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.utils.config import Config

from cep.connectors.tables.names import TableName, table_name
from cep.core.errors import CepError
from cep.core.extras import install_command
from tests.cli_runs import EVENTS, FIRE, cep, events, here, jsonl
from tests.object_store import reached

HERE = pytest.fixture(autouse=True)(here)
TWO = """
event heat(room: string, temp: float).
event fire(room: string, temp: float).
event hot(place: string, temp: int).
fire(R, T) <- heat(R, T) WHERE T > 85.
hot(R, 7) <- heat(R, T) WHERE T > 50.
"""


@pytest.fixture(autouse=True)
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__WAREHOUSE", f"file://{tmp_path}/warehouse")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # which is read once


def rows(name: str) -> list[Mapping[str, Any]]:
    """The rows of a table, in an order."""
    kind, _, place = name.partition("?")[0].partition(":")
    if kind == "delta":
        found = pl.from_arrow(deltalake.DeltaTable(place).to_pyarrow_table())
    else:
        from pyiceberg.catalog import load_catalog

        found = pl.from_arrow(load_catalog("here").load_table(place.partition("/")[2]).scan().to_arrow())
    assert isinstance(found, pl.DataFrame)
    return found.sort(sorted(found.columns)).to_dicts()


def run(output: str, *more: str, rules: str = "fire.cep", given: str = "events.jsonl") -> str:
    done = cep("run", rules, "--input", given, "--output", output, *more)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("table", ["delta:fires", "iceberg:here/plant.fires"])
def test_a_run_replaces_the_table_or_adds_to_it_once(table: str) -> None:
    for _ in range(2):
        run(table)
        (found,) = rows(table)
        assert (found["room"], found["temp"]) == ("attic", 80.5)
        assert (found["start"].timestamp(), found["end"].timestamp()) == (1, 4)
    Path("more.jsonl").write_text(jsonl([{**one, "time": one["time"] + 100} for one in EVENTS]))
    run(f"{table}?append=second", given="more.jsonl")
    assert "an earlier run has already added these rows, so there is nothing to do" in run(
        f"{table}?append=second", given="more.jsonl"
    )
    run(f"{table}?append=third", given="more.jsonl")
    assert [one["start"].timestamp() for one in rows(table)] == [1, 101, 101]
    run(table)
    assert len(rows(table)) == 1


@pytest.mark.parametrize("table", ["delta:both", "iceberg:here/plant.both"])
def test_several_events_are_one_table(table: str) -> None:
    Path("two.cep").write_text(TWO)
    Path("heat.jsonl").write_text(jsonl(EVENTS[1:]))
    run(table, rules="two.cep", given="heat.jsonl")
    found = [(one["type"], one["room"], one["place"], one["fire_temp"], one["hot_temp"]) for one in rows(table)]
    assert sorted(found, key=str) == [
        ("fire", "cellar", None, 90.0, None),
        ("hot", None, "attic", None, 7),
        ("hot", None, "cellar", None, 7),
    ]
    run(table, "--only", "fire", rules="two.cep", given="heat.jsonl")
    assert [one["temp"] for one in rows(table)] == [90.0]


def test_lineage_and_changes_are_columns() -> None:
    run("delta:why", "--explain")
    (found,) = rows("delta:why")
    assert [one["type"] for one in __import__("json").loads(found["because"])] == ["smoke", "heat"]
    run("delta:changes", "--revise", "1h")
    assert [(one["@change"], one["room"]) for one in rows("delta:changes")] == [("add", "attic")]


def test_a_table_has_what_a_file_has(tmp_path: Path) -> None:
    run("fires.parquet")
    run("delta:fires")
    file, table = pl.read_parquet("fires.parquet"), pl.read_delta("fires")
    assert file.equals(table.select(file.columns)) and file.schema == table.schema


def test_small_files_are_put_together() -> None:
    from pyiceberg.catalog import load_catalog

    for number in range(4):
        run(f"delta:fires?append={number}&compact=4")
        run(f"iceberg:here/plant.fires?append={number}&compact=4")
    assert len(deltalake.DeltaTable("fires").file_uris()) == 1 and len(rows("delta:fires")) == 4
    there = load_catalog("here").load_table("plant.fires")
    (one,) = there.scan().plan_files()
    assert one.file.record_count == 4 and rows("iceberg:here/plant.fires") == rows("delta:fires")
    assert len(list(Path("warehouse/plant/fires/data").iterdir())) == 5, "older snapshots can still be read"


def test_a_table_in_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    with reached(monkeypatch) as bucket:
        for name in ("a", "b", "a"):
            run(f"delta:s3://bucket/fires?append={name}", given=bucket.put("in.jsonl", jsonl(EVENTS)))
        assert sum(key.endswith(".parquet") for key in bucket.keys("fires/")) == 2
        assert [key for key in bucket.keys("fires/_delta_log/") if key.endswith(".json")] == [
            f"fires/_delta_log/{number:020}.json" for number in range(2)
        ]
        done = cep("run", "fire.cep", "--input", "events.jsonl", "--output", "delta:s3://bukket/fires")
        assert done.exit_code == 2 and "bukket" in done.output


def test_two_runs_of_one_name_add_once() -> None:
    from cep.connectors.tables import delta

    name = table_name("delta:fires?append=x")
    run("delta:fires?append=w")
    there = delta.table(name)
    assert there is not None
    batches = there.to_pyarrow_table().to_reader
    delta.write(name, batches)
    assert delta.added(name, delta.table(name)) and not delta.added(name, delta.table(name), 2)
    old = deltalake.DeltaTable("fires", version=0)
    with pytest.raises(deltalake.exceptions.CommitFailedError):  # it was opened before the other one was done
        deltalake.write_deltalake(
            old,
            batches(),
            mode="append",
            commit_properties=deltalake.CommitProperties(app_transactions=[deltalake.Transaction("semcep:x", 1)]),
        )
    assert len(rows("delta:fires")) == 2


def test_a_place_that_has_no_room_for_the_rows_is_refused_before_the_run() -> None:
    """A file, a folder of others, and a table whose columns have other types: nothing is made to fit."""
    Path("notes.txt").write_text("")
    Path("others").mkdir()
    Path("others/notes.txt").write_text("")
    deltalake.write_deltalake("typed", pa.table({"start": ["yesterday"]}))
    for output, said in (
        ("delta:notes.txt", "this is a file, but a Delta table is a folder\nhint: use the name of a folder"),
        ("delta:others", "the folder has files, but is not a Delta table"),
        ("delta:typed?append=a", "`start` is string in the table, but time in this run"),
    ):
        done = cep("run", "fire.cep", "--input", "events.jsonl", "--output", output)
        assert done.exit_code == 2 and said in done.output and "dead" not in done.output, done.output
    assert rows("delta:typed") == [{"start": "yesterday"}]
    assert cep("run", "fire.cep", "--input", "events.jsonl", "--output", "delta:typed").exit_code == 0


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("delta:", "the name of the table is missing or not valid"),
        ("iceberg:here", "the name of the table is missing or not valid"),
        ("iceberg:nowhere/a.b", "PYICEBERG_CATALOG__NOWHERE__URI"),
        ("delta:fires?apend=a", "did you mean `append`?"),
        ("delta:fires?append=", "`append` has no value"),
        ("delta:fires?compact=x", "is not a number of at least 2"),
        ("iceberg:here/a.b?compact=1", "is not a number of at least 2"),
        ("delta:events.jsonl", "is an input as well"),
        ("delta:s3:///", "no bucket is named"),
    ],
)
def test_refusals(output: str, said: str) -> None:
    done = cep("run", "fire.cep", "--input", "events.jsonl", "--output", output)
    assert done.exit_code == 2 and said in done.output, done.output
    done = cep("run", "fire.cep", "--input", "events.jsonl", "--output", "delta:fires", "--output-format", "csv")
    assert done.exit_code == 2 and "a table is not written as csv" in done.output


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_library_that_is_not_there(kind: str) -> None:
    module = {"delta": "deltalake", "iceberg": "pyiceberg"}[kind]
    table = {"delta": "delta:x", "iceberg": "iceberg:here/a.b"}[kind]
    code = f"import sys; sys.modules[{module!r}] = None; from cep.command import main; main()"
    command = [sys.executable, "-c", code, "run", "fire.cep", "--input", "events.jsonl", "--output", table]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and f"hint: {install_command(kind)}" in done.stderr, done.stderr


def test_what_fails_leaves_the_table_as_it_is() -> None:
    run("delta:fires")
    Path("bad.parquet").write_bytes(b"no parquet")
    done = cep("run", "fire.cep", "--input", "heat=bad.parquet", "--lateness", "0", "--output", "delta:fires")
    assert done.exit_code == 2
    assert len(rows("delta:fires")) == 1 and deltalake.DeltaTable("fires").version() == 0
    assert events(jsonl([FIRE])) == [FIRE]


def test_names() -> None:
    assert table_name("iceberg:c/a.b.t?append=x") == TableName("iceberg", "c/a.b.t", "x")
    assert table_name("delta:s3://b//t?compact=9") == TableName("delta", "s3://b/t", None, 9)
    with pytest.raises(CepError, match="the name of the table"):
        table_name("iceberg:c/t")
