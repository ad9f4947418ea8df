"""Delta and Iceberg tables as inputs: what their files hold now, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import deltalake
import polars as pl
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config

from tests.cli_runs import cep

RULES = """event reading(box: string, temp: float) TIME time.
event hot(box: string, temp: float).
hot(B, T) <- reading(B, T) WHERE T > 7.
"""
TIMES = [datetime(2024, 5, 1, hour, tzinfo=UTC) for hour in range(4)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__WAREHOUSE", f"file://{tmp_path}/ware house")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # which is read once
    Path("rules.cep").write_text(RULES)


def readings(*temps: float, begin: int = 0) -> pl.DataFrame:
    return pl.DataFrame({"time": TIMES[begin : begin + len(temps)], "box": ["a"] * len(temps), "temp": temps})


def hot(*arguments: str) -> list[float]:
    result = cep("run", "rules.cep", *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line)["temp"] for line in result.stdout.splitlines()]


def refused(name: str, *more: str) -> str:
    result = cep("run", "rules.cep", "--input", name, *more)
    assert result.exit_code == 2, result.output
    return result.stderr


def test_a_delta_table_is_read_as_it_is_now() -> None:
    readings(9.0, 9.5, 9.9, 8.0).write_delta("my table")
    readings(8.0, 6.0).write_delta("my table", mode="overwrite")
    readings(9.0, begin=2).write_delta("my table", mode="append")
    assert len(list(Path("my table").glob("*.parquet"))) == 3
    assert hot("--input", "reading=delta:my table") == [8.0, 9.0]
    labels = "start,end\n2024-05-01T00:00Z,2024-05-01T01:00Z\n"
    Path("labels.csv").write_text(labels)
    result = cep(
        *("backtest", "rules.cep", "--input", "reading=delta:my table", "--labels", "labels.csv"),
        *("--detect", "hot", "--merge", "1 h", "--json"),
    )
    assert json.loads(result.stdout)["records"] == 3


def test_an_iceberg_table_is_read_as_it_is_now() -> None:
    catalog = load_catalog("here")
    catalog.create_namespace("plant")
    first = readings(9.5, 6.0).to_arrow()
    table = catalog.create_table("plant.readings", first.schema)
    table.append(first)
    table.append(readings(8.0, begin=2).to_arrow())
    assert hot("--input", "reading=iceberg:here/plant.readings") == [9.5, 8.0]


def test_tables_whose_files_are_not_their_rows_are_refused() -> None:
    readings(9.0).write_delta("parts", delta_write_options={"partition_by": "box"})
    assert "it is partitioned by `box`, which its files do not contain" in refused("reading=delta:parts")
    assert "--input delta:" in refused("reading=delta:none") and "the folder is not a Delta table" in refused(
        "delta:none"
    )
    readings(9.0).write_delta("empty")
    deltalake.DeltaTable("empty").delete()
    assert "the table has no rows" in refused("reading=delta:empty")
    assert "an input table has no options" in refused("reading=delta:parts?append=x")
    spark = ("--on", "spark", "--output", "out", "--checkpoint", "state")
    assert "Spark does not read tables" in refused("reading=delta:parts", *spark)
